"""For random offsets, limits and partitions, planned ranges cover each offset once."""

import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.model import TopicPartition
from ottla.spark.source.planning import OffsetRange, divided, limited, limited_by_bytes
from tests.spark_samples import Clock, FakeLog, tracker

PARTITIONS = [TopicPartition("orders", number) for number in range(4)]
sizes = st.lists(st.integers(0, 200), min_size=1, max_size=4)
maybe_limit = st.none() | st.integers(1, 60)


@st.composite
def spans(draw: st.DrawFn) -> list[OffsetRange]:
    starts = draw(st.lists(st.integers(0, 10**12), min_size=0, max_size=5))
    return [
        OffsetRange(TopicPartition("t", number), start, start + draw(st.integers(1, 500)))
        for number, start in enumerate(starts)
    ]


@given(spans(), st.none() | st.integers(1, 40), maybe_limit)
def test_cut_ranges_join_to_what_they_were_cut_from(
    ranges: list[OffsetRange], min_count: int | None, max_size: int | None
) -> None:
    cut = divided(ranges, min_count=min_count, max_size=max_size)

    joined: list[OffsetRange] = []
    for part in cut:
        assert part.size > 0
        assert max_size is None or part.size <= max_size
        if joined and joined[-1].tp == part.tp:
            assert joined[-1].end_offset == part.start_offset
            joined[-1] = joined[-1]._replace(end_offset=part.end_offset)
        else:
            joined.append(part)
    assert joined == ranges
    assert min_count is None or len(cut) >= min(min_count, len(ranges) and 1)


@given(spans(), st.integers(1, 400))
def test_there_are_as_many_tasks_as_were_asked_for_if_there_are_offsets(
    ranges: list[OffsetRange], min_count: int
) -> None:
    cut = divided(ranges, min_count=min_count, max_size=None)

    has_cuttable = any(part.size >= 2 for part in cut)
    assert len(cut) >= min_count or not has_cuttable


@given(sizes, sizes, st.integers(1, 300), st.floats(0.0, 1e6))
def test_a_limit_goes_on_in_each_partition_and_not_too_far(
    starts: list[int], more: list[int], limit: int, offset_bytes: float
) -> None:
    count = min(len(starts), len(more))
    start = dict(zip(PARTITIONS, starts[:count], strict=False))
    end = {tp: start[tp] + more[i] for i, tp in enumerate(start)}
    by_rows = limited(start, end, limit)
    by_bytes = limited_by_bytes(start, end, limit, dict.fromkeys(start, offset_bytes))

    for found in (by_rows, by_bytes):
        assert found.keys() == end.keys()
        for tp in end:
            assert min(start[tp] + 1, end[tp]) <= found[tp] <= end[tp]
    taken = sum(by_rows[tp] - start[tp] for tp in end)
    assert taken <= limit + count


class Story:
    """A log that grows, and a query that reads it, is killed, and begins again."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.log = FakeLog(orders=draw(sizes))
        self.clock = Clock()
        self.said = {"startingOffsets": draw(st.sampled_from(["earliest", "latest"]))}
        for name in ("maxOffsetsPerTrigger", "minPartitions", "maxRecordsPerPartition"):
            if (limit := draw(maybe_limit)) is not None:
                self.said[name] = str(limit)
        if (limit := draw(maybe_limit)) is not None:
            self.said["maxBytesPerTrigger"] = str(limit)
        self.kept: list[str] = []
        """The offset log of the checkpoint."""
        self.finished = 0
        self.read: Counter[tuple[TopicPartition, int]] = Counter()
        self.first: dict[TopicPartition, int] = {}

    def grow(self) -> None:
        for tp in self.log.ends:
            self.log.ends[tp] += self.draw(st.integers(0, 30))
        if len(self.log.ends) < len(PARTITIONS) and self.draw(st.booleans()):
            new = PARTITIONS[len(self.log.ends)]
            self.log.starts[new], self.log.ends[new] = 0, self.draw(st.integers(0, 30))
        self.clock.now_ms += 1_000

    def run(self) -> None:
        """One run of the query: replay what was planned, then go on; it may be killed anywhere."""
        made = tracker(self.log, self.clock, **self.said)
        for _ in range(self.draw(st.integers(1, 4))):
            self.grow()
            start = json.loads(self.kept[self.finished - 1]) if self.finished else made.initial()
            if len(self.kept) == self.finished:
                end = made.latest(start, is_limited=True)
                self.kept.append(json.dumps(end))
            if self.draw(st.integers(0, 3)) == 0:
                return  # killed after the plan was kept
            start = json.loads(self.kept[self.finished - 1]) if self.finished else made.initial()
            for one, _ in made.plan(start, json.loads(self.kept[self.finished])):
                self.read.update((one.tp, offset) for offset in range(*one[1:]))
            self.finished += 1


@given(st.data())
def test_whatever_happens_each_offset_is_read_once(data: st.DataObject) -> None:
    story = Story(data.draw)
    for _ in range(data.draw(st.integers(1, 4))):
        story.run()
    if not story.finished:
        return

    first = json.loads(story.kept[0])["init"]
    last = json.loads(story.kept[story.finished - 1])
    for partition, end in last["topics"]["orders"]["p"].items():
        tp = TopicPartition("orders", int(partition))
        begin = first["orders"].get(partition, 0)
        covered = [offset for of, offset in story.read if of == tp]
        assert sorted(covered) == list(range(begin, end))
    assert set(story.read.values()) <= {1}
