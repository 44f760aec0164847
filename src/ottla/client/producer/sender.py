"""What to send to whom, and what to do with the answers.

Pure: time, metadata and luck are brought along; whoever calls holds the producer's lock.  `ship`
says what leaves now; `answered` and `lost` say what became of it, as a list of `Settled`, which the
caller passes on to the users without the lock.

Order is kept by three rules.  A line sends its first batch only.  A batch that was sent before
waits until everything before it is answered.  Numbers of records (`Line.sequence`) begin anew,
under the next epoch, only when nothing of the line is in flight, and nothing is in doubt that could
have been written under the old one: so what is sent again is never written twice.  (A broker that
restarted may have forgotten what it has written; see `Line.suspects`.)
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.client.backoff import Backoff
from ottla.client.cluster_view import ClusterView
from ottla.client.durations import seconds
from ottla.client.producer.batch import NO_STAMP, PendingBatch, Stamp
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.delivery import NO_OFFSET
from ottla.client.producer.lines import Accumulator, Line
from ottla.client.producer.numbering import Numbering, keeps_its_number
from ottla.errors import (
    DeadlineError,
    ErrorCode,
    OttlaError,
    exception_for,
)
from ottla.wire.messages.produce import PartitionProduceResponse

NEVER_MS: Final = float("inf")

_WRITTEN: Final = frozenset({0, int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)})
"""The broker has a batch.  Plain numbers: to make a code of each costs more than all the rest."""

_MISNUMBERED: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""The broker did not write a batch, because of its number."""

_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class Shipment(NamedTuple):
    """Batches for one node: one request."""

    node_id: int
    batches: tuple[PendingBatch, ...]


class Settled(NamedTuple):
    """It is known what became of a batch."""

    batch: PendingBatch
    record_count: int
    base_offset: int
    append_time_ms: int
    error: OttlaError | None


class Sender:
    """The batches of a producer on their way."""

    def __init__(self, config: ProducerConfig, lines: Accumulator) -> None:
        self._config = config
        self._lines = lines
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._is_idempotent = config.is_idempotent
        self._is_transactional = config.transactional_id is not None
        self._numbering = Numbering(is_transactional=self._is_transactional)
        self.hurry_count = 0
        """Who waits for everything to be sent (`flush`, `close`), or for memory."""
        self.failure: OttlaError | None = None
        """Why nothing can be delivered any more, if so."""
        self.lacks_leader = False
        """Whether a line had to wait for metadata, in the last `ship`."""
        self.may_write: Callable[[Line], bool] = lambda line: True
        """Whether a transaction knows of the partition of a line."""
        self.on_failed: Callable[[OttlaError], None] = lambda error: None
        """Told of each batch that failed for good."""
        self.hopeless: Callable[[], OttlaError | None] = lambda: None
        """Why what waits will never be sent, if so: its transaction is being undone."""

    # Who we are.

    @property
    def has_waiting(self) -> bool:
        """Whether something waits to be sent."""
        for line in self._lines.busy:  # noqa: SIM110, a generator costs more than the rest
            if line.queue:
                return True
        return False

    @property
    def needs_producer_id(self) -> bool:
        """Whether something waits for a producer id."""
        return (
            self._is_idempotent
            and not self._is_transactional
            and not self._numbering.is_known
            and self.has_waiting
        )

    def identified(self, producer_id: int, epoch: int) -> None:
        """From now on batches bear this id and epoch, where a line begins to number anew."""
        self._numbering.identified(producer_id, epoch)
        if self._is_transactional:
            for line in self._lines.lines.values():
                if (line.producer_id, line.epoch) != (producer_id, epoch):
                    assert line.is_idle, "a transaction begins with empty lines"
                    line.number_anew(producer_id, epoch)

    # What to send.

    def ship(
        self, now_ms: float, cluster: ClusterView, is_ready: Callable[[int], bool]
    ) -> list[Shipment]:
        """What leaves now: at most one request to each node; call it again for more."""
        self.lacks_leader = False
        chosen: dict[int, list[Line]] = {}
        sizes: dict[int, int] = {}
        for line in self._lines.busy:
            if not line.queue or self.due_of(line, now_ms) > now_ms or not self._may_send(line):
                continue
            node_id = cluster.leader_id(line.tp)
            if node_id is None:
                self.lacks_leader = True
                continue
            size_bytes = line.queue[0].size_bytes
            if node_id in chosen:
                if sizes[node_id] + size_bytes <= self._config.max_request_size:
                    chosen[node_id].append(line)
                    sizes[node_id] += size_bytes
            elif is_ready(node_id):
                chosen[node_id], sizes[node_id] = [line], size_bytes
        shipments = []
        for node_id, lines in chosen.items():
            shipments.append(Shipment(node_id, tuple([self._depart(line) for line in lines])))
        return shipments

    def due_ms(self, now_ms: float) -> float:
        """When `ship` or `expire` may have something to do, if nothing happens before."""
        # What was given up may be in flight for long: nobody looks for its answer.
        oldest = next(iter(self._lines.incomplete), None)
        soonest = NEVER_MS if oldest is None else self._expires_ms(oldest)
        for line in self._lines.busy:
            if line.queue:
                due_ms = self.due_of(line, now_ms)
                if due_ms > now_ms:
                    soonest = min(soonest, due_ms)
        return soonest

    def _expires_ms(self, batch: PendingBatch) -> float:
        return batch.created_ms + self._config.delivery_timeout_ms

    def due_of(self, line: Line, now_ms: float) -> float:
        """When the first batch of a line has waited long enough."""
        first = line.queue[0]
        if first.attempt_count or first.not_before_ms > now_ms:
            return first.not_before_ms
        is_full = len(line.queue) > 1 or first is not line.open
        if is_full or self.hurry_count or first.size_bytes >= line.limit_bytes:
            return 0
        if first.is_awaited and not line.in_flight:
            return 0  # somebody waits for it, and nothing that is on its way would bring company
        return first.created_ms + self._config.linger_ms

    def _may_send(self, line: Line) -> bool:
        first = line.queue[0]
        if (
            first.stamp is not None
            and keeps_its_number(first)
            and any(sent.order < first.order for sent in line.in_flight)
        ):
            return False
        if not self._is_idempotent:
            one_at_a_time = self._config.max_in_flight_requests_per_connection == 1
            return not (one_at_a_time and line.in_flight)
        if self._is_transactional and (
            not self._numbering.is_known or line.is_broken or not self.may_write(line)
        ):
            return False
        if line.in_flight and not line.is_established:
            return False
        return self._numbering.is_ready(line)

    def _depart(self, line: Line) -> PendingBatch:
        batch = self._lines.take(line)
        if not self._is_idempotent:
            batch.stamp = batch.stamp or NO_STAMP
        return batch

    def stamp(self, batch: PendingBatch) -> Stamp:
        """Who sends a batch, and its number: once given, it keeps them."""
        return self._numbering.stamp(batch) if self._is_idempotent else NO_STAMP

    # What became of it.

    def answered(
        self, batch: PendingBatch, told: PartitionProduceResponse, now_ms: float, luck: float
    ) -> list[Settled]:
        """A broker told what became of a batch."""
        self._arrived(batch)
        if batch.is_done:
            return []  # it was given up
        if told.error_code in _WRITTEN:
            batch.line.is_established = True
            offset = NO_OFFSET if told.error_code else told.base_offset
            settled = []
            if batch.line.suspects:
                suspects, batch.line.suspects = batch.line.suspects, []
                settled += [self._settle(written, None, NO_OFFSET, -1) for written in suspects]
            settled.append(self._settle(batch, None, offset, told.log_append_time_ms))
            return settled
        code = ErrorCode.of(told.error_code)
        error = exception_for(told.error_code, told.error_message or "")
        if code in _TOO_LARGE and batch.record_count > 1:
            return self._split(batch)
        if code in _MISNUMBERED and self._is_idempotent:
            return self._misnumbered(batch, error, now_ms, luck)
        if error.retriable and self._may_retry(batch):
            return self._retry(batch, now_ms, luck)
        return [self._fail(batch, error)]

    def lost(
        self, batch: PendingBatch, error: OttlaError, now_ms: float, luck: float
    ) -> list[Settled]:
        """No answer came: nobody knows whether a batch was written."""
        self._arrived(batch)
        if batch.is_done:
            return []
        if error.retriable and self._may_retry(batch):
            return self._retry(batch, now_ms, luck)
        return [self._fail(batch, error)]

    def unanswered(self, batch: PendingBatch) -> list[Settled]:
        """It was sent, and nobody will answer: acks=0."""
        self._arrived(batch)
        return [self._settle(batch, None, NO_OFFSET, -1)]

    def expire(self, now_ms: float) -> list[Settled]:
        """Give up what took longer than delivery.timeout.ms, and what will never be sent."""
        timeout_ms = self._config.delivery_timeout_ms
        settled = []
        if (reason := self.hopeless()) is not None:
            settled += self.fail_all(reason, with_sent=False)
        oldest = next(iter(self._lines.incomplete), None)
        if oldest is None or self._expires_ms(oldest) > now_ms:
            return settled  # nearly always
        for batch in list(self._lines.incomplete):
            if self._expires_ms(batch) > now_ms:
                break
            was = "not sent" if batch.stamp is None else "sent, without an answer"
            error = DeadlineError(f"not delivered within {seconds(timeout_ms)} ({was})")
            settled.append(self._give_up(batch, error))
        return settled

    def fail_all(self, error: OttlaError, *, with_sent: bool = True) -> list[Settled]:
        """Give up everything, or everything that is not on its way."""
        sent = {batch for line in self._lines.busy for batch in line.in_flight}
        return [
            self._give_up(batch, error)
            for batch in list(self._lines.incomplete)
            if with_sent or batch not in sent
        ]

    def break_off(self, error: OttlaError) -> list[Settled]:
        """Nothing can be delivered any more: say so, now and to whatever comes."""
        self.failure = error
        return self.fail_all(error)

    @property
    def in_flight_count(self) -> int:
        return sum(len(line.in_flight) for line in self._lines.busy)

    def _arrived(self, batch: PendingBatch) -> None:
        batch.line.in_flight.remove(batch)
        self._lines.rest(batch.line)

    def _settle(
        self, batch: PendingBatch, error: OttlaError | None, offset: int, append_time_ms: int
    ) -> Settled:
        self._lines.finish(batch)
        self._lines.rest(batch.line)
        return Settled(batch, batch.record_count, offset, append_time_ms, error)

    def _fail(self, batch: PendingBatch, error: OttlaError) -> Settled:
        if batch.stamp is not None:
            batch.line.is_broken = True  # its numbers are gone
        if error.fatal and not self._is_transactional:
            self.failure = error
        self.on_failed(error)
        return self._settle(batch, error, NO_OFFSET, -1)

    def _give_up(self, batch: PendingBatch, error: OttlaError) -> Settled:
        line = batch.line
        if batch in line.suspects:
            line.suspects.remove(batch)
        if batch in line.queue:
            line.queue.remove(batch)
            if batch is line.open:
                line.open = None
        return self._fail(batch, error)

    def _may_retry(self, batch: PendingBatch) -> bool:
        return batch.attempt_count < self._config.retries and self.failure is None

    def _retry(self, batch: PendingBatch, now_ms: float, luck: float) -> list[Settled]:
        batch.is_in_doubt = True
        self._send_again(batch, now_ms, luck)
        return []

    def _misnumbered(
        self, batch: PendingBatch, error: OttlaError, now_ms: float, luck: float
    ) -> list[Settled]:
        """Not written, as what was before it is missing; or written, and forgotten."""
        line = batch.line
        others = (*line.queue, *line.in_flight)
        is_first = line.refused_sequence is None and all(b.order > batch.order for b in others)
        if not self._may_retry(batch):
            return [self._fail(batch, error)]
        if is_first and batch.is_in_doubt and any(behind.is_in_doubt for behind in others):
            line.suspects.append(batch)
            return []
        if is_first and self._is_transactional:
            return [self._fail(batch, error)]
        if is_first:
            # Nothing is left that could fill the gap before it, and so nothing after it is written.
            line.is_broken = True
            suspects, line.suspects = line.suspects, []
            line.put_back(suspects)
            for waiting in line.queue:
                waiting.is_in_doubt = False
        batch.is_in_doubt = False
        self._send_again(batch, now_ms, luck)
        return []

    def _send_again(self, batch: PendingBatch, now_ms: float, luck: float) -> None:
        batch.attempt_count += 1
        batch.not_before_ms = now_ms + self._backoff.delay_ms(batch.attempt_count, luck)
        batch.line.put_back((batch,))
        self._lines.busy[batch.line] = None

    def _split(self, batch: PendingBatch) -> list[Settled]:
        """The broker wrote nothing of it: send two halves."""
        line = batch.line
        if batch.stamp is not None and self._is_idempotent and line.refused_sequence is None:
            line.refused_sequence = batch.stamp.sequence
        line.shrink(batch.size_bytes)
        batch.is_done = True
        self._lines.split(batch)
        return []
