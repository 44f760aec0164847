"""What a machine may ask of the world: write down, answer, be called later, end transactions.

A machine decides and returns a list of effects; the shell performs the list in order and in one
piece: it appends and applies what is persisted and sets the alarms before the machine is asked
anything else, and waits only then.  The rule that makes it safe: *an `Answer` leaves only when
everything persisted before it, by anyone, is durable.*  So no answer overtakes the state that it
reports, and a machine may decide on state that is not yet on disk.
"""

from collections.abc import Iterable
from dataclasses import field
from typing import Any, Final, TypeAlias

from ottla.model import TopicPartition
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.values import dataclass

Ticket: TypeAlias = int
"""Stands for a request that waits for its answer; the shell hands tickets out, and never twice."""

AlarmName: TypeAlias = tuple[str, ...]
"""What an alarm is for and whom it concerns, such as `("session", "orders", "ada-1")`."""

BATCH_BYTES: Final = 256 * 1024
"""How large a batch becomes at most whose records need not be together, their overhead aside."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record of a machine's own log; without a value it is a tombstone."""

    key: bytes
    value: bytes | None
    meaning: Any = field(default=None, compare=False, repr=False)
    """What decoding it would give, where whoever made it knows: `apply` need not decode it then."""


@dataclass(frozen=True, slots=True)
class Persist:
    """Append `records` to the machine's log as one batch, and `apply` each of them at once.

    A batch above `max.message.bytes` is not written, and nothing of it applied: the answers behind
    it in the same list become errors, alarms are set and none is canceled, and everything else
    behind it is dropped.

    With a producer they are part of its transaction, and count when that is committed.
    """

    records: tuple[StoredRecord, ...]
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    can_wait: bool = False
    """Whether nobody waits for it: lost in a crash, it would only be decided again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Send `response` for `ticket`, once all that was persisted before is durable."""

    ticket: Ticket
    response: Any


@dataclass(frozen=True, slots=True)
class Alarm:
    """Call the machine's `on_alarm(name, now_ms)` when the clock reaches `at_ms`.

    There is one alarm of a name: another `at_ms` moves it, and `None` cancels it.  An alarm that
    rings is gone.  One that rings late, or after it was canceled, does no harm.
    """

    name: AlarmName
    at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMarkers:
    """Write to `partitions` how a transaction ended, once all that was persisted before is durable.

    Like an `Answer`, a marker may not overtake the decision that it reports: a commit marker whose
    decision is lost in a crash makes half a transaction visible.  The shell writes the marker until
    it is durable in each partition (a partition that no longer exists needs none) and reports it
    with `on_markers_written`, some or all partitions at a time.
    """

    order: int
    """Counts the orders of one machine, so that no report is taken for that of another order."""
    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int
    """From 2 on, a partition refuses a marker whose epoch is not above that of the data."""
    is_commit: bool
    partitions: tuple[TopicPartition, ...]


Effect: TypeAlias = Persist | Answer | Alarm | WriteMarkers


def persist_each(records: Iterable[StoredRecord]) -> list[Effect]:
    """Persist records that stand for themselves, in as many batches as keep each of them small.

    A crash may come between two batches.  Then some are written and some are not, which must be as
    good as none; nobody was told of any of them.
    """
    batches: list[Effect] = []
    batch: list[StoredRecord] = []
    room_bytes = BATCH_BYTES
    for record in records:
        size_bytes = len(record.key) + len(record.value or b"")
        if batch and size_bytes > room_bytes:
            batches.append(Persist(tuple(batch)))
            batch, room_bytes = [], BATCH_BYTES
        batch.append(record)
        room_bytes -= size_bytes
    return [*batches, Persist(tuple(batch))] if batch else batches
