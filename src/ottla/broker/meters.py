"""What a broker counts and times while it works: plain integers, for `metrics` to tell of.

Requests are all counted.  Their time is taken of the first few of each kind and then of one in 32,
which stands for all 32; those that wait are all timed.  A broker that answers a hundred thousand
requests a second must not spend its time on watching itself: it is less than a hundredth of the
time that a small request takes, and `make bench ARGS=metrics` measures it.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from ottla.broker.flusher import AfterSync
from ottla.errors import ErrorCode
from ottla.wire.registry import ApiKey
from ottla.wire.schema import Declared

SAMPLED_OF: Final = 32
"""One request of so many is timed."""

BOUNDS_S: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0),
)

MAX_REFUSALS: Final = 1_000

LAG_INTERVAL_S: Final = 0.5
_LAGS_KEPT: Final = 30


class Histogram:
    """How often something took how long."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, duration_s: float, weight: int = 1) -> None:
        """It took so long, so many times."""
        self.counts[bisect_left(BOUNDS_S, duration_s)] += weight
        self.sum_s += duration_s * weight


def quantile_s(counts: Sequence[int], share: float) -> float | None:
    """The time that so large a share of all did not exceed; None if there were none.

    Within a bucket they are taken to lie evenly; of those beyond the last bound, that is known.
    """
    wanted = sum(counts) * share
    if not wanted:
        return None
    low_s = 0.0
    for bound_s, count in zip(BOUNDS_S, counts, strict=False):
        if count and wanted <= count:
            return low_s + (bound_s - low_s) * wanted / count
        wanted -= count
        low_s = bound_s
    return low_s


class Meters:
    """Everything that one broker counts beside its partitions."""

    def __init__(self) -> None:
        self.untimed_counts = [1] * (max(ApiKey) + 1)
        """By API key, how many more come until one is timed: whoever serves a request takes one
        off, and calls `sample` at 0.  To count down is cheaper than to count and to divide."""
        self._due_counts = [1] * len(self.untimed_counts)
        """How many there will have been when the next one is timed."""
        self.request_times: dict[int, Histogram] = {}
        self.sync_times = Histogram()
        self.connection_count = 0
        """Clients that are connected: the listener keeps it."""
        self.committed_count = self.aborted_count = self.fenced_count = 0
        """Transactions that ended either way, and requests of producers that were fenced."""
        self.refused_counts: dict[tuple[str, str], int] = {}
        """Topic and name of an error -> how many batches of producers were refused with it."""
        self._lags_s: deque[float] = deque(maxlen=_LAGS_KEPT)

    @property
    def request_counts(self) -> list[int]:
        """By API key, all requests since the start."""
        return [due - left for due, left in zip(self._due_counts, self.untimed_counts, strict=True)]

    def sample(self, key: int, result: Any, since_s: float) -> None:
        """Time a request that is answered now or after a sync; others `finish`."""
        count = self._due_counts[key]
        weight = 1 if count <= SAMPLED_OF else SAMPLED_OF
        step = 1 if count < SAMPLED_OF else SAMPLED_OF
        self._due_counts[key] = count + step
        self.untimed_counts[key] = step
        if type(result) is AfterSync:
            result.sync.when_over(lambda _: self.finish(key, since_s, weight))
        elif isinstance(result, Declared):
            self.finish(key, since_s, weight)

    def finish(self, key: int, since_s: float, weight: int = 1) -> None:
        """A request that came at that time of the loop is answered."""
        times = self.request_times.get(key)
        if times is None:
            times = self.request_times[key] = Histogram()
        times.observe(asyncio.get_running_loop().time() - since_s, weight)

    def count_end(self, *, is_commit: bool) -> None:
        """A transaction's end was decided, and its markers are ordered."""
        if is_commit:
            self.committed_count += 1
        else:
            self.aborted_count += 1

    def count_refusal(self, topic: str, error: ErrorCode) -> None:
        """A batch for a topic that exists was refused; of very many kinds, the first are told."""
        kind = topic, error.name
        if kind in self.refused_counts or len(self.refused_counts) < MAX_REFUSALS:
            self.refused_counts[kind] = self.refused_counts.get(kind, 0) + 1

    @property
    def loop_lag_s(self) -> float:
        """How late the loop was at the worst, of the last seconds."""
        return max(self._lags_s, default=0.0)

    async def watch_loop(self) -> None:
        """See again and again how late the loop wakes us; ends only when it is canceled."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + LAG_INTERVAL_S
            await asyncio.sleep(LAG_INTERVAL_S)
            self._lags_s.append(max(0.0, loop.time() - due_s))
