"""A log against the simplest model of one: a list of batches."""

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.log.log import Log
from ottla.log.search import TimedOffset
from ottla.log.segment import LogRead
from ottla.log.view import OffsetOutOfRange
from ottla.records.batch import Batch, batches
from ottla.records.builder import BatchOptions, build
from ottla.testing.disk import SimDisk
from tests.log_samples import NOW_MS, log_config, read_all

FOLDER = "orders-0"

sizes = st.lists(st.integers(0, 150), min_size=1, max_size=4)
times_ms = st.integers(-1, 50)


class Known(NamedTuple):
    """A batch of the model."""

    data: bytes
    base_offset: int
    next_offset: int
    times_ms: list[int]
    epoch: int


class LogMachine(RuleBasedStateMachine):
    """Does the same to a log and to a list, and compares."""

    @initialize(segment_bytes=st.integers(100, 900), interval_bytes=st.integers(0, 400))
    def create(self, segment_bytes: int, interval_bytes: int) -> None:
        self.disk = SimDisk()
        self.config = log_config(
            segment_bytes=segment_bytes, index_interval_bytes=interval_bytes, segment_ms=40
        )
        self.known: list[Known] = []
        self.start_offset = 0
        self.epoch = 0
        self.log = Log.open(self.disk, FOLDER, self.config, now_ms=NOW_MS)

    def batch(self, value_sizes: list[int], times: list[int], base_offset: int) -> Batch:
        records = [
            (time_ms, None, b"%d" % base_offset + b"v" * size, ())
            for size, time_ms in zip(value_sizes, times, strict=False)
        ]
        options = BatchOptions(base_offset=base_offset, partition_leader_epoch=self.epoch)
        return Batch.parse(build(records, options))

    def learn(self, batch: Batch) -> None:
        times = [time_ms for _, time_ms, *_ in batch.records()]
        self.known.append(
            Known(bytes(batch.data), batch.base_offset, batch.next_offset, times, self.epoch)
        )

    @rule(value_sizes=sizes, times=st.lists(times_ms, min_size=4, max_size=4))
    def append(self, value_sizes: list[int], times: list[int]) -> None:
        batch = self.batch(value_sizes, times, self.log.next_offset)
        assert self.log.append(batch, leader_epoch=self.epoch, now_ms=NOW_MS) == batch.base_offset
        self.learn(batch)

    @rule(value_sizes=sizes, gap=st.integers(0, 20))
    def append_as_is(self, value_sizes: list[int], gap: int) -> None:
        batch = self.batch(value_sizes, [7, 3, 9, 1], self.log.next_offset + gap)
        self.log.append_as_is(batch, now_ms=NOW_MS)
        self.learn(batch)

    @rule()
    def elect(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule()
    def sync(self) -> None:
        self.log.sync()
        assert self.log.synced_offset == self.log.next_offset

    @rule(back=st.integers(0, 30))
    def truncate(self, back: int) -> None:
        offset = max(self.log.next_offset - back, self.log.start_offset)
        end_offset = self.log.truncation_point(offset)
        self.log.truncate_to(offset)
        assert self.log.next_offset == end_offset
        self.known = [known for known in self.known if known.next_offset <= offset]
        self.start_offset = min(self.start_offset, end_offset)
        if not self.known:
            self.start_offset = end_offset

    @rule(forward=st.integers(0, 30))
    def delete(self, forward: int) -> None:
        self.start_offset = min(self.log.start_offset + forward, self.log.next_offset)
        self.log.advance_start(self.start_offset)
        for path in self.log.delete_old_segments(NOW_MS):
            self.disk.remove(path)
        self.known = [known for known in self.known if known.next_offset > self.start_offset]

    @rule(was_clean=st.booleans())
    def restart(self, was_clean: bool) -> None:
        if was_clean:
            self.log.close()
        recovery_point = self.log.settle()
        next_offset = self.log.next_offset
        self.disk.end_process()
        self.log = Log.open(
            self.disk,
            FOLDER,
            self.config,
            now_ms=NOW_MS,
            recovery_point=recovery_point,
            start_offset=self.start_offset,
            was_clean=was_clean,
        )
        assert self.log.next_offset == next_offset

    @precondition(lambda self: self.known)
    @rule(data=st.data(), max_bytes=st.integers(0, 1000), at_least_one=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, at_least_one: bool) -> None:
        offset = data.draw(st.integers(self.log.start_offset, self.log.next_offset))
        below_offset = data.draw(st.integers(offset, self.log.next_offset))
        found = self.log.read(
            offset, max_bytes, below_offset=below_offset, at_least_one=at_least_one
        )
        assert isinstance(found, LogRead)
        expected = [
            known
            for known in self.known
            if known.next_offset > offset and known.next_offset <= below_offset
        ]
        got = [bytes(batch.data) for batch in batches(found.data, partial_tail=False)]
        assert got == [known.data for known in expected[: len(got)]]
        if expected:
            first_bytes = len(expected[0].data)
            assert bool(got) == (first_bytes <= max_bytes or at_least_one)
        assert len(found.data) <= max_bytes or (at_least_one and len(got) == 1)

    @rule(offset=st.integers(-5, 100))
    def read_anywhere(self, offset: int) -> None:
        inside = self.log.start_offset <= offset <= self.log.next_offset
        assert isinstance(self.log.read(offset, 100), LogRead if inside else OffsetOutOfRange)

    @rule(time_ms=st.integers(0, 60))
    def find_by_time(self, time_ms: int) -> None:
        expected = next(
            (
                TimedOffset(known.base_offset + i, record_ms, known.epoch)
                for known in self.known
                for i, record_ms in enumerate(known.times_ms)
                if record_ms >= time_ms and known.base_offset + i >= self.log.start_offset
            ),
            None,
        )
        assert self.log.offset_for_time(time_ms) == expected

    @invariant()
    def the_log_holds_what_the_list_holds(self) -> None:
        log = self.log
        assert log.start_offset == self.start_offset
        assert [bytes(batch.data) for batch in read_all(log, max_bytes=250)] == [
            known.data for known in self.known
        ]
        for known in self.known:
            assert log.epoch_for(max(known.base_offset, log.start_offset)) == known.epoch
        for left, right in zip(log.segments, log.segments[1:], strict=False):
            assert left.next_offset == right.base_offset


LogMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
TestLogModel = LogMachine.TestCase
