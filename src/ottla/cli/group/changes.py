"""What is new in a group since one last looked, as facts and in words.

Between two looks a group may rebalance several times.  A broker that tells its story has them all;
otherwise only what is different at the second look is seen.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.cli.group.shown import count_word, headline, rebalance_facts, took
from ottla.values import dataclass
from ottla.why.naming import culprit, host_of, named
from ottla.why.sight import Sight

if TYPE_CHECKING:
    from ottla.client.admin.stories import Rebalance


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is not as it was: its kind and facts for programs, its text for people."""

    kind: str
    text: str
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Blind:
    """A look that failed, and why; the next one may not."""

    seen_ms: int
    reason: str


class Watch:
    """Remembers the last look, and says what is new at the next."""

    def __init__(self) -> None:
        self._last: Sight | None = None
        self._reason: str | None = None  # why the last look failed, if it did

    def note(self, seen: Sight | Blind) -> list[Change]:
        """What is new; the first look is news as a whole."""
        was_blind, self._reason = self._reason, None
        if isinstance(seen, Blind):
            self._reason = seen.reason
            if was_blind == seen.reason:
                return []
            return [Change("unseen", f"cannot look: {seen.reason}", {"reason": seen.reason})]
        last, self._last = self._last, seen
        if last is None:
            return [_whole(seen)]
        found = list(changes(last, seen))
        return [_whole(seen), *found] if was_blind is not None else found


def changes(before: Sight, after: Sight) -> Iterator[Change]:
    """Everything that differs: rebalances, state, members, assignments, progress."""
    yield from _rebalances(before, after)
    if before.group.state != after.group.state:
        yield Change(
            "state",
            f"{before.group.state} -> {after.group.state}",
            {"before": before.group.state, "after": after.group.state},
        )
    yield from _members(before, after)
    yield from _progress(before, after)


def _whole(sight: Sight) -> Change:
    group = sight.group
    facts = {
        "state": group.state,
        "generation": group.epoch,
        "members": [member.member_id for member in group.members],
        "lag": sight.lag_count,
    }
    return Change("seen", headline(sight), facts)


def _rebalances(before: Sight, after: Sight) -> Iterator[Change]:
    known = {(_key(told), told.ended_ms) for told in _told(before)}
    for told in _told(after):
        if (_key(told), told.ended_ms) in known:
            continue
        how = f"rebalance {took(told)}"
        if told.ended_ms is not None:
            led_to = f"{count_word(after.group)} {told.generation}"
            led_to = "the next" if told.generation is None else led_to
            how = f"rebalance led to {led_to} in {took(told)}"
        text = f"{how}, set off by {culprit(told)}: {told.reason}"
        yield Change("rebalance", text, rebalance_facts(told))


def _told(sight: Sight) -> "Iterable[Rebalance]":
    return () if sight.group.story is None else sight.group.story.rebalances


def _key(told: "Rebalance") -> tuple[int, str | None, str]:
    return told.began_ms, told.member_id, told.reason


def _members(before: Sight, after: Sight) -> Iterator[Change]:
    were, are = before.members, after.members
    for member_id, member in were.items():
        if member_id not in are:
            gone = {"member": member_id, "host": host_of(member.host)}
            yield Change("left", f"{named(before.group, [member_id])} is gone", gone)
    for member_id, member in are.items():
        partitions = [str(partition) for partition in member.assignment]
        facts = {"member": member_id, "host": host_of(member.host), "partitions": partitions}
        who, has = named(after.group, [member_id]), ", ".join(partitions) or "no partition"
        if member_id not in were:
            yield Change("joined", f"{who} is new, and has {has}", facts)
        elif were[member_id].assignment != member.assignment:
            yield Change("assigned", f"{who} has {has}", facts)


def _progress(before: Sight, after: Sight) -> Iterator[Change]:
    were = {lag.key: lag.committed_offset or 0 for lag in before.lags}
    committed = sum(
        (lag.committed_offset or 0) - were[lag.key] for lag in after.lags if lag.key in were
    )
    if committed == 0 and before.lag_count == after.lag_count:
        return
    yield Change(
        "progress",
        f"lag {before.lag_count:,} -> {after.lag_count:,}, {committed:+,} committed",
        {"before": before.lag_count, "lag": after.lag_count, "committed": committed},
    )
