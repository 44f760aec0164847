"""Judges what clients saw: given what was sent and polled, which promises of a log were broken?

The definitions follow Jepsen's workload for Kafka.  A history is only as good as its recording:

- Values are unique within a partition.
- What timed out is `Outcome.UNKNOWN`, never `FAILED`: it may have happened, or happen later.
- After all faults are healed, fresh processes poll every partition from its start to its end.
- A history in which no fault took place, or in which nothing was sent, proves nothing.

Polls are believed, whatever became of their operation: the values were there.  Sends are believed
if they were acknowledged, or if somebody saw them.
"""

import abc
import enum
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import pairwise

from ottla.testing.cycles import cycles
from ottla.values import dataclass

Partition = str
Value = Hashable


class Outcome(enum.Enum):
    OK = "ok"
    FAILED = "failed"
    """It certainly did not happen."""
    UNKNOWN = "unknown"


class Anomaly(enum.Enum):
    LOST_WRITE = "lost write"
    """Written, with a later value seen, and never seen itself."""
    UNSEEN = "unseen"
    """Written, and not seen even by the final polls."""
    DUPLICATE = "duplicate"
    """One value at two offsets."""
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    """Two values at one offset."""
    PHANTOM = "phantom"
    """Seen, but never sent."""
    ABORTED_READ = "aborted read"
    """Seen, although its sending failed."""
    PRECOMMITTED_READ = "precommitted read"
    """A transaction saw what it had itself sent, before it committed."""
    POLL_SKIP = "poll skip"
    """A process's next poll left values out."""
    POLL_NONMONOTONIC = "nonmonotonic poll"
    """A process's next poll went back, or stood still."""
    INTERNAL_POLL_SKIP = "internal poll skip"
    INTERNAL_POLL_NONMONOTONIC = "internal nonmonotonic poll"
    """The same two, within one operation."""
    SEND_NONMONOTONIC = "nonmonotonic send"
    """A process's later send got an earlier offset."""
    INTERNAL_SEND_NONMONOTONIC = "internal nonmonotonic send"
    CYCLE = "cycle"
    """Transactions that saw each other's sends."""


REBALANCES: Collection[Anomaly] = frozenset({Anomaly.POLL_SKIP, Anomaly.POLL_NONMONOTONIC})
"""What is no fault where consumers are in a group: partitions move, and positions with them."""


@dataclass(frozen=True, slots=True)
class Sent:
    partition: Partition
    value: Value
    offset: int | None = None
    """`None` where the answer, and so the offset, never came."""


@dataclass(frozen=True, slots=True)
class Polled:
    partition: Partition
    value: Value
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Something a process did, in the order in which processes finished them."""

    process: str
    outcome: Outcome = Outcome.OK
    sends: tuple[Sent, ...] = ()
    polls: tuple[Polled, ...] = ()
    is_transaction: bool = False
    """All of its sends happened, or none of them."""
    assigned: tuple[Partition, ...] | None = None
    """It was an assignment or a subscription, and these are the partitions since then."""
    rebalanced: tuple[Partition, ...] = ()
    """Partitions that came or went meanwhile: their polls may jump."""


@dataclass(frozen=True, slots=True)
class Finding:
    anomaly: Anomaly
    partition: Partition
    detail: str

    def __str__(self) -> str:
        return f"{self.anomaly.value} in {self.partition}: {self.detail}"


def check(
    history: Sequence[Operation],
    *,
    allow: Collection[Anomaly] = (),
    start_offsets: Mapping[Partition, int] | None = None,
    is_drained: bool = True,
) -> list[Finding]:
    """Everything wrong with `history`, except what is in `allow`.

    Args:
        history: What the clients did and saw.
        allow: What is no fault in this run, for example `REBALANCES`.
        start_offsets: Where retention or deletion has cut partitions: nothing below is missed.
        is_drained: Whether fresh processes polled everything at the end; without that, what was
            not seen is no finding.

    Raises:
        ValueError: A value was sent twice to a partition, so nothing could be concluded.
    """
    evidence = _Evidence(history, start_offsets or {})
    findings = [
        *evidence.conflicts(),
        *evidence.lost_writes(),
        *(evidence.unseen() if is_drained else ()),
        *evidence.unfounded_reads(),
        *_OrderOfPolls(evidence).findings(),
        *_OrderOfSends(evidence).findings(),
        *evidence.cycles(),
    ]
    return [finding for finding in findings if finding.anomaly not in allow]


class _Evidence:
    """The history, turned around: who wrote a value, who saw it, and where it stands."""

    def __init__(
        self, history: Sequence[Operation], start_offsets: Mapping[Partition, int]
    ) -> None:
        self.history = history
        self._start_offsets = start_offsets
        self._writers: dict[tuple[Partition, Value], int] = {}
        self._readers: dict[tuple[Partition, Value], list[int]] = defaultdict(list)
        self._seen: set[tuple[Partition, Value]] = set()
        for number, operation in enumerate(history):
            self._take(number, operation)
        self._conflicts: list[Finding] = []
        self.ranks: dict[Partition, dict[Value, int]] = {}
        self._offsets: dict[tuple[Partition, Value], int] = {}
        for partition, values in self._logs().items():
            self.ranks[partition] = self._rank(partition, values)

    def conflicts(self) -> list[Finding]:
        return self._conflicts

    def lost_writes(self) -> Iterator[Finding]:
        for partition, ranks in self.ranks.items():
            seen = [rank for value, rank in ranks.items() if (partition, value) in self._seen]
            highest = max(seen, default=-1)
            for value, rank in ranks.items():
                if rank <= highest and self._is_missing(partition, value):
                    offset = self._offsets[partition, value]
                    yield Finding(
                        Anomaly.LOST_WRITE,
                        partition,
                        f"{value!r} at {offset}, later ones were seen",
                    )

    def unseen(self) -> Iterator[Finding]:
        for partition, value in self._writers:
            if self._is_missing(partition, value):
                yield Finding(Anomaly.UNSEEN, partition, f"{value!r} was never seen")

    def unfounded_reads(self) -> Iterator[Finding]:
        for partition, value in self._readers:
            writer = self._writers.get((partition, value))
            if (partition, value) not in self._seen:
                continue
            if writer is None:
                yield Finding(Anomaly.PHANTOM, partition, f"{value!r} was never sent")
            elif self.history[writer].outcome is Outcome.FAILED:
                yield Finding(Anomaly.ABORTED_READ, partition, f"the sending of {value!r} failed")

    def cycles(self) -> Iterator[Finding]:
        """Operations that depend on each other, because each saw what another one sent."""
        edges: dict[int, list[int]] = defaultdict(list)
        for key, readers in self._readers.items():
            writer = self._writers.get(key)
            if writer is not None:
                edges[writer] += [reader for reader in readers if reader != writer]
        for cycle in cycles(edges):
            yield Finding(Anomaly.CYCLE, "all", f"operations {sorted(cycle)[:6]}")

    def is_written(self, operation: Operation, sent: Sent) -> bool:
        """Acknowledged, or proven by somebody who saw it, or saw another part of the same."""
        match operation.outcome:
            case Outcome.OK:
                return True
            case Outcome.FAILED:
                return False
            case Outcome.UNKNOWN:
                proofs = operation.sends if operation.is_transaction else (sent,)
                return any((proof.partition, proof.value) in self._seen for proof in proofs)

    def _take(self, number: int, operation: Operation) -> None:
        for sent in operation.sends:
            key = (sent.partition, sent.value)
            if key in self._writers:
                raise ValueError(f"{sent.value!r} was sent to {sent.partition} twice")
            self._writers[key] = number
        for polled in operation.polls:
            key = (polled.partition, polled.value)
            self._readers[key].append(number)
            if operation.outcome is Outcome.OK:
                self._seen.add(key)

    def _logs(self) -> dict[Partition, dict[int, dict[Value, None]]]:
        """What stands at each offset of each partition: it should be one value."""
        logs: dict[Partition, dict[int, dict[Value, None]]] = defaultdict(lambda: defaultdict(dict))
        for operation in self.history:
            for polled in operation.polls:
                logs[polled.partition][polled.offset][polled.value] = None
            for sent in operation.sends:
                if sent.offset is not None and self.is_written(operation, sent):
                    logs[sent.partition][sent.offset][sent.value] = None
        return logs

    def _rank(self, partition: Partition, values: dict[int, dict[Value, None]]) -> dict[Value, int]:
        """Number the values by offset, without the gaps that markers and compaction leave."""
        ranks: dict[Value, int] = {}
        for rank, offset in enumerate(sorted(values)):
            if len(values[offset]) > 1:
                detail = f"{list(values[offset])} at {offset}"
                self._conflicts.append(Finding(Anomaly.INCONSISTENT_OFFSETS, partition, detail))
            for value in values[offset]:
                if value in ranks:
                    detail = f"{value!r} at {self._offsets[partition, value]} and {offset}"
                    self._conflicts.append(Finding(Anomaly.DUPLICATE, partition, detail))
                else:
                    ranks[value] = rank
                    self._offsets[partition, value] = offset
        return ranks

    def _is_missing(self, partition: Partition, value: Value) -> bool:
        key = (partition, value)
        if key in self._seen or key not in self._writers:
            return False
        operation = self.history[self._writers[key]]
        sent = next(sent for sent in operation.sends if (sent.partition, sent.value) == key)
        start_offset = self._start_offsets.get(partition, 0)
        if start_offset and (sent.offset is None or sent.offset < start_offset):
            return False
        return self.is_written(operation, sent)


class _Order(abc.ABC):
    """Follows each process through each partition, from one value to the next."""

    skip: Anomaly | None = None
    internal_skip: Anomaly | None = None
    backwards: Anomaly
    internal_backwards: Anomaly

    def __init__(self, evidence: _Evidence) -> None:
        self._evidence = evidence
        self._last: dict[str, dict[Partition, Value]] = defaultdict(dict)

    def findings(self) -> Iterator[Finding]:
        for operation in self._evidence.history:
            if operation.assigned is not None:
                self._reassign(operation)
            for partition, values in self._values(operation).items():
                yield from self._follow(operation, partition, values)

    @abc.abstractmethod
    def _values(self, operation: Operation) -> dict[Partition, list[Value]]: ...

    def _follow(
        self, operation: Operation, partition: Partition, values: list[Value]
    ) -> Iterator[Finding]:
        last = self._last[operation.process]
        if partition not in operation.rebalanced:
            if partition in last:
                yield from self._step(
                    partition, last[partition], values[0], self.skip, self.backwards
                )
            for one, other in pairwise(values):
                yield from self._step(
                    partition, one, other, self.internal_skip, self.internal_backwards
                )
        self._settle(operation, last, partition, values[-1])

    def _settle(
        self, operation: Operation, last: dict[Partition, Value], partition: Partition, value: Value
    ) -> None:
        """Remember where the process is in `partition` after `operation`."""
        last[partition] = value

    def _step(
        self,
        partition: Partition,
        one: Value,
        other: Value,
        skip: Anomaly | None,
        backwards: Anomaly,
    ) -> Iterator[Finding]:
        ranks = self._evidence.ranks.get(partition, {})
        if one not in ranks or other not in ranks:
            return
        distance = ranks[other] - ranks[one]
        detail = f"from {one!r} to {other!r}, which is {distance:+d}"
        if distance < 1:
            yield Finding(backwards, partition, detail)
        elif distance > 1 and skip is not None:
            yield Finding(skip, partition, detail)

    def _reassign(self, operation: Operation) -> None:
        assert operation.assigned is not None
        last = self._last[operation.process]
        for partition in list(last):
            if partition not in operation.assigned:
                del last[partition]


class _OrderOfPolls(_Order):
    skip = Anomaly.POLL_SKIP
    internal_skip = Anomaly.INTERNAL_POLL_SKIP
    backwards = Anomaly.POLL_NONMONOTONIC
    internal_backwards = Anomaly.INTERNAL_POLL_NONMONOTONIC

    def findings(self) -> Iterator[Finding]:
        yield from super().findings()
        for operation in self._evidence.history:
            own = {(sent.partition, sent.value) for sent in operation.sends}
            for polled in operation.polls:
                if (polled.partition, polled.value) in own:
                    detail = f"{polled.value!r} by its own transaction"
                    yield Finding(Anomaly.PRECOMMITTED_READ, polled.partition, detail)

    def _values(self, operation: Operation) -> dict[Partition, list[Value]]:
        values: dict[Partition, list[Value]] = {}
        for polled in operation.polls:
            values.setdefault(polled.partition, []).append(polled.value)
        return values

    def _settle(
        self, operation: Operation, last: dict[Partition, Value], partition: Partition, value: Value
    ) -> None:
        match operation.outcome:
            case Outcome.OK:
                last[partition] = value
            case Outcome.FAILED:
                pass  # the process goes back to where it was
            case Outcome.UNKNOWN:
                last.pop(partition, None)


class _OrderOfSends(_Order):
    backwards = Anomaly.SEND_NONMONOTONIC
    internal_backwards = Anomaly.INTERNAL_SEND_NONMONOTONIC

    def _values(self, operation: Operation) -> dict[Partition, list[Value]]:
        values: dict[Partition, list[Value]] = {}
        if operation.outcome is not Outcome.FAILED:
            for sent in operation.sends:
                values.setdefault(sent.partition, []).append(sent.value)
        return values

    def _reassign(self, operation: Operation) -> None:
        """Where a process reads has nothing to do with where it writes."""
