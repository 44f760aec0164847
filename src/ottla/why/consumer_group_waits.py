"""What a group of KIP-848 waits for: partitions that are not given up, members that do not follow.

Epochs and targets of the members say who has yet to act, with any broker.  One that tells the
story of a group also says since when, until when, who is silent, and what set it off.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ottla.why.findings import Finding
from ottla.why.naming import listed, named
from ottla.why.told import (
    Words,
    awaited_by_kind,
    last_rebalance,
    left,
    often,
    so_far,
    told_wait,
)

if TYPE_CHECKING:
    from ottla.client.admin.groups import GroupInfo, GroupMember
    from ottla.client.admin.stories import AwaitedMember, GroupStory
    from ottla.model import TopicPartition

ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"

_JOINED: Final = "it joined"

_REVOCATION_ADVICE: Final = (
    "A consumer gives up partitions when it polls: see what keeps it from that. It is left out "
    "when the time is up, which is its max.poll.interval.ms."
)
_WORDS: Final[Mapping[str, Words]] = {
    "return": Words(
        "waits_for_return",
        "It keeps the partitions of {who}, which left to come back, {so_far}and for {left} at "
        "most.",
        "Start it again with its group.instance.id; the time is the broker's "
        "group.consumer.session.timeout.ms.",
    ),
    "join": Words(
        "waits_for_joins",
        "It waits for {who}, of the classic protocol, to join again, {so_far}and for {left} at "
        "most.",
        "A consumer joins again when it polls: see what keeps it from that.",
    ),
    "sync": Words(
        "waits_for_syncs",
        "It waits for {who}, of the classic protocol, to ask for its assignment, {so_far}and for "
        "{left} at most.",
        "See whether it still runs: it asks at once if it does.",
    ),
    "heartbeat": Words(
        "silent",
        "Silent: {who}, {so_far}and removed in {left} if that goes on.",
        "See whether it runs and reaches the broker. How long it may be silent is the broker's "
        "group.consumer.session.timeout.ms.",
    ),
}
"""What is waited for, beside partitions and epochs -> how to speak of it."""


def consumer_group_waits(group: "GroupInfo") -> Iterator[Finding]:
    """What the group waits for before it is at rest, and what is about to set it back."""
    story = group.story
    if group.state == ASSIGNING:
        yield _assignment(group)
    if story is None:
        if group.state == RECONCILING:
            yield from _untold_waits(group)
        return
    yield from _told_waits(group, story)
    if group.state in (ASSIGNING, RECONCILING) and story.rebalances:
        yield last_rebalance(story.rebalances[-1], story)
    # A join disturbs nobody who has nothing to give up, and a group that starts has many.
    yield from often(story, [r for r in story.rebalances if not r.reason.startswith(_JOINED)])


def _assignment(group: "GroupInfo") -> Finding:
    text = f"The coordinator shares out the partitions anew, for epoch {group.epoch}"
    story = group.story
    until_ms = None if story is None else story.until_ms
    if story is None or until_ms is None or until_ms <= story.now_ms:
        text = f"{text}, with the next heartbeat of a member."
        return Finding(code="waits_for_assignment", text=text)
    return Finding(
        code="waits_for_assignment",
        text=f"{text}, but not for another {left(until_ms, story)}.",
        advice="The time is the broker's group.consumer.assignment.interval.ms; where that is 0, a "
        "group of more than 100 members waits one millisecond for each.",
        until_ms=until_ms,
    )


def _untold_waits(group: "GroupInfo") -> Iterator[Finding]:
    for member in group.members:
        if giving_up := _giving_up(member):
            text = f"It waits for {_to_give_up(group, member, giving_up)}."
            yield _revocation(member, text, giving_up)
        elif member.epoch != group.epoch:
            yield _following(group, [member])


def _told_waits(group: "GroupInfo", story: "GroupStory") -> Iterator[Finding]:
    by_kind = awaited_by_kind(story)
    members = {member.member_id: member for member in group.members}
    for awaited in by_kind.get("revocation", ()):
        if awaited.member_id in members:
            yield _told_revocation(group, story, members[awaited.member_id], awaited)
    late = [members[a.member_id] for a in by_kind.get("epoch", ()) if a.member_id in members]
    if late:
        yield _following(group, late)
    for kind, words in _WORDS.items():
        if found := by_kind.get(kind):
            yield told_wait(group, story, found, words)


def _told_revocation(
    group: "GroupInfo", story: "GroupStory", member: "GroupMember", awaited: "AwaitedMember"
) -> Finding:
    giving_up = _giving_up(member)
    times = f"{so_far(awaited.since_ms, story)}and for {left(awaited.until_ms, story)} at most"
    text = f"It waits for {_to_give_up(group, member, giving_up)}, {times}."
    return _revocation(member, text, giving_up, awaited)


def _revocation(
    member: "GroupMember",
    text: str,
    partitions: "list[TopicPartition]",
    awaited: "AwaitedMember | None" = None,
) -> Finding:
    return Finding(
        code="waits_for_revocation",
        text=text,
        advice=_REVOCATION_ADVICE,
        members=(member.member_id,),
        partitions=tuple(partitions),
        since_ms=None if awaited is None else awaited.since_ms,
        until_ms=None if awaited is None else awaited.until_ms,
    )


def _to_give_up(
    group: "GroupInfo", member: "GroupMember", partitions: "list[TopicPartition]"
) -> str:
    """`ada (host) to give up orders-1 for bob (host)`."""
    who = named(group, [member.member_id])
    if not partitions:  # the target has changed again since it was told
        return f"{who} to say that it gave up what it was told to"
    next_ids = [
        other.member_id
        for other in group.members
        if other is not member and not set(partitions).isdisjoint(other.target or ())
    ]
    for_whom = f" for {named(group, next_ids)}" if next_ids else ""
    return f"{who} to give up {listed(partitions)}{for_whom}"


def _following(group: "GroupInfo", members: "list[GroupMember]") -> Finding:
    """Members that come along with their next heartbeat, if all goes well."""
    coming = sorted({p for m in members for p in set(m.target or ()) - set(m.assignment)})
    member_ids = tuple(member.member_id for member in members)
    behind = f", from {members[0].epoch}" if len(members) == 1 else ""
    what = f"; {listed(coming)} will be theirs" if coming else ""
    return Finding(
        code="waits_for_epoch",
        text=f"To follow to epoch {group.epoch}{behind}, with the next heartbeat: "
        f"{named(group, member_ids)}{what}.",
        members=member_ids,
        partitions=tuple(coming),
    )


def _giving_up(member: "GroupMember") -> "list[TopicPartition]":
    return sorted(set(member.assignment) - set(member.target or ()))
