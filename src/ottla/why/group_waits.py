"""What a group as a whole waits for: joins, an assignment, members that fall silent.

It is judged by the story that the coordinator tells.  Where there is none (Apache Kafka tells
none), the state alone says what is waited for, and not of whom.  Groups of KIP-848 are judged in
`consumer_group_waits`.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ottla.why.consumer_group_waits import consumer_group_waits
from ottla.why.findings import Finding
from ottla.why.sight import Sight
from ottla.why.told import Words, awaited_by_kind, last_rebalance, left, often, told_wait

if TYPE_CHECKING:
    from ottla.client.admin.groups import GroupInfo
    from ottla.client.admin.stories import GroupStory

PREPARING: Final = "PreparingRebalance"
COMPLETING: Final = "CompletingRebalance"

_JOIN_ADVICE: Final = (
    "A consumer joins again when it polls: see what keeps it from that. It is left out when the "
    "time is up, which is its max.poll.interval.ms."
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
        yield from consumer_group_waits(group)
    elif group.story is None:
        yield from _untold_waits(group)
    else:
        yield from _told_waits(group, group.story)
        yield from often(group.story, group.story.rebalances)


def _untold_waits(group: "GroupInfo") -> Iterator[Finding]:
    if group.state == PREPARING:
        text = "It waits for members to join again; this broker does not tell which."
        yield Finding(code="waits_for_joins", text=text, advice=_JOIN_ADVICE)
    elif group.state == COMPLETING:
        text = "It waits for its leader to share out the partitions; this broker does not tell who."
        yield Finding(code="waits_for_assignment", text=text)


def _told_waits(group: "GroupInfo", story: "GroupStory") -> Iterator[Finding]:
    by_kind = awaited_by_kind(story)
    if group.state == PREPARING and "join" not in by_kind:
        text = f"It gives others the time to join too, for {left(story.until_ms, story)} at most."
        advice = "The time is the broker's group.initial.rebalance.delay.ms."
        yield Finding(code="waits_for_others", text=text, advice=advice, until_ms=story.until_ms)
    for kind, words in _WORDS.items():
        if members := by_kind.get(kind):
            yield told_wait(group, story, members, words)
    if group.state in (PREPARING, COMPLETING) and story.rebalances:
        yield last_rebalance(story.rebalances[-1], story)


_WORDS: Final[Mapping[str, Words]] = {
    "join": Words(
        "waits_for_joins",
        "It waits for {who} to join again, {so_far}and for {left} at most.",
        _JOIN_ADVICE,
    ),
    "first join": Words(
        "waits_for_first_joins",
        "It gave an id to {who}, with which to join within {left}.",
        "A client that was stopped in between is forgotten when the time is up.",
    ),
    "assignment": Words(
        "waits_for_assignment",
        "It waits for its leader, {who}, to share out the partitions, {so_far}and for {left} at "
        "most.",
        "The leader does this in its own process: see what it is busy with.",
    ),
    "sync": Words(
        "waits_for_syncs",
        "It waits for {who} to ask for the new assignment, {so_far}and for {left} at most.",
        _SYNC_ADVICE,
    ),
    "heartbeat": Words(
        "silent",
        "Silent: {who}, {so_far}and removed in {left} if that goes on.",
        _SILENT_ADVICE,
    ),
}
"""What is waited for -> how to speak of it."""
