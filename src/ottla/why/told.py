"""What a coordinator tells of waits and rebalances, as findings, for groups of either type."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.quantities import about
from ottla.values import dataclass
from ottla.why.findings import Finding
from ottla.why.naming import COORDINATOR, culprit, named

if TYPE_CHECKING:
    from ottla.client.admin.groups import GroupInfo
    from ottla.client.admin.stories import AwaitedMember, GroupStory, Rebalance

OFTEN: Final = 5
OFTEN_WITHIN_MS: Final = 5 * 60_000


@dataclass(frozen=True, slots=True)
class Words:
    """How to speak of one thing that is awaited."""

    code: str
    text: str
    """With places for {who}, for {so_far}, which is empty or ends in a comma, and for {left}."""
    advice: str


def awaited_by_kind(story: "GroupStory") -> "dict[str, list[AwaitedMember]]":
    """Who is waited for, by what is awaited."""
    by_kind: dict[str, list[AwaitedMember]] = {}
    for awaited in story.awaited:
        by_kind.setdefault(awaited.what, []).append(awaited)
    return by_kind


def told_wait(
    group: "GroupInfo", story: "GroupStory", members: "list[AwaitedMember]", words: Words
) -> Finding:
    """One finding for all members of whom the same is awaited, by the one who has least time."""
    until_ms = min((m.until_ms for m in members if m.until_ms is not None), default=None)
    # None is longer than anybody remembers.
    since = [m.since_ms for m in members if m.since_ms is not None]
    since_ms = min(since) if len(since) == len(members) else None
    member_ids = tuple(awaited.member_id for awaited in members)
    text = words.text.format(
        who=named(group, member_ids), so_far=so_far(since_ms, story), left=left(until_ms, story)
    )
    return Finding(
        code=words.code,
        text=text,
        advice=words.advice,
        members=member_ids,
        since_ms=since_ms,
        until_ms=until_ms,
    )


def last_rebalance(told: "Rebalance", story: "GroupStory") -> Finding:
    """Who set it off, when, and why."""
    ago = about(story.now_ms - told.began_ms)
    return Finding(
        code="set_off_by",
        text=f"{culprit(told)} set off the rebalance {ago} ago: {told.reason}.",
        members=(told.member_id,) if told.member_id else (),
        since_ms=told.began_ms,
    )


def often(story: "GroupStory", rebalances: "Iterable[Rebalance]") -> Iterator[Finding]:
    """A group that rebalances all the time works little, and it is mostly one member's doing."""
    recent = [r for r in rebalances if story.now_ms - r.began_ms <= OFTEN_WITHIN_MS]
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


def so_far(since_ms: int | None, story: "GroupStory") -> str:
    """`for 12 s so far, `, or nothing if nobody knows since when."""
    return "" if since_ms is None else f"for {about(story.now_ms - since_ms)} so far, "


def left(until_ms: int | None, story: "GroupStory") -> str:
    """How much time is left, in words."""
    return "an unknown time" if until_ms is None else about(until_ms - story.now_ms)
