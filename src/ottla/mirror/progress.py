"""How a mirror stands: what it shows to those who watch."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ottla.values import dataclass

RATE_WINDOW_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProgress:
    """One topic and its copy."""

    topic: str
    target: str
    partition_count: int
    copied: int
    """Records, since the mirror was started."""
    per_s: float
    lag: int | None
    """Offsets that are still to be copied; None: not known yet."""
    lost: int
    """Offsets that were deleted before they were copied, ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorProgress:
    """All of it."""

    name: str
    topics: tuple[TopicProgress, ...]
    transaction_count: int
    groups_moved: int
    """How often the offsets of a group were brought along."""
    groups_active: tuple[str, ...]
    """Those that were left alone, because somebody is in them at the target."""
    lost_now: int
    """Offsets that were found to be lost since the mirror was started."""

    @property
    def copied(self) -> int:
        return sum(topic.copied for topic in self.topics)


Watch = Callable[[MirrorProgress], None]


class _Moment(NamedTuple):
    at_s: float
    total: int


class Rate:
    """How many a second, of late."""

    def __init__(self, now_s: float) -> None:
        self.total = 0
        self._moments: deque[_Moment] = deque([_Moment(now_s, 0)])

    def count(self, amount: int, now_s: float) -> None:
        """Note that there are `amount` more."""
        self.total += amount
        self._moments.append(_Moment(now_s, self.total))
        self._forget(now_s)

    def per_s(self, now_s: float) -> float:
        """Over the last seconds."""
        self._forget(now_s)
        first = self._moments[0]
        begun_s = max(first.at_s, now_s - RATE_WINDOW_S)
        return (self.total - first.total) / max(now_s - begun_s, 1e-3)

    def _forget(self, now_s: float) -> None:
        while len(self._moments) > 1 and self._moments[1].at_s <= now_s - RATE_WINDOW_S:
            self._moments.popleft()


class Meter:
    """Counts what a mirror does, over all of its sessions."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._begun_s = now_s()
        self._rates: dict[str, Rate] = {}
        self.lags: dict[str, int] = {}
        """As of the last look, without what was copied since."""
        self.lost: dict[str, int] = {}
        self.lost_now = 0
        self.transaction_count = 0
        self.groups_moved = 0
        self.groups_active: tuple[str, ...] = ()

    def count(self, topic: str, record_count: int) -> None:
        """Note that records were copied, for good."""
        if topic in self.lags:
            self.lags[topic] = max(0, self.lags[topic] - record_count)
        self._rates.setdefault(topic, Rate(self._begun_s)).count(record_count, self._now_s())

    def shown(self, name: str, topics: Iterable[tuple[str, str, int]]) -> MirrorProgress:
        """How it stands; `topics` are names, names of copies, and numbers of partitions."""
        now_s = self._now_s()
        rows = []
        for topic, target, partition_count in topics:
            rate = self._rates.get(topic)
            rows.append(
                TopicProgress(
                    topic=topic,
                    target=target,
                    partition_count=partition_count,
                    copied=0 if rate is None else rate.total,
                    per_s=0.0 if rate is None else rate.per_s(now_s),
                    lag=self.lags.get(topic),
                    lost=self.lost.get(topic, 0),
                )
            )
        return MirrorProgress(
            name=name,
            topics=tuple(rows),
            transaction_count=self.transaction_count,
            groups_moved=self.groups_moved,
            groups_active=self.groups_active,
            lost_now=self.lost_now,
        )
