"""Why an epoch of a consumer group begins, in words: who set it off, and by what.

The new protocol has no field for a client's own reason; a member that speaks the old one may still
give one (KIP-800).  Nothing here changes a group.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.coordinator.group.classic import Cause, told_reason
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.topics import Topics
from ottla.coordinator.group.consumer.watch import JOIN, REBALANCE, SESSION, SYNC

LEFT: Final = "it left"
OVERDUE: Final = {
    SESSION: "its session timed out",
    REBALANCE: "it did not give up its partitions in time",
    JOIN: "it did not join again in time",
    SYNC: "it joined and did not ask for its assignment in time",
}
"""Which alarm rang -> what the member failed to do."""

_NAMED_AT_MOST: Final = 3


def joined(member: ConsumerMember, reason: str | None = None) -> Cause:
    """It is new in the group."""
    own = told_reason(reason)
    return Cause.of([member], f"it joined: {own}" if own else "it joined")


def subscribed(member: ConsumerMember) -> Cause:
    """It reads other topics than before."""
    wanted = sorted(member.names)
    if member.pattern:
        wanted.append(f"what matches {member.pattern}")
    what = _few(wanted) if wanted else "nothing"
    return Cause.of([member], told_reason(f"it subscribes to {what} now"))


def chose(member: ConsumerMember, assignor: str) -> Cause:
    """With its vote, partitions are shared out in another way."""
    return Cause.of([member], f"it made {assignor} the assignor that most members ask for")


def gone(members: Sequence[ConsumerMember], why: str) -> Cause:
    """They are members no longer."""
    return Cause.of(members, why)


def topics_changed(before: Topics | None, after: Topics, names: Iterable[str]) -> Cause:
    """The topics that members read are not those of the last epoch; nobody of them did that."""
    changes = [] if before is None else list(after.changes_since(before, sorted(names)))
    reason = _few(changes) if changes else "the topics that it reads have changed"
    return Cause("", told_reason(reason))


def _few(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED_AT_MOST
    shown = ", ".join(names[:_NAMED_AT_MOST])
    return f"{shown} and {rest} more" if rest > 0 else shown
