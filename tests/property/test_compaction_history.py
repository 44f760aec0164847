"""Whatever is written and however often it is cleaned: the newest record of each key stays.

A history of appends, transactions, rolls and compactions runs against a log, and beside it a list
remembers every record that was ever written.  The list, and the rules, tell what may be missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from ottla.log import files
from ottla.log.log import Log
from ottla.log.segment import LogRead
from ottla.records.batch import NO_PRODUCER_ID, NO_SEQUENCE, batches
from ottla.records.compression import Compression
from ottla.testing.disk import SimDisk
from tests.compaction_samples import (
    FOLDER,
    HOUR_MS,
    begin,
    cleaner_config,
    committed_content_of,
    compacted_config,
    content_of,
    end_transaction,
    open_log,
    put,
    records_of,
    run,
    stable_offset,
)
from tests.log_samples import NOW_MS, read_all

PRODUCERS = (7, 8)


@dataclass(frozen=True)
class Append:
    pairs: tuple[tuple[bytes, bytes | None], ...]
    producer_id: int
    transactional: bool
    compression: Compression


@dataclass(frozen=True)
class End:
    producer_id: int
    commit: bool


@dataclass(frozen=True)
class Roll:
    pass


@dataclass(frozen=True)
class Compact:
    later_ms: int
    max_keys: int


Op = Append | End | Roll | Compact

pairs = st.tuples(st.sampled_from([b"a", b"b", b"c", b"d", b"e" * 30]), st.none() | st.binary())
appends = st.builds(
    Append,
    pairs=st.lists(pairs, min_size=1, max_size=4).map(tuple),
    producer_id=st.sampled_from([NO_PRODUCER_ID, *PRODUCERS]),
    transactional=st.booleans(),
    compression=st.sampled_from([Compression.NONE, Compression.NONE, Compression.GZIP]),
)
ends = st.builds(End, producer_id=st.sampled_from(PRODUCERS), commit=st.booleans())
compactions = st.builds(
    Compact,
    later_ms=st.sampled_from([0, 1, HOUR_MS // 2, HOUR_MS, 3 * HOUR_MS]),
    max_keys=st.integers(1, 6),
)
histories = st.lists(
    st.one_of(appends, appends, appends, ends, st.just(Roll()), compactions),
    min_size=1,
    max_size=40,
)


@dataclass
class Written:
    """A record that was appended once."""

    key: bytes
    value: bytes | None
    transaction: int | None
    """The first offset of its transaction."""
    met_ms: int | None = None
    """When the first compaction ran after it."""


@dataclass
class World:
    """A log, and everything that was ever written to it."""

    disk: SimDisk = field(default_factory=SimDisk)
    now_ms: int = NOW_MS
    written: dict[int, Written] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    """First offsets of aborted transactions."""
    open: dict[int, int] = field(default_factory=dict)
    """Producer -> first offset of its open transaction."""
    sequences: dict[int, int] = field(default_factory=dict)
    cleaned_offset: int | None = None

    def __post_init__(self) -> None:
        self.log = open_log(self.disk, compacted_config(segment_bytes=300))

    def perform(self, op: Op) -> None:
        match op:
            case Append():
                self._append(op)
            case End(producer_id, commit):
                end_transaction(self.log, producer_id, commit=commit)
                first_offset = self.open.pop(producer_id, None)
                if first_offset is not None and not commit:
                    self.aborted.add(first_offset)
            case Roll():
                self.log.roll(self.now_ms)
            case Compact():
                self._compact(op)

    def _append(self, op: Append) -> None:
        has_producer = op.producer_id != NO_PRODUCER_ID
        is_open = op.producer_id in self.open
        transactional = has_producer and (op.transactional or is_open)
        sequence = self.sequences.get(op.producer_id, 0) if has_producer else NO_SEQUENCE
        base_offset = put(
            self.log,
            *op.pairs,
            producer_id=op.producer_id,
            sequence=sequence,
            transactional=transactional,
            compression=op.compression,
        )
        if has_producer:
            self.sequences[op.producer_id] = sequence + len(op.pairs)
        if transactional:
            self.open.setdefault(op.producer_id, base_offset)
        transaction = self.open[op.producer_id] if transactional else None
        for number, (key, value) in enumerate(op.pairs):
            self.written[base_offset + number] = Written(key, value, transaction)

    def _compact(self, op: Compact) -> None:
        self.now_ms += op.later_ms
        config = cleaner_config(dedupe_buffer_bytes=24 * (op.max_keys + 2))
        compaction = begin(
            self.disk,
            self.log,
            cleaned_offset=self.cleaned_offset,
            now_ms=self.now_ms,
            config=config,
        )
        assert compaction.map_bytes <= max(config.dedupe_buffer_bytes, 24 * 3)
        before = content_of(self.log)
        self.cleaned_offset = run(self.disk, compaction)
        for written in self.written.values():
            if written.met_ms is None:
                written.met_ms = self.now_ms
        self.check(before)

    def check(self, before: list[tuple[int, bytes | None, bytes | None]]) -> None:
        after = content_of(self.log)
        assert set(after) <= set(before)
        assert [record[0] for record in after] == sorted({record[0] for record in after})
        present = {offset for offset, _, _ in after}
        for offset, key, value in after:
            assert (key, value) == (self.written[offset].key, self.written[offset].value)
        for offset, written in self._newest_of_each_key():
            if offset not in present:
                assert written.value is None, (offset, written)
                assert written.met_ms is not None
                assert self.now_ms >= written.met_ms + HOUR_MS, (offset, written)
        assert present >= {offset for offset in self.written if offset >= self._clean_offset}
        self._check_that_it_is_clean(present)

    @property
    def _clean_offset(self) -> int:
        return self.cleaned_offset or 0

    def _newest_of_each_key(self) -> Iterator[tuple[int, Written]]:
        """Of each key, the newest record below the cleaned offset that was not aborted."""
        newest: dict[bytes, int] = {}
        for offset, written in self.written.items():
            if offset < self._clean_offset and written.transaction not in self.aborted:
                newest[written.key] = offset
        for offset in newest.values():
            yield offset, self.written[offset]

    def _check_that_it_is_clean(self, present: set[int]) -> None:
        newest = {offset for offset, _ in self._newest_of_each_key()}
        assert {offset for offset in present if offset < self._clean_offset} <= newest

    def committed(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """What a read_committed consumer must see of what is there."""
        limit = stable_offset(self.log)
        return [
            record
            for record in content_of(self.log)
            if record[0] < limit and self.written[record[0]].transaction not in self.aborted
        ]


def world_after(history: list[Op]) -> World:
    world = World()
    for op in history:
        world.perform(op)
    return world


@given(histories)
def test_the_newest_record_of_each_key_survives_any_number_of_cleanings(history: list[Op]) -> None:
    world_after([*history, Roll(), Compact(0, 6), Compact(HOUR_MS, 6), Compact(HOUR_MS, 2)])


@given(histories)
def test_a_read_committed_consumer_never_sees_aborted_records(history: list[Op]) -> None:
    world = world_after([*history, Roll(), Compact(0, 6)])

    assert committed_content_of(world.log) == world.committed()


@given(histories)
def test_a_reader_sees_the_same_records_from_wherever_it_starts(history: list[Op]) -> None:
    world = world_after([*history, Roll(), Compact(0, 6)])
    whole = records_of(read_all(world.log))

    for offset in range(world.log.start_offset, world.log.next_offset):
        part = world.log.read(offset, 1)
        assert isinstance(part, LogRead)
        first = [
            record
            for record in records_of(batches(part.data, partial_tail=False))
            if record[0] >= offset
        ]
        expected = [record for record in whole if offset <= record[0] < part.next_offset]
        assert first == expected


@given(histories)
def test_cleaning_again_at_once_changes_no_record_and_soon_no_byte(history: list[Op]) -> None:
    world = world_after([*history, Roll(), *[Compact(0, 6)] * 6])
    content = content_of(world.log)
    # Markers of what went with the last pass get their delete horizon in the next one.
    world.cleaned_offset = None
    world.perform(Compact(0, 6))
    assert content_of(world.log) == content
    for _ in range(2):
        world.perform(Compact(0, 6))
    settled = [bytes(batch.data) for batch in read_all(world.log)]

    world.perform(Compact(0, 6))

    assert [bytes(batch.data) for batch in read_all(world.log)] == settled


@given(histories, st.booleans())
def test_recovery_finds_the_same_log_and_the_same_producers(
    history: list[Op], has_snapshots: bool
) -> None:
    first = Append(((b"a", b"1"),), NO_PRODUCER_ID, False, Compression.NONE)
    world = world_after([first, *history, Compact(0, 6), Compact(HOUR_MS, 6)])
    world.log.sync()
    world.log.abandon()
    if not has_snapshots:
        for name in world.disk.names(FOLDER):
            if name.endswith(files.SNAPSHOT):
                world.disk.remove(f"{FOLDER}/{name}")

    recovered = Log.open(world.disk, FOLDER, world.log.config, now_ms=NOW_MS)
    recovered.producers.advance_high_watermark(recovered.next_offset)

    assert content_of(recovered) == content_of(world.log)
    assert committed_content_of(recovered) == world.committed()
    for producer_id, sequence in world.sequences.items():
        state = recovered.producers.of(producer_id)
        assert state is not None
        assert state.last_sequence == sequence - 1
        assert state.open_since_offset == world.open.get(producer_id)
