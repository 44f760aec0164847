"""What a group as a whole waits for: joins, an assignment, members that fall silent.

It is judged by the story that the coordinator tells.  Where there is none (Apache Kafka tells
none), the state alone says what is waited for, and not of whom.  Groups of KIP-848 are judged by
the epochs of their members.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ottla.cli.group.shown import COORDINATOR, culprit, listed, named
from ottla.cli.group.sight import Sight
from ottla.cli.quantities import about
from ottla.cli.why.findings import Finding

if TYPE_CHECKING:
    from ottla.client.admin.groups import GroupInfo, GroupMember
    from ottla.client.admin.stories import AwaitedMember, GroupStory, Rebalance

PREPARING: Final = "PreparingRebalance"
COMPLETING: Final = "CompletingRebalance"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"

OFTEN: Final = 5
OFTEN_WITHIN_MS: Final = 5 * 60_000

_JOIN_ADVICE: Final = (
    "A consumer joins again when it polls: see what keeps it from that. It is left out when the "
    "time is up, which is its max.poll.interval.ms."
)
_REVOCATION_ADVICE: Final = (
    "A consumer gives up partitions when it polls: see what keeps it from that. It is left out "
    "when the time is up, which is its max.poll.interval.ms."
)
_SYNC_ADVICE: Final = "See whether it still runs: it asks at once if it does."
_SILENT_ADVICE: Final = (
    "See whether it runs and reaches the broker. How long it may be silent is its own "
    "session.timeout.ms."
)


def waits(sight: Sight) -> Iterator[Finding]:
    """What the group waits for before it can go on, and what is about to set it back."""
    group = sight.group
    if group.type != "classic":
        yield from _consumer_group_waits(group)
    elif group.story is None:
        yield from _untold_waits(group)
    else:
        yield from _told_waits(group, group.story)
        yield from _often(group.story)


def _untold_waits(group: "GroupInfo") -> Iterator[Finding]:
    if group.state == PREPARING:
        text = "It waits for members to join again; this broker does not tell which."
        yield Finding(code="waits_for_joins", text=text, advice=_JOIN_ADVICE)
    elif group.state == COMPLETING:
        text = "It waits for its leader to share out the partitions; this broker does not tell who."
        yield Finding(code="waits_for_assignment", text=text)


def _told_waits(group: "GroupInfo", story: "GroupStory") -> Iterator[Finding]:
    by_kind: dict[str, list[AwaitedMember]] = {}
    for awaited in story.awaited:
        by_kind.setdefault(awaited.what, []).append(awaited)
    if group.state == PREPARING and "join" not in by_kind:
        text = f"It gives others the time to join too, for {_left(story.until_ms, story)} at most."
        advice = "The time is the broker's group.initial.rebalance.delay.ms."
        yield Finding(code="waits_for_others", text=text, advice=advice, until_ms=story.until_ms)
    for kind, (code, words, advice) in _WORDS.items():
        if members := by_kind.get(kind):
            yield _told_wait(group, story, members, code, words, advice)
    if group.state in (PREPARING, COMPLETING) and story.rebalances:
        yield _last_rebalance(story.rebalances[-1], story)


_WORDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "join": (
        "waits_for_joins",
        "It waits for {who} to join again, {so_far}and for {left} at most.",
        _JOIN_ADVICE,
    ),
    "first join": (
        "waits_for_first_joins",
        "It gave an id to {who}, with which to join within {left}.",
        "A client that was stopped in between is forgotten when the time is up.",
    ),
    "assignment": (
        "waits_for_assignment",
        "It waits for its leader, {who}, to share out the partitions, {so_far}and for {left} at "
        "most.",
        "The leader does this in its own process: see what it is busy with.",
    ),
    "sync": (
        "waits_for_syncs",
        "It waits for {who} to ask for the new assignment, {so_far}and for {left} at most.",
        _SYNC_ADVICE,
    ),
    "heartbeat": (
        "silent",
        "Silent: {who}, {so_far}and removed in {left} if that goes on.",
        _SILENT_ADVICE,
    ),
}
"""What is waited for -> the code of the finding, its text, and its advice."""


def _told_wait(
    group: "GroupInfo",
    story: "GroupStory",
    members: "list[AwaitedMember]",
    code: str,
    words: str,
    advice: str,
) -> Finding:
    """One finding for all members of whom the same is awaited, by the one who has least time."""
    until_ms = min((m.until_ms for m in members if m.until_ms is not None), default=None)
    # None is longer than anybody remembers.
    since = [m.since_ms for m in members if m.since_ms is not None]
    since_ms = min(since) if len(since) == len(members) else None
    member_ids = tuple(awaited.member_id for awaited in members)
    so_far = "" if since_ms is None else f"for {about(story.now_ms - since_ms)} so far, "
    text = words.format(who=named(group, member_ids), so_far=so_far, left=_left(until_ms, story))
    return Finding(
        code=code,
        text=text,
        advice=advice,
        members=member_ids,
        since_ms=since_ms,
        until_ms=until_ms,
    )


def _last_rebalance(told: "Rebalance", story: "GroupStory") -> Finding:
    ago = about(story.now_ms - told.began_ms)
    return Finding(
        code="set_off_by",
        text=f"{culprit(told)} set off the rebalance {ago} ago: {told.reason}.",
        members=(told.member_id,) if told.member_id else (),
        since_ms=told.began_ms,
    )


def _often(story: "GroupStory") -> Iterator[Finding]:
    """A group that rebalances all the time works little, and it is mostly one member's doing."""
    recent = [r for r in story.rebalances if story.now_ms - r.began_ms <= OFTEN_WITHIN_MS]
    if len(recent) < OFTEN:
        return
    causes: dict[tuple[str, str], int] = {}
    for told in recent:
        cause = (culprit(told), told.reason)
        causes[cause] = causes.get(cause, 0) + 1
    (who, reason), count = max(causes.items(), key=lambda entry: entry[1])
    most = f", {count} times by {who}: {reason}" if count > 1 and who != COORDINATOR else ""
    yield Finding(
        code="rebalances_often",
        text=f"It rebalanced {len(recent)} times in {about(OFTEN_WITHIN_MS)}{most}.",
        advice="`ottla group describe -v` shows all of them with their reasons.",
        since_ms=recent[0].began_ms,
    )


def _consumer_group_waits(group: "GroupInfo") -> Iterator[Finding]:
    if group.state == ASSIGNING:
        text = f"The coordinator shares out the partitions anew, for epoch {group.epoch}."
        yield Finding(code="waits_for_assignment", text=text)
    if group.state != RECONCILING:
        return
    for member in group.members:
        giving_up = sorted(set(member.assignment) - set(member.target or ()))
        if giving_up:
            yield Finding(
                code="waits_for_revocation",
                text=f"It waits for {_name(group, member)} to give up {listed(giving_up)}.",
                advice=_REVOCATION_ADVICE,
                members=(member.member_id,),
                partitions=tuple(giving_up),
            )
        elif member.epoch != group.epoch:
            coming = sorted(set(member.target or ()) - set(member.assignment))
            what = f"; {listed(coming)} will be its own" if coming else ""
            yield Finding(
                code="waits_for_epoch",
                text=f"{_name(group, member)} is at epoch {member.epoch} and has to follow to "
                f"{group.epoch}{what}.",
                members=(member.member_id,),
                partitions=tuple(coming),
            )


def _name(group: "GroupInfo", member: "GroupMember") -> str:
    return named(group, [member.member_id])


def _left(until_ms: int | None, story: "GroupStory") -> str:
    return "an unknown time" if until_ms is None else about(until_ms - story.now_ms)
