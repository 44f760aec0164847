"""Moves batches from the lines to the brokers, on the I/O thread.

A shell around `Sender`, which decides.  Whoever appends a record calls `wake` when a batch began;
everything else happens here: posting, answers, expiry, the producer id, and telling users what
became of their records.  Users are told without the lock, so their callbacks may send.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable

from ottla.client.cluster_view import Leader, Node
from ottla.client.connection import After
from ottla.client.duty import Duty
from ottla.client.engine import Engine
from ottla.client.producer.batch import PendingBatch
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.delivery import Failures, Outcome
from ottla.client.producer.lines import Accumulator
from ottla.client.producer.requests import by_partition, produce_request, words_of
from ottla.client.producer.sender import NEVER_MS, Sender, Settled, Shipment
from ottla.client.producer.workshop import Workshop
from ottla.errors import (
    ClosedError,
    DeadlineError,
    OttlaError,
    RefreshError,
    SerializationError,
    TransportError,
    exception_for,
)
from ottla.model import TopicPartition
from ottla.records.builder import BatchOptions
from ottla.records.compression import Compression
from ottla.values import dataclass
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse

log = logging.getLogger(__name__)


def batch_options(config: ProducerConfig) -> BatchOptions:
    """How the batches of a producer are compressed."""
    codec = Compression.named(config.compression_type)
    level: int | None = None
    match codec:
        case Compression.GZIP:
            level = None if config.compression_gzip_level == -1 else config.compression_gzip_level
        case Compression.LZ4:
            level = config.compression_lz4_level
        case Compression.ZSTD:
            level = config.compression_zstd_level
        case Compression.NONE | Compression.SNAPPY:
            pass
    return BatchOptions(compression=codec, compression_level=level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """What the callers of a producer and its I/O thread share.

    `lock` guards all but `failures`, and `workshop`, which takes it by itself.
    """

    lock: threading.Lock
    room: threading.Condition
    """Of `lock`: memory was freed."""
    lines: Accumulator
    sender: Sender
    workshop: Workshop
    failures: Failures


class Pump:
    """See the module's words."""

    def __init__(
        self,
        engine: Engine,
        config: ProducerConfig,
        stock: Stock,
        *,
        call_soon: Callable[[Callable[[], object]], None],
        max_version: Callable[[], int | None],
    ) -> None:
        """`max_version` is of Produce, where a transaction has to do without newer ones."""
        self._engine = engine
        self._config = config
        self._stock = stock
        self._options = batch_options(config)
        self._call_soon = call_soon
        self._max_version = max_version
        self._duty = Duty(self._work)
        self._is_awake = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._identifying: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[None]] = []
        """Who waits for anything to be settled, in this loop."""
        self.memory_waiters: list[Callable[[], None]] = []
        """Called once, on the I/O thread, when memory was freed."""
        self._owes_room = False
        """Whether memory was freed, and who waits for it is told with the next turn."""

    # From any thread.

    def wake(self) -> None:
        """There may be something to do."""
        if self._is_awake:
            return
        try:
            self._is_awake = True
            self._call_soon(self._duty.turn)
        except BaseException:
            # An interrupt, perhaps before anybody was called; and others relied on us meanwhile.
            self._is_awake = False
            self._call_soon(self._duty.turn)
            raise

    def expect(self, due_ms: float) -> None:
        """A batch began, and is due then: `wake` where nothing else would by that time."""
        if not self._duty.rings_by(due_ms / 1000):
            self.wake()

    @property
    def is_running_here(self) -> bool:
        """Whether this is the I/O thread, which must not wait for itself."""
        return self._loop is not None and asyncio._get_running_loop() is self._loop

    def hasten(self, batch: PendingBatch) -> None:
        """Somebody waits for a batch."""
        if not batch.is_awaited:
            batch.is_awaited = True
            self.wake()

    # On the I/O thread.

    async def run(self) -> None:
        """Work for ever."""
        self._engine.subscribe(self._duty.call)
        self._loop = asyncio.get_running_loop()
        try:
            await self._duty.run()
        finally:
            self.abandon(ClosedError("the producer was closed before the record was delivered"))

    def abandon(self, error: OttlaError) -> None:
        """Give up everything that is not delivered, and whatever comes."""
        with self._stock.lock:
            settled = self._stock.sender.break_off(self._stock.sender.failure or error)
        self._stock.workshop.close(self._stock.sender.failure or error)
        self.publish(settled)
        self._tell_of_room()

    async def settled(self) -> None:
        """Wait until something may be settled."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    async def flush(self) -> None:
        """Send everything that is there now, and wait until it is settled."""
        stock = self._stock
        with stock.lock:
            pending = list(stock.lines.incomplete)
            stock.sender.hurry_count += 1
        try:
            self._duty.call()
            while pending := [batch for batch in pending if not _is_settled(batch)]:
                await self.settled()
        finally:
            with stock.lock:
                stock.sender.hurry_count -= 1

    async def landed(self) -> None:
        """Wait until nothing is in flight."""
        while True:
            with self._stock.lock:
                if not self._stock.sender.in_flight_count:
                    return
            await self.settled()

    def publish(self, settled: Iterable[Settled], *, owes_room: bool = False) -> None:
        """Tell users, and whoever waits for memory, what became of batches.

        With `owes_room` a turn follows, and tells of the memory when the next batches are ready to
        be sent: who waits for it fills others while those are written, and not before.
        """
        told = list(settled)
        for _, record_count, _, _, error in told:
            name = "record-send-total" if error is None else "record-error-total"
            self._engine.metrics.count(name, record_count)
        if owes_room:
            self._owes_room = True
        elif told:
            self._tell_of_room()
        # Also if nothing is settled: what came back may be all that was in flight.
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        # The last thing: threads that are woken want to run, and not to wait for us.
        for batch, record_count, base_offset, append_time_ms, error in told:
            delivery = batch.delivery
            delivery.settle(
                Outcome(batch.first_index, record_count, base_offset, append_time_ms, error)
            )
            if delivery.is_done and delivery.error is not None:
                self._stock.failures.add(delivery)

    def _tell_of_room(self) -> None:
        self._owes_room = False
        if not (self.memory_waiters or self._stock.sender.hurry_count):
            return  # who waits for memory is in a hurry since before it was freed
        with self._stock.room:
            self._stock.room.notify_all()
            waiters, self.memory_waiters = self.memory_waiters, []
        for waiter in waiters:
            waiter()

    def _now_ms(self) -> float:
        assert self._loop is not None, "it does not run"
        return self._loop.time() * 1000

    def _work(self) -> float | None:
        """Do what there is to do; returns when to look again at the latest."""
        stock, sender, engine = self._stock, self._stock.sender, self._engine
        self._is_awake = False
        now_ms = self._now_ms()
        look_ms = NEVER_MS
        with stock.lock:
            expired = sender.expire(now_ms)
        if expired:
            self.publish(expired)
        may_more_leave = True
        while may_more_leave:
            with stock.lock:
                shipments = sender.ship(now_ms, engine.metadata.cluster, engine.is_ready)
                may_more_leave = bool(shipments) and sender.has_waiting
            if shipments and self._config.linger_ms:
                # Where something leaves, more may come soon: look then, and nobody need wake us.
                look_ms = now_ms + self._config.linger_ms
            # To nodes that got nothing, nothing would leave if we asked again.
            has_room = [self._post(shipment, now_ms) for shipment in shipments]
            may_more_leave = (may_more_leave and any(has_room)) or stock.workshop.build_next()
        with stock.lock:
            needs_id, due_ms = sender.needs_producer_id, sender.due_ms(now_ms)
        due_ms = min(due_ms, look_ms)
        if needs_id and self._identifying is None:
            self._identifying = engine.spawn("producer id", self._identify())
        if sender.lacks_leader:
            self._ask_for_leaders(int(now_ms))
        return None if due_ms == NEVER_MS else due_ms / 1000

    def _ask_for_leaders(self, now_ms: int) -> None:
        with self._stock.lock:
            topics = sorted({line.topic for line in self._stock.lines.busy})
        self._engine.metadata.want(topics, now_ms)
        self._engine.metadata.refresh()
        self._engine.wake_metadata()

    async def _identify(self) -> None:
        """Ask for a producer id: what waits for it waits no longer than delivery.timeout.ms."""
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=self._config.transaction_timeout_ms
        )
        try:
            answer = await self._engine.call(request, InitProducerIdResponse)
            if answer.error_code:
                raise exception_for(answer.error_code, "a producer id")
        except DeadlineError as error:
            log.warning("no producer id yet: %s", error)
        except OttlaError as error:
            self.abandon(error)
        else:
            with self._stock.lock:
                self._stock.sender.identified(answer.producer_id, answer.producer_epoch)
        self._identifying = None
        self._duty.call()

    def _post(self, shipment: Shipment, now_ms: float) -> bool:
        """Send it; whether the node may take more of them."""
        ready = [batch for batch in shipment.batches if self._made_ready(batch)]
        if not ready:
            return True
        if len(ready) < len(shipment.batches):
            shipment = Shipment(shipment.node_id, tuple(ready))
        for batch in ready:
            self._engine.metadata.touch(batch.line.topic, int(now_ms))
        request, max_version = produce_request(
            shipment, self._config, self._engine.cluster, self._max_version()
        )
        if self._owes_room:
            self._tell_of_room()
        try:
            if self._config.acks == 0:
                self._engine.tell(request, to=shipment.node_id, max_version=max_version)
            else:
                return self._engine.hand(
                    request,
                    ProduceResponse,
                    lambda told: self._on_answer(shipment, told),
                    to=shipment.node_id,
                    max_version=max_version,
                )
        except OttlaError as error:
            self._lost(shipment, error)
            return True
        with self._stock.lock:
            settled = [s for b in ready for s in self._stock.sender.unanswered(b)]
        self.publish(settled)
        return True

    def _made_ready(self, batch: PendingBatch) -> bool:
        stamp = self._stock.sender.stamp(batch)
        try:
            batch.made_ready(stamp, self._options)
        except (OttlaError, TypeError, ValueError) as error:
            batch.stamp = stamp  # its number is gone
            failure = SerializationError(f"the batch cannot be written: {error}")
            failure.__cause__ = error
            with self._stock.lock:
                settled = self._stock.sender.lost(batch, failure, 0, 0)
            self.publish(settled)
            return False
        self._engine.metrics.batched(len(batch.data or b""))
        return True

    def _on_answer(self, shipment: Shipment, told: ProduceResponse | OttlaError) -> After | None:
        """Returns what is to be done when all answers that came with this one are told."""
        if isinstance(told, OttlaError):
            self._lost(shipment, told)
            return None
        return self._go_on if self._take(shipment, told) else None

    def _go_on(self) -> None:
        self._duty.turn()
        if self._owes_room:
            self._tell_of_room()

    def _take(self, shipment: Shipment, answer: ProduceResponse) -> bool:
        """Settle what was answered; whether something else waits to be sent."""
        words = words_of(shipment, answer, self._engine.cluster)
        is_plain = not [word for word in words if word is None or word.error_code]
        now_ms = luck = 0.0
        if not is_plain:  # something may be sent again
            now_ms, luck = self._now_ms(), self._engine.ports.entropy.random()
        settled: list[Settled] = []
        with self._stock.lock:
            for batch, word in zip(shipment.batches, words, strict=True):
                if word is None:
                    nothing = TransportError(f"no word of {batch.line.tp} in the broker's answer")
                    settled += self._stock.sender.lost(batch, nothing, now_ms, luck)
                else:
                    settled += self._stock.sender.answered(batch, word, now_ms, luck)
            has_waiting = self._stock.sender.has_waiting
        if not is_plain:
            _learn(self._engine, by_partition(answer, self._engine.cluster), answer)
        self.publish(settled, owes_room=has_waiting)
        return has_waiting

    def _lost(self, shipment: Shipment, error: OttlaError) -> None:
        if not self._engine.is_closed:
            self._engine.hear(error)
        now_ms, luck = self._now_ms(), self._engine.ports.entropy.random()
        with self._stock.lock:
            settled = [
                s
                for batch in shipment.batches
                for s in self._stock.sender.lost(batch, error, now_ms, luck)
            ]
        self.publish(settled)
        self._duty.call()


def _is_settled(batch: PendingBatch) -> bool:
    # A batch that was split is done when its parts are.
    return batch.delivery.is_done


def _learn(
    engine: Engine, told: dict[TopicPartition, PartitionProduceResponse], answer: ProduceResponse
) -> None:
    """Find out better, where the answer says that we were wrong (KIP-951)."""
    leaders = {}
    for tp, word in told.items():
        if word.error_code:
            error = exception_for(word.error_code, str(tp))
            if isinstance(error, RefreshError):
                engine.hear(error)
            if word.current_leader.leader_id >= 0:
                leader = word.current_leader
                leaders[tp] = Leader(leader.leader_id, leader.leader_epoch)
    if leaders:
        nodes = [Node(n.node_id, n.host, n.port, n.rack) for n in answer.node_endpoints]
        engine.metadata.update_leaders(leaders, nodes)
