"""What the clients of one simulated run did and saw, and the judgment on it.

The history goes to the checker of `ottla.testing.history`.  What that one does not know is judged
here: high watermarks that go back, records beyond them, logs that end before what was read, and
what compaction owes to its readers.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.testing.history import Operation, Outcome, Partition, Polled, Sent, Value, check

KEY_COUNT: Final = 4


def key_of(value: str) -> str:
    """The key that goes with a value like `ada-17`: few keys, so that compaction has work."""
    return f"key-{int(value.rpartition('-')[2]) % KEY_COUNT}"


@dataclass(slots=True)
class Journal:
    """Shared by all clients of a run: one thread, so no locks."""

    compacted: Collection[Partition] = ()
    is_forgiving: bool = False
    """Whether the newest records may be lost with the power, as with `flush=os`: then only what
    is there at the end is judged.  It must have been sent, once, and be in order."""
    violations: list[str] = field(default_factory=list)
    """Broken promises that a client noticed by itself."""
    done: Counter[str] = field(default_factory=Counter)
    """How often each kind of thing took place; a run in which nothing did proves nothing."""
    _history: list[tuple[Operation, bool]] = field(default_factory=list)

    def add(self, operation: Operation, *, is_weak: bool = False) -> None:
        """Take down what a client did; `is_weak` says that it asked for no durability (acks=1)."""
        self._history.append((operation, is_weak))
        if operation.sends:
            self.done[f"send {operation.outcome.value}"] += 1
        if operation.polls:
            self.done["poll"] += 1

    def violate(self, what: str) -> None:
        """Take down a broken promise."""
        self.violations.append(what)

    def miss(self, what: str) -> None:
        """Take down that something is gone that was once there."""
        if not self.is_forgiving:
            self.violate(what)

    def verdict(
        self,
        *,
        start_offsets: Mapping[Partition, int],
        keeps_weak_sends: bool,
        last_process: str,
    ) -> list[str]:
        """Everything wrong with the run.

        With `keeps_weak_sends` even what was acknowledged before its sync must be there: nothing
        took the page cache away.  `last_process` is who read everything at the end.
        """
        history = [
            operation if keeps_weak_sends or not is_weak else _unpromised(operation)
            for operation, is_weak in self._history
        ]
        if self.is_forgiving:
            history = [_forgiven(operation, last_process) for operation in history]
        whole = [_without(operation, self.compacted) for operation in history]
        return [
            *self.violations,
            *map(str, check(whole, start_offsets=start_offsets)),
            *(
                finding
                for partition in self.compacted
                for finding in _judge_compacted(history, partition, last_process)
            ),
        ]


def _unpromised(operation: Operation) -> Operation:
    """Whether it is still there is open; where it stands is not."""
    if operation.outcome is not Outcome.OK:
        return operation
    return replace(operation, outcome=Outcome.UNKNOWN)


def _forgiven(operation: Operation, last_process: str) -> Operation:
    """Sent, perhaps, and nobody knows where to; seen only if that was at the end."""
    if operation.process == last_process:
        return operation
    sends = tuple(Sent(sent.partition, sent.value) for sent in operation.sends)
    return replace(operation, outcome=Outcome.UNKNOWN, sends=sends, polls=())


def _without(operation: Operation, partitions: Collection[Partition]) -> Operation:
    return replace(
        operation,
        sends=tuple(sent for sent in operation.sends if sent.partition not in partitions),
        polls=tuple(polled for polled in operation.polls if polled.partition not in partitions),
    )


def _judge_compacted(
    history: list[Operation], partition: Partition, last_process: str
) -> Iterator[str]:
    """A key's newest record stays, or a newer one takes its place; offsets never change hands."""
    sent: set[Value] = set()
    placed: dict[int, Value] = {}
    promised: dict[str, int] = {}
    left: dict[str, int] = {}
    for operation in history:
        sent |= {send.value for send in operation.sends if send.partition == partition}
        for placing in _placings(operation, partition):
            before = placed.setdefault(placing.offset, placing.value)
            if before != placing.value:
                yield f"{partition} has {before!r} and {placing.value!r} at {placing.offset}"
            newest = left if operation.process == last_process else promised
            key = key_of(str(placing.value))
            newest[key] = max(newest.get(key, -1), placing.offset)
    for offset, value in placed.items():
        if value not in sent:
            yield f"{partition} has {value!r} at {offset}, which nobody sent"
    for key, offset in promised.items():
        if left.get(key, -1) < offset:
            yield f"{partition} lost {key} at {offset}; its newest is at {left.get(key)}"


def _placings(operation: Operation, partition: Partition) -> Iterator[Polled]:
    """Which value is known to stand at which offset, by `operation`."""
    yield from (polled for polled in operation.polls if polled.partition == partition)
    if operation.outcome is Outcome.OK:
        for sent in operation.sends:
            if sent.partition == partition and sent.offset is not None:
                yield Polled(partition, sent.value, sent.offset)
