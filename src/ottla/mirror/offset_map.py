"""Which offset at the source is which one at the target, for one partition.

Offsets of a copy differ from those of the original: aborted records and marks of transactions are
not copied, compaction and retention leave holes, and each transaction of the mirror leaves a mark
of its own.  Each transaction therefore leaves a `Checkpoint`: *runs* of records that lie side by
side in both logs.

There is no end of transactions, so not all checkpoints stay.  Each is numbered, and has a *slot*
that the number decides; a later one with the same slot takes its place.  The last `SLOTS` odd
numbers stay, and the last `SLOTS` of those that are divisible by two but not by four, and so on:
all of the near past, less and less of what is longer ago, and never more than `SLOTS` of a kind.

A translation never leads beyond the record that was meant.  Where checkpoints are gone it leads
before it: who goes on from there reads some records again, and misses none.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ottla.values import dataclass

SLOTS: Final = 256
"""How many checkpoints of each kind stay."""

MAX_RUNS: Final = 512
"""How many runs one checkpoint has, at most."""


class Run(NamedTuple):
    """Records side by side: the n-th after `source_offset` is the n-th after `target_offset`."""

    source_offset: int
    target_offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """How far a partition was copied by one transaction, and where its records went."""

    number: int
    next_offset: int
    """Where the source goes on."""
    runs: tuple[Run, ...]
    lost_count: int = 0
    """How many offsets were gone before they could be copied, of all transactions so far."""

    @property
    def slot(self) -> str:
        return slot_of(self.number)


def slot_of(number: int) -> str:
    """Where a checkpoint is kept; the first one has a place that nobody takes."""
    if number == 0:
        return "0"
    level = (number & -number).bit_length() - 1
    return f"{level}.{(number >> (level + 1)) % SLOTS}"


def runs_of(pairs: Iterable[tuple[int, int]]) -> tuple[Run, ...]:
    """Pairs of offsets, in their order, as few runs as describe them; at most `MAX_RUNS`."""
    runs: list[Run] = []
    first_source = first_target = count = 0
    for source, target in pairs:
        if count and source == first_source + count and target == first_target + count:
            count += 1
            continue
        if count:
            runs.append(Run(first_source, first_target, count))
        first_source, first_target, count = source, target, 1
    if count:
        runs.append(Run(first_source, first_target, count))
    return tuple(thinned(runs))


def thinned(runs: Sequence[Run]) -> Sequence[Run]:
    """Every n-th run, so that few enough are left, with the first one and the last one."""
    step = -(-len(runs) // (MAX_RUNS - 1))
    return runs if len(runs) <= MAX_RUNS else [*runs[:-1:step], runs[-1]]


class OffsetMap:
    """The checkpoints of a partition that are still there."""

    def __init__(self) -> None:
        self._by_slot: dict[str, Checkpoint] = {}
        self._last: Checkpoint | None = None
        self._sorted: list[Run] | None = None

    def add(self, checkpoint: Checkpoint) -> None:
        """Take in the next checkpoint, in the place of whichever had its slot."""
        self._by_slot[checkpoint.slot] = checkpoint
        if self._last is None or checkpoint.number > self._last.number:
            self._last = checkpoint
        self._sorted = None

    @property
    def last(self) -> Checkpoint | None:
        """The newest checkpoint; None before the first."""
        return self._last

    @property
    def end(self) -> Run | None:
        """The last records that were copied; None if there are none."""
        runs = self._runs()
        return runs[-1] if runs and runs[-1].length else None

    def translate(self, source_offset: int) -> int | None:
        """Where at the target somebody goes on who would go on at `source_offset`.

        Never beyond the first record that he has not seen; None if nothing is known.
        """
        runs = self._runs()
        if not runs:
            return None
        index = bisect_right(runs, source_offset, key=lambda run: run.source_offset) - 1
        if index < 0:
            return runs[0].target_offset
        run = runs[index]
        return run.target_offset + min(source_offset - run.source_offset, run.length)

    def __len__(self) -> int:
        return len(self._by_slot)

    def _runs(self) -> list[Run]:
        if self._sorted is None:
            kept = sorted(self._by_slot.values(), key=lambda checkpoint: checkpoint.number)
            self._sorted = [run for checkpoint in kept for run in checkpoint.runs]
        return self._sorted
