"""What the cluster looked like at each of the last moments: rates and lines come from here.

Pure: samples go in, numbers come out.  There are at most `MAX_SAMPLES`; the oldest goes first.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import Final

from ottla.client.admin.groups import GroupListing
from ottla.client.admin.lag import GroupLag
from ottla.console.broker_numbers import BrokerNumbers, p99_ms

MAX_SAMPLES: Final = 450

LATE: Final = timedelta(minutes=1)
"""A group that is farther behind, or a transaction that is open for longer, is worth a look."""

_RATE_SAMPLES: Final = 5
"""A rate is taken over so many samples: one alone would jump about."""

_P99_SAMPLES: Final = 15
"""A quantile needs more: of a hundred requests, it is the slowest."""


@dataclass(frozen=True, slots=True)
class TopicSample:
    """One topic at one moment."""

    partition_count: int
    record_count: int
    """From the first offset to the last; holes count."""
    end_offset: int
    """The sum over all partitions: how many offsets have ever been given."""
    size_bytes: int | None
    """None where the cluster does not tell."""
    is_internal: bool
    offline_count: int
    under_replicated_count: int
    bounds: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Partition -> its first offset, and the one that the next record gets."""
    kept: str = ""
    """How long it keeps its records, in words."""


@dataclass(frozen=True, slots=True)
class FolderSample:
    """A folder of a broker at one moment: the disk that it is on."""

    broker_id: int
    usable_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The cluster at one moment."""

    at_s: float
    topics: Mapping[str, TopicSample] = field(default_factory=dict)
    groups: Mapping[str, GroupListing] = field(default_factory=dict)
    lags: Mapping[str, GroupLag] = field(default_factory=dict)
    """Of the groups that were looked at; not all are, where there are very many."""
    broker_count: int = 0
    open_transaction_count: int | None = None
    """None where the cluster does not tell."""
    late_transactions: tuple[str, ...] = ()
    """The ids of those that are open for longer than `LATE`; not all, where there are many."""
    folders: tuple[FolderSample, ...] = ()
    """Where the cluster tells how large its disks are."""
    numbers: BrokerNumbers | None = None
    """None where no broker tells of itself."""

    @property
    def end_offset(self) -> int:
        return sum(topic.end_offset for topic in self.topics.values() if not topic.is_internal)

    @property
    def size_bytes(self) -> int | None:
        sizes = [t.size_bytes for t in self.topics.values() if t.size_bytes is not None]
        return sum(sizes) if sizes else None

    @property
    def partition_count(self) -> int:
        return sum(topic.partition_count for topic in self.topics.values())

    @property
    def offline_count(self) -> int:
        return sum(topic.offline_count for topic in self.topics.values())

    @property
    def under_replicated_count(self) -> int:
        return sum(topic.under_replicated_count for topic in self.topics.values())

    @property
    def lag(self) -> int:
        return sum(lag.total for lag in self.lags.values())


Reading = Callable[[Sample], float | None]
Point = tuple[float, float]
"""A time in seconds, and a value."""


class History:
    """The last samples, in order."""

    def __init__(self, max_samples: int = MAX_SAMPLES) -> None:
        self._samples: deque[Sample] = deque(maxlen=max_samples)

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples)

    def add(self, sample: Sample) -> None:
        self._samples.append(sample)

    @property
    def newest(self) -> Sample | None:
        return self._samples[-1] if self._samples else None

    def line(self, reading: Reading) -> list[Point]:
        """A value over time; moments at which it was not known are left out."""
        return [(s.at_s, v) for s in self._samples if (v := reading(s)) is not None]

    def rates(self, reading: Reading) -> list[Point]:
        """How fast a count grew, over time.  Where it fell, as when records expire, it is 0."""
        return [(at_s, rate) for at_s, rate in _slopes(self.line(reading))]

    def rate(self, reading: Reading) -> float | None:
        """How fast a count grows now; None while too little is known."""
        line = self.line(reading)[-_RATE_SAMPLES:]
        if len(line) < 2 or line[-1][0] <= line[0][0]:
            return None
        return max(0.0, (line[-1][1] - line[0][1]) / (line[-1][0] - line[0][0]))

    def refused(self) -> dict[tuple[str, str], int]:
        """By topic and error, how many batches of producers were refused in the last minute."""
        newest = self.newest
        if newest is None or newest.numbers is None:
            return {}
        recent = [s.numbers for s in self._samples if s.numbers and s.at_s >= newest.at_s - 60]
        before, now = recent[0].refused, newest.numbers.refused
        grown = {kind: count - before.get(kind, 0) for kind, count in now.items()}
        return {kind: count for kind, count in grown.items() if count > 0}

    def p99s_ms(self, request: str) -> list[Point]:
        """How long a kind of request took at the most, but for one of a hundred, over time."""
        known = [(s.at_s, s.numbers) for s in self._samples if s.numbers is not None]
        found = []
        for index, (at_s, numbers) in enumerate(known):
            before = known[max(0, index - _P99_SAMPLES)][1]
            if index and (time_ms := p99_ms(before, numbers, request)) is not None:
                found.append((at_s, time_ms))
        return found


def _slopes(line: list[Point]) -> Iterator[Point]:
    for (before_s, before), (at_s, value) in pairwise(line):
        if at_s > before_s:
            yield at_s, max(0.0, (value - before) / (at_s - before_s))


def end_offset_of(topic: str) -> Reading:
    """How many offsets a topic has given."""
    return lambda sample: found.end_offset if (found := sample.topics.get(topic)) else None


def lag_of(group: str) -> Reading:
    """How far a group is behind."""
    return lambda sample: found.total if (found := sample.lags.get(group)) else None
