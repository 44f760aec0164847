"""What a log knows of its producers: sequence numbers, epochs, open transactions.

The state is a function of the batches in the log, and changes in `apply` and nowhere else: live,
at recovery and after a truncation.  `check` decides, before a batch is appended, whether it may be.

An idempotent producer numbers its records per partition.  The last five batches of each producer
are kept, because so many requests may be in flight: one that comes again is answered with the
offset it got, and everything else must follow the last one without a gap.  A batch that is older
than those five is out of order like any other, and a producer that nobody remembers may begin with
any number: Kafka gave up DUPLICATE_SEQUENCE_NUMBER and UNKNOWN_PRODUCER_ID for these (KIP-360).
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from ottla.errors import ErrorCode, StorageError, WireError
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Batch
from ottla.records.control import Marker, read_marker
from ottla.records.crc32c import crc32c
from ottla.records.shapes import MAX_INT32, NO_TIMESTAMP_MS
from ottla.values import NamedTuple, dataclass
from ottla.wire.stored.log_files import ProducerEntry, ProducerSnapshot
from ottla.wire.stored.versioned import decode_versioned, encode_versioned

MAX_BATCHES: Final = 5
"""How many batches of a producer are remembered; a client has no more requests in flight."""

MAX_EPOCH: Final = 2**15 - 1
NO_COORDINATOR_EPOCH: Final = -1

EPOCH_BUMPS: Final = 2
"""The transaction version from which on every end of a transaction bumps the epoch (KIP-890)."""

_SNAPSHOT_VERSION: Final = 1
_CRC_AT: Final = 2
_CHECKED_FROM: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why a batch is not appended."""

    error: ErrorCode
    """NONE for a batch that is in the log already."""
    message: str | None = None
    base_offset: int = -1
    last_offset: int = -1
    """Of the batch that is in the log already.  Wait for it as for a new one: maybe it is not yet
    durable."""
    timestamp_ms: int = NO_TIMESTAMP_MS


class CompletedTransaction(NamedTuple):
    """What a marker ended.  A marker without any batch before it ends nothing."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Of the marker."""
    is_aborted: bool
    last_stable_offset: int
    """Up to here everything is decided, once this transaction is."""


class AppendedBatch(NamedTuple):
    """One of the last batches of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        if self.last_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.last_sequence - self.offset_delta) & MAX_INT32

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class ProducerState:
    """What is known of one producer."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    """Of the coordinator that wrote the last marker."""
    last_timestamp_ms: int = NO_TIMESTAMP_MS
    open_since_offset: int | None = None
    """First offset of the open transaction."""
    batches: tuple[AppendedBatch, ...] = ()
    seen_ms: int | None = None
    """When the producer was last heard of; `None` if that was since `expire` last looked."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int | None:
        return self.batches[-1].last_offset if self.batches else None

    def expects(self, batch: Batch) -> bool:
        """Whether it is the next one of the producer, and nothing else is to be looked at.

        Five batches are far from having used up all numbers: it is none of them once more.  Markers
        have no number.
        """
        if self.open_since_offset is not None or batch.producer_epoch != self.epoch:
            return False
        last_sequence = self.last_sequence
        is_next = batch.base_sequence == (last_sequence + 1) & MAX_INT32
        return is_next and last_sequence != NO_SEQUENCE

    def duplicate_of(self, batch: Batch) -> AppendedBatch | None:
        """The remembered batch with the same epoch and sequence numbers."""
        if batch.producer_epoch != self.epoch:
            return None
        first, last = batch.base_sequence, batch.last_sequence
        for known in self.batches:
            if known.last_sequence == last and known.first_sequence == first:
                return known
        return None

    def enter_epoch(self, epoch: int) -> None:
        """Sequence numbers begin anew in every epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = ()

    def remember(self, batch: Batch) -> None:
        appended = AppendedBatch(
            batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp_ms
        )
        self.batches = (*self.batches[1 - MAX_BATCHES :], appended)
        self.last_timestamp_ms = batch.max_timestamp_ms


class ProducerStates:
    """The producers of one log."""

    __slots__ = ("_decided", "_open", "_producers")

    def __init__(self) -> None:
        self._producers: dict[int, ProducerState] = {}
        self._open: dict[int, int] = {}
        """First offset of each open transaction, in order -> its producer."""
        self._decided: deque[CompletedTransaction] = deque()
        """Those whose marker may lie above the high watermark, in the order of their markers."""

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[ProducerState]:
        """Every known producer, those that came first at first."""
        return iter(self._producers.values())

    def of(self, producer_id: int) -> ProducerState | None:
        """What is known of one producer."""
        return self._producers.get(producer_id)

    # Before a batch is appended

    def check(self, batch: Batch, now_ms: int, *, transaction_version: int = 0) -> Verdict | None:
        """Why `batch` must not be appended; `None` if it may be.

        A batch without a sequence number is one of the broker's own, such as offsets that are
        committed in a transaction: its epoch is checked, and nothing else.  `transaction_version`
        is what the coordinator says when it sends a marker.
        """
        if batch.producer_id == NO_PRODUCER_ID:
            return None
        state = self._producers.get(batch.producer_id)
        if state is None:
            return None
        state.seen_ms = now_ms
        if state.expects(batch):
            return None  # nearly always
        if batch.is_control:
            return _check_marker(state, batch, transaction_version)
        if batch.base_sequence != NO_SEQUENCE:
            known = state.duplicate_of(batch)
            if known is not None:
                return Verdict(
                    error=ErrorCode.NONE,
                    base_offset=known.first_offset,
                    last_offset=known.last_offset,
                    timestamp_ms=known.timestamp_ms,
                )
        return _check_data(state, batch)

    # After it was appended

    def apply(self, batch: Batch) -> CompletedTransaction | None:
        """Take in the next batch of the log: the transaction that it ends, if it ends one.

        Raises:
            BatchError: It is a control batch whose record is broken.
        """
        if batch.producer_id == NO_PRODUCER_ID:
            return None
        if batch.is_control:
            return self._apply_marker(batch)
        state = self._state(batch.producer_id)
        state.enter_epoch(batch.producer_epoch)
        state.remember(batch)
        if batch.is_transactional and state.open_since_offset is None:
            state.open_since_offset = batch.base_offset
            self._open[batch.base_offset] = batch.producer_id
        return None

    def _state(self, producer_id: int) -> ProducerState:
        state = self._producers.get(producer_id)
        if state is None:
            state = self._producers[producer_id] = ProducerState(producer_id)
        state.seen_ms = None
        return state

    def _apply_marker(self, batch: Batch) -> CompletedTransaction | None:
        marker = read_marker(batch)
        state = self._state(batch.producer_id)
        state.enter_epoch(batch.producer_epoch)
        if marker is None:
            # Compaction emptied it, and kept it for the epoch.  The transaction is gone too.
            return None
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp_ms = marker.timestamp_ms
        if state.open_since_offset is None:
            return None
        first_offset, state.open_since_offset = state.open_since_offset, None
        del self._open[first_offset]
        completed = CompletedTransaction(
            producer_id=batch.producer_id,
            first_offset=first_offset,
            last_offset=batch.base_offset,
            is_aborted=not marker.is_commit,
            last_stable_offset=next(iter(self._open), batch.base_offset + 1),
        )
        self._decided.append(completed)
        return completed

    # Transactions

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction begins."""
        return next(iter(self._open), None)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest transaction begins that is open, or was not ended durably yet.

        A marker above the high watermark may still be lost, and with it the decision.
        """
        first_offset = self.first_undecided_offset
        for completed in self._decided:
            if first_offset is None or completed.first_offset < first_offset:
                first_offset = completed.first_offset
        return first_offset

    def advance_high_watermark(self, high_watermark: int) -> None:
        """Nothing below `high_watermark` will be lost: what was decided there is decided."""
        decided = self._decided
        while decided and decided[0].last_offset < high_watermark:
            decided.popleft()

    def expire(self, now_ms: int, producer_id_expiration_ms: int) -> int:
        """Forget the producers that were silent for too long: how many.

        Never one with an open transaction.  Silence is measured by our clock, not by timestamps
        of records, which may be years old: a producer that copies an archive is not silent.
        """
        silent = []
        for state in self._producers.values():
            if state.seen_ms is None:
                state.seen_ms = now_ms
            is_silent = now_ms - state.seen_ms >= producer_id_expiration_ms
            if is_silent and state.open_since_offset is None:
                silent.append(state.producer_id)
        for producer_id in silent:
            del self._producers[producer_id]
        return len(silent)

    # Snapshots

    def snapshot(self) -> bytes:
        """Everything that recovery needs, as Kafka writes it.

        Of the last five batches it holds one: a batch that is sent again after a crash is found
        again only if it was the producer's last, or came after the snapshot.
        """
        entries = tuple(map(_entry, self._producers.values()))
        data = bytearray(
            encode_versioned(ProducerSnapshot(crc=0, producer_entries=entries), _SNAPSHOT_VERSION)
        )
        checksum = crc32c(memoryview(data)[_CHECKED_FROM:])
        data[_CRC_AT:_CHECKED_FROM] = checksum.to_bytes(_CHECKED_FROM - _CRC_AT, "big")
        return bytes(data)

    def load(self, data: bytes) -> None:
        """Become what `snapshot` described.

        Raises:
            StorageError: The bytes are damaged; then nothing has changed.
        """
        try:
            snapshot = decode_versioned(ProducerSnapshot, data)
        except WireError as error:
            raise StorageError(f"a producer snapshot cannot be read: {error}") from error
        computed = crc32c(memoryview(data)[_CHECKED_FROM:])
        if computed != snapshot.crc:
            raise StorageError(
                f"a producer snapshot has checksum {snapshot.crc:#010x}, but its bytes give "
                f"{computed:#010x}"
            )
        self.clear()
        for entry in snapshot.producer_entries:
            self._producers[entry.producer_id] = _restored(entry)
        self._open = dict(
            sorted(
                (state.open_since_offset, state.producer_id)
                for state in self
                if state.open_since_offset is not None
            )
        )

    def clear(self) -> None:
        """Know nothing, as before the first batch."""
        self._producers.clear()
        self._open.clear()
        self._decided.clear()


def _check_data(state: ProducerState, batch: Batch) -> Verdict | None:
    if batch.producer_epoch < state.epoch:
        return _stale_epoch(state, batch)
    if batch.base_sequence != NO_SEQUENCE:
        verdict = _check_sequence(state, batch)
        if verdict is not None:
            return verdict
    if state.open_since_offset is not None and not batch.is_transactional:
        return Verdict(
            error=ErrorCode.INVALID_TXN_STATE,
            message=f"producer {state.producer_id} has a transaction open since offset "
            f"{state.open_since_offset}; a batch outside of it must wait for its end",
        )
    return None


def _check_sequence(state: ProducerState, batch: Batch) -> Verdict | None:
    if state.epoch == NO_PRODUCER_EPOCH:
        return None
    is_new_epoch = batch.producer_epoch != state.epoch
    last_sequence = NO_SEQUENCE if is_new_epoch else state.last_sequence
    expected = (last_sequence + 1) & MAX_INT32
    if batch.base_sequence == expected:
        return None
    begin = f"epoch {batch.producer_epoch} begins" if is_new_epoch else "it goes on"
    return Verdict(
        error=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        message=f"producer {state.producer_id} sent sequence number {batch.base_sequence}, "
        f"but {begin} with {expected}",
    )


def _check_marker(state: ProducerState, batch: Batch, transaction_version: int) -> Verdict | None:
    marker = read_marker(batch)
    if marker is None:
        return None
    if _is_late(state, marker, transaction_version):
        return _stale_epoch(state, batch)
    if marker.coordinator_epoch < state.coordinator_epoch:
        return Verdict(
            error=ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            message=f"a marker for producer {state.producer_id} comes from coordinator epoch "
            f"{marker.coordinator_epoch}, but epoch {state.coordinator_epoch} has written since",
        )
    return None


def _is_late(state: ProducerState, marker: Marker, transaction_version: int) -> bool:
    """Whether the marker is for a transaction before the one that it would end."""
    if transaction_version < EPOCH_BUMPS or marker.producer_epoch != state.epoch:
        return marker.producer_epoch < state.epoch
    # Every transaction has an epoch of its own, and its marker the next one.  The same epoch again
    # is a marker that is sent again; it is harmless while nothing is open.  The last epoch of all
    # cannot be bumped and ends transactions of its own.
    return state.open_since_offset is not None and marker.producer_epoch != MAX_EPOCH


def _stale_epoch(state: ProducerState, batch: Batch) -> Verdict:
    return Verdict(
        error=ErrorCode.INVALID_PRODUCER_EPOCH,
        message=f"producer {state.producer_id} is in epoch {state.epoch}; epoch "
        f"{batch.producer_epoch} is over",
    )


def _entry(state: ProducerState) -> ProducerEntry:
    last = state.batches[-1] if state.batches else None
    return ProducerEntry(
        producer_id=state.producer_id,
        epoch=state.epoch,
        last_sequence=last.last_sequence if last else NO_SEQUENCE,
        last_offset=last.last_offset if last else -1,
        offset_delta=last.offset_delta if last else 0,
        timestamp=state.last_timestamp_ms,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_first_offset=-1 if state.open_since_offset is None else state.open_since_offset,
    )


def _restored(entry: ProducerEntry) -> ProducerState:
    is_open = entry.current_txn_first_offset >= 0
    state = ProducerState(
        producer_id=entry.producer_id,
        epoch=entry.epoch,
        coordinator_epoch=entry.coordinator_epoch,
        last_timestamp_ms=entry.timestamp,
        open_since_offset=entry.current_txn_first_offset if is_open else None,
    )
    if entry.last_offset >= 0:
        state.batches = (
            AppendedBatch(
                entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp
            ),
        )
    return state
