"""Races: two contestants do the same work, in turns, and the ratio of their CPU time is reported.

The machine may be busy, warm or slow; it is so for both.  Rounds are interleaved, each one gives a
ratio of its own, and the median of those is the figure.  The quartiles beside it say how far to
trust it.
"""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Twin = Literal["compiled", "python"]

ROUND_NS = 20_000_000
"""What one contestant works in one round, at the least: long against the clock's resolution."""

ROUND_COUNT = 25


class WrongAnswerError(Exception):
    """The contestants did different work, so their times say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """Who races.  `answer` brings what `run` returns into a form that both sides share."""

    name: str
    run: Callable[[], Any]
    answer: Callable[[Any], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """What is raced; importing the contestants may fail, so they come from a function."""

    title: str
    twin: Twin
    item: str
    items_per_run: int
    target_ratio: float | None
    contestants: Callable[[], tuple[Contestant, Contestant]]
    """Ours and the peer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a race: `reason` is set, and no figure is, where it was not run."""

    title: str
    twin: Twin
    item: str
    target_ratio: float | None
    ours: str = ""
    peer: str = ""
    ours_ns: float = 0.0
    peer_ns: float = 0.0
    ratios: tuple[float, ...] = ()
    reason: str = ""

    @property
    def ratio(self) -> float:
        """How many times faster ours is: the median of the rounds."""
        return statistics.median(self.ratios)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Half of the rounds lie between these two."""
        return quartiles(self.ratios)

    @property
    def is_missed(self) -> bool:
        """Whether there is a target, and a figure below it."""
        return (
            bool(self.ratios) and self.target_ratio is not None and self.ratio < self.target_ratio
        )


def quartiles(figures: Sequence[float]) -> tuple[float, float]:
    """Half of the figures lie between these two, the ends included; there are two or more."""
    low, _, high = statistics.quantiles(figures, n=4, method="inclusive")
    return low, high


def run(race: Race) -> Outcome:
    """Check that both contestants give the same, then time them in turns."""
    ours, peer = race.contestants()
    if ours.answer(ours.run()) != peer.answer(peer.run()):
        raise WrongAnswerError(f"{race.title}: {ours.name} and {peer.name} give different results")
    repeats = {contestant.name: _repeats(contestant.run) for contestant in (ours, peer)}
    # The collector stays on: programs that handle records run with it, and whoever makes more
    # objects shall pay for it.  But it need not look at what is alive now, or the figures would
    # depend on how much a benchmark has imported.  Without this, peers look slower than here.
    gc.collect()
    gc.freeze()
    rounds: dict[str, list[float]] = {ours.name: [], peer.name: []}
    for number in range(ROUND_COUNT):
        for contestant in (ours, peer) if number % 2 else (peer, ours):
            count = repeats[contestant.name]
            rounds[contestant.name].append(_cpu_ns(contestant.run, count) / count)
    gc.unfreeze()
    return Outcome(
        title=race.title,
        twin=race.twin,
        item=race.item,
        target_ratio=race.target_ratio,
        ours=ours.name,
        peer=peer.name,
        ours_ns=statistics.median(rounds[ours.name]) / race.items_per_run,
        peer_ns=statistics.median(rounds[peer.name]) / race.items_per_run,
        ratios=tuple(
            peer_ns / ours_ns
            for ours_ns, peer_ns in zip(rounds[ours.name], rounds[peer.name], strict=True)
        ),
    )


def skipped(race: Race, reason: str) -> Outcome:
    """The outcome of a race that cannot be run here."""
    return Outcome(
        title=race.title,
        twin=race.twin,
        item=race.item,
        target_ratio=race.target_ratio,
        reason=reason,
    )


def _repeats(work: Callable[[], object]) -> int:
    """How often to do `work` in one round.  Finding out also warms it up."""
    count = 1
    while (spent_ns := _cpu_ns(work, count)) < ROUND_NS // 2:
        count *= 2
    return max(1, round(count * ROUND_NS / spent_ns))


def _cpu_ns(work: Callable[[], object], count: int) -> int:
    start_ns = time.process_time_ns()
    for _ in range(count):
        work()
    return time.process_time_ns() - start_ns
