"""What the producers of a simulated run did in transactions, and the judgment on it.

Every attempt at a transaction is written down when it begins, so that one whose process dies is not
forgotten.  At the end two histories are made of them: what read_committed consumers must have seen,
where an attempt is there as a whole or not at all, and what read_uncommitted consumers must have
seen, where every acknowledged batch is there, whatever became of its transaction.

An attempt that never asked to be committed has failed.  One that asked and was not told the outcome
may have been committed; who sees its offsets or its records knows more.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.testing.history import Operation, Outcome, Polled, Sent
from tests.simulation.broker_clients import Spot
from tests.simulation.journal import Journal

NO_OFFSET: Final = -1
_COPIED_BY: Final = ">"


def copy_of(value: str, by: str) -> str:
    """The value of a copy; each attempt at it makes another one."""
    return f"{value}{_COPIED_BY}{by}"


def original_of(copy: str) -> str:
    return copy.partition(_COPIED_BY)[0]


@dataclass(slots=True, eq=False)
class Write:
    """One batch; it keeps its sequence number until it is acknowledged."""

    spot: Spot
    values: tuple[str, ...]
    sequence: int
    has_company: bool = False
    """Whether another batch for the partition was under way at the same time."""
    base_offset: int | None = None

    @property
    def is_acknowledged(self) -> bool:
        return self.base_offset is not None

    def sends(self) -> Iterator[Sent]:
        for number, value in enumerate(self.values):
            offset = None if self.base_offset is None else self.base_offset + number
            yield Sent(str(self.spot), value, offset)


@dataclass(slots=True, eq=False)
class Attempt:
    """One transaction, as its producer saw it."""

    label: str
    process: str
    begun_ms: int
    writes: list[Write] = field(default_factory=list)
    polls: list[Polled] = field(default_factory=list)
    """What was read and copied."""
    offsets: dict[Spot, int] = field(default_factory=dict)
    """What a group is to go on from."""
    outcome: Outcome = Outcome.FAILED

    @property
    def is_acknowledged(self) -> bool:
        return all(write.is_acknowledged for write in self.writes)

    def operation(self) -> Operation:
        return Operation(
            process=self.process,
            outcome=self.outcome,
            sends=tuple(sent for write in self.writes for sent in write.sends()),
            polls=tuple(self.polls),
            is_transaction=True,
        )

    def appends(self) -> Iterator[Operation]:
        """What it wrote, whether or not that counted in the end."""
        for write in self.writes:
            outcome = Outcome.OK if write.is_acknowledged else Outcome.UNKNOWN
            yield Operation(process=self.process, outcome=outcome, sends=tuple(write.sends()))


class Claims:
    """Who asked to become the producer of a transactional id: everybody before is fenced."""

    def __init__(self) -> None:
        self._firsts: dict[str, int] = {}
        self._lasts: dict[str, int] = {}
        self._unanswered: set[str] = set()
        self._count = 0

    def ask(self, process: str) -> None:
        """`process` begins to ask, and goes on until it has an answer."""
        self._firsts.setdefault(process, self._tick())
        self._lasts[process] = self._tick()
        self._unanswered.add(process)

    def answer(self, process: str) -> None:
        self._lasts[process] = self._tick()
        self._unanswered.discard(process)

    def _tick(self) -> int:
        self._count += 1
        return self._count

    def has_rival(self, process: str) -> bool:
        """Whether somebody else asked since, or asked before and may only now be heard."""
        since = self._firsts.get(process, 0)
        return any(
            other != process and (last > since or other in self._unanswered)
            for other, last in self._lasts.items()
        )


class TxnLedger:
    """All transactions of one run.  `journal` is judged as read_committed, `appended` as not."""

    def __init__(self, journal: Journal, appended: Journal) -> None:
        self.claims: dict[str, Claims] = {}
        self._journal = journal
        self._appended = appended
        self._attempts: dict[str, Attempt] = {}
        self._offsets: dict[Spot, int] = {}

    def begin(self, process: str, now_ms: int) -> Attempt:
        """A transaction begins, as far as its producer is concerned."""
        label = f"{process}#{len(self._attempts)}"
        attempt = self._attempts[label] = Attempt(label, process, now_ms)
        return attempt

    def claims_of(self, transactional_id: str) -> Claims:
        return self.claims.setdefault(transactional_id, Claims())

    # The offsets of a group

    def known_offset(self, spot: Spot) -> int:
        """The highest that anybody was told; later answers are no lower."""
        return self._offsets.get(spot, NO_OFFSET)

    def hear_of_offset(self, spot: Spot, offset: int, note: str, *, not_below: int) -> None:
        """A fetch of offsets was answered; `not_below` was known when it was asked."""
        self._journal.done["offset fetched"] += 1
        if offset < not_below:
            self._journal.violate(f"{spot} went back to {offset} by {note!r}, from {not_below}")
        self._offsets[spot] = max(offset, self.known_offset(spot))
        if offset == NO_OFFSET:
            return
        attempt = self._attempts.get(note)
        if attempt is None or attempt.offsets.get(spot) != offset:
            self._journal.violate(f"{spot} is at {offset} by {note!r}, which nobody committed")
        elif attempt.outcome is Outcome.FAILED:
            self._journal.violate(f"{note} was aborted, and moved {spot} to {offset}")
        elif attempt.outcome is Outcome.UNKNOWN:
            attempt.outcome = Outcome.OK

    # The end

    def close(self) -> None:
        """Nobody writes any more: let the histories be judged."""
        for attempt in self._attempts.values():
            self._journal.done[f"transaction {attempt.outcome.value}"] += 1
            if attempt.writes or attempt.polls:
                self._journal.add(attempt.operation())
            for operation in attempt.appends():
                self._appended.add(operation)

    def judge_copies(
        self,
        originals: Mapping[Spot, list[Polled]],
        copies: list[str],
        offsets: Mapping[Spot, int],
    ) -> None:
        """Everything below a group's offset was copied, once; nothing above it was."""
        counts = Counter(original_of(copy) for copy in copies)
        for spot, polls in originals.items():
            offset = offsets[spot]
            for polled in polls:
                count = counts.pop(str(polled.value), 0)
                if count != (polled.offset < offset):
                    self._journal.violate(
                        f"{polled.value} at {polled.offset} of {spot} has {count} copies, and the "
                        f"group is at {offset}"
                    )
        for value in counts:
            self._journal.violate(f"{value} was copied, and nobody has seen it")
