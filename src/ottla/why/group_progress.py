"""What a group makes of its partitions: whether it reads on, and where it cannot.

A partition is *stuck* when somebody has it, there are records that should have been read by now,
and nothing was committed for a while.  A broker that tells its story says when each offset was
committed; with any other, two looks are compared, and the finding says how long that was.  Records
that came just now prove nothing, nor does lag that grows between two commits.
"""

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Final

from ottla.quantities import about, counted
from ottla.why.findings import Finding
from ottla.why.lags import FRESH_MS, Lag
from ottla.why.naming import culprit, listed, named
from ottla.why.sight import Sight

if TYPE_CHECKING:
    from ottla.client.admin.stories import GroupStory

AUTO_COMMIT_MS: Final = 5_000

_STUCK_ADVICE: Final = (
    "It is alive, but does not finish what it reads, or does not commit it: look for a record that "
    "it fails on, a call that hangs, or enable.auto.commit=false without commits."
)
_LEFT: Final = "it left"
"""The reason of a member that gave none."""

_SLOW_ADVICE: Final = "Add members, up to one for each partition, or make each of them faster."


def progress(before: Sight | None, now: Sight) -> Iterator[Finding]:
    """Whether the group comes along; `before` is an earlier look, if there was one."""
    yield from _out_of_range(now)
    if not now.group.members:
        yield _without_members(now)
        return
    yield from _unowned(now)
    overdue = [lag for lag in now.lags if lag.member_id is not None and lag.is_overdue]
    held = [lag for lag in overdue if _is_held_back(lag)]
    yield from _held_back(held)
    stuck = [lag for lag in overdue if lag not in held and _is_stuck(lag, before, now)]
    yield from _stuck(now, stuck, before)
    if before is not None:
        reading = [lag for lag in overdue if lag not in (*held, *stuck)]
        slow = list(_slow(before, now, reading))
        yield from slow or _catching_up(before, now, reading)
    yield from _never_committed(now)
    yield from _idle_members(now)


def _out_of_range(now: Sight) -> Iterator[Finding]:
    name = quote(now.group.group_id)
    for lag in now.lags:
        committed, start, end = lag.committed_offset, lag.start_offset, lag.end_offset
        if committed is None:
            continue
        if end is None:
            yield Finding(
                code="partition_missing",
                text=f"It has committed offset {committed} of {lag.key}, which does not exist or "
                "has no leader.",
                partitions=(lag.key,),
            )
        elif committed > end:
            yield Finding(
                code="beyond_end",
                text=f"It has committed offset {committed} of {lag.key}, which ends at {end}: the "
                "topic was created anew, or has lost records.",
                advice=f"Members start over by their auto.offset.reset. `ottla group reset {name} "
                f"-t {lag.key.topic} --to end` chooses a place.",
                partitions=(lag.key,),
            )
        elif start is not None and committed < start:
            yield Finding(
                code="below_start",
                text=f"It has committed offset {committed} of {lag.key}, which begins at {start} "
                f"now: retention took {counted(start - committed, 'offset')} before they were "
                "read.",
                advice="Raise retention.ms of the topic, or read faster; `ottla group reset "
                f"{name} -t {lag.key.topic} --to start` goes on with what is left.",
                partitions=(lag.key,),
            )


def _without_members(now: Sight) -> Finding:
    group, story = now.group, now.group.story
    since_ms = None if story is None else story.since_ms
    text = "It has no members"
    if story is not None and since_ms is not None:
        text += f", for {about(story.now_ms - since_ms)} now"
    if story is not None and story.rebalances:
        last = story.rebalances[-1]
        text += f" (the last was {culprit(last)}: {last.reason})"
    if now.lag_count == 0:
        return Finding(code="no_members", text=f"{text}, and nothing to read.", since_ms=since_ms)
    return Finding(
        code="no_members",
        text=f"{text}, and {counted(now.lag_count, 'record')} to read.",
        advice=f"Start a consumer with group.id={group.group_id}; if there is none any more, "
        f"`ottla group delete {quote(group.group_id)}`.{_still_running(story)}",
        partitions=tuple(lag.key for lag in now.lags if lag.record_count),
        since_ms=since_ms,
    )


def _still_running(story: "GroupStory | None") -> str:
    """A word for the case that the last member went without anybody having stopped it.

    Not every client says why it leaves: librdkafka does not.
    """
    last = story.rebalances[-1] if story is not None and story.rebalances else None
    if last is None or not (last.reason == _LEFT or "poll" in last.reason):
        return ""
    return (
        " If nobody stopped it, it may still run and hang: a consumer that has not polled for "
        "max.poll.interval.ms leaves, and says so in its own log."
    )


def _is_held_back(lag: Lag) -> bool:
    committed, stable, end = lag.committed_offset, lag.stable_offset, lag.end_offset
    if committed is None or stable is None or end is None:
        return False
    return stable < end and committed >= stable


def _held_back(lags: Sequence[Lag]) -> Iterator[Finding]:
    if not lags:
        return
    places = listed([f"{lag.key} at offset {lag.stable_offset}" for lag in lags])
    yield Finding(
        code="open_transaction",
        text=f"A transaction is open in {places}: with isolation.level=read_committed nobody reads "
        "beyond it.",
        advice="It ends when its producer commits or aborts it, or when its "
        f"transaction.timeout.ms is over. `ottla why topic {lags[0].key.topic}` says whose it is, "
        "and since when.",
        partitions=tuple(lag.key for lag in lags),
    )


def _unowned(now: Sight) -> Iterator[Finding]:
    lags = [lag for lag in now.lags if lag.member_id is None and lag.record_count]
    if lags and now.group.state == "Stable":
        count = sum(lag.record_count or 0 for lag in lags)
        yield Finding(
            code="not_assigned",
            text=f"No member has {_places(lags)}, with {counted(count, 'record')} to read.",
            advice="See which topics the members subscribe to.",
            partitions=tuple(lag.key for lag in lags),
        )


def _is_stuck(lag: Lag, before: Sight | None, now: Sight) -> bool:
    committed_ms = now.committed_ms.get(lag.key)
    if now.group.story is not None and committed_ms is not None:
        return now.group.story.now_ms - committed_ms >= FRESH_MS
    if before is None:
        return False
    were = {earlier.key: earlier.committed_offset for earlier in before.lags}
    return were.get(lag.key) == lag.committed_offset


def _stuck(now: Sight, lags: Sequence[Lag], before: Sight | None) -> Iterator[Finding]:
    """One finding for each member: it is the member that is in trouble, not the partition."""
    for member_id in dict.fromkeys(lag.member_id or "" for lag in lags):
        own = [lag for lag in lags if lag.member_id == member_id]
        count = sum(lag.record_count or 0 for lag in own)
        times_ms = [now.committed_ms[lag.key] for lag in own if lag.key in now.committed_ms]
        yield Finding(
            code="stuck",
            text=f"{named(now.group, [member_id])} has {counted(count, 'record')} to read in "
            f"{_places(own)} and has committed nothing there {_how_long(now, before, times_ms)}.",
            advice=f"{_STUCK_ADVICE} {_next_record(own)}",
            members=(member_id,),
            partitions=tuple(lag.key for lag in own),
            since_ms=max(times_ms, default=None),
        )


def _next_record(lags: Sequence[Lag]) -> str:
    """How to see the record that a member would commit next, where most waits for it."""
    worst = max(lags, key=lambda lag: lag.record_count or 0)
    topic, partition = worst.key
    return (
        f"`ottla consume {topic} -p {partition} --from {worst.committed_offset} -n 1` shows the "
        "record that it is at."
    )


def _how_long(now: Sight, before: Sight | None, times_ms: Sequence[int]) -> str:
    if now.group.story is not None and times_ms:
        return f"for {about(now.group.story.now_ms - max(times_ms))}"
    assert before is not None, "without commit times it takes two looks to call it stuck"
    looked_ms = now.seen_ms - before.seen_ms
    words = f"in the {about(looked_ms)} that we looked"
    if looked_ms <= AUTO_COMMIT_MS:
        return f"{words}, which may be too short: --look looks longer"
    return words


def _slow(before: Sight, now: Sight, lags: Sequence[Lag]) -> Iterator[Finding]:
    """Members that read on, while more is written than they can read."""
    were = {lag.key: lag.record_count or 0 for lag in before.lags}
    slower = [lag for lag in lags if (lag.record_count or 0) > were.get(lag.key, 0)]
    growth = sum((lag.record_count or 0) - were.get(lag.key, 0) for lag in slower)
    if growth:
        count = sum(lag.record_count or 0 for lag in slower)
        yield Finding(
            code="falls_behind",
            text=f"More is written to {_places(slower)} than is read: {counted(count, 'record')} "
            f"are left, {growth:,} more than {about(now.seen_ms - before.seen_ms)} ago.",
            advice=_SLOW_ADVICE,
            members=tuple(dict.fromkeys(lag.member_id or "" for lag in slower)),
            partitions=tuple(lag.key for lag in slower),
        )


def _catching_up(before: Sight, now: Sight, lags: Sequence[Lag]) -> Iterator[Finding]:
    """Members that are late, and read more than is written."""
    were = {lag.key: lag.record_count or 0 for lag in before.lags}
    left = sum(lag.record_count or 0 for lag in lags)
    less = sum(were.get(lag.key, 0) for lag in lags) - left
    looked_ms = now.seen_ms - before.seen_ms
    if less > 0 and looked_ms > 0:
        yield Finding(
            code="catches_up",
            text=f"It catches up: {counted(left, 'record')} are left in {_places(lags)}, {less:,} "
            f"fewer than {about(looked_ms)} ago. At this pace it takes another "
            f"{about(left * looked_ms // less)}.",
            members=tuple(dict.fromkeys(lag.member_id or "" for lag in lags)),
            partitions=tuple(lag.key for lag in lags),
        )


def _never_committed(now: Sight) -> Iterator[Finding]:
    """Partitions that somebody reads, and of which nothing is kept."""
    lags = [
        lag
        for lag in now.lags
        if lag.member_id is not None
        and lag.committed_offset is None
        and (lag.fresh_offset or 0) > (lag.start_offset or 0)
    ]
    if lags:
        yield Finding(
            code="never_committed",
            text=f"Nothing was ever committed for {_places(lags)}, which "
            f"{named(now.group, dict.fromkeys(lag.member_id or '' for lag in lags))} has.",
            advice="It still works on the first records it got, or hangs with them, or does not "
            "commit (enable.auto.commit=false without commits). After a restart, auto.offset.reset "
            "of the member says where it begins.",
            members=tuple(dict.fromkeys(lag.member_id or "" for lag in lags)),
            partitions=tuple(lag.key for lag in lags),
        )


def _idle_members(now: Sight) -> Iterator[Finding]:
    group = now.group
    idle = tuple(member.member_id for member in group.members if not member.assignment)
    if idle and len(idle) < len(group.members) and group.state == "Stable":
        yield Finding(
            code="idle_members",
            text=f"{counted(len(idle), 'member')} without a partition: {named(group, idle)}. "
            "There are more members than partitions.",
            advice="Add partitions (`ottla topic add-partitions`), or stop members.",
            members=idle,
        )


def _places(lags: Sequence[Lag]) -> str:
    return listed([str(lag.key) for lag in lags])
