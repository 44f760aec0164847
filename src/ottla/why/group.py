"""Why a group is where it is: all that is to be said of it after one look, or two."""

from ottla.quantities import counted
from ottla.why.findings import Finding
from ottla.why.group_progress import progress
from ottla.why.group_waits import waits
from ottla.why.sight import Sight


def why_group(before: Sight | None, now: Sight) -> list[Finding]:
    """What it waits for and whether it comes along; `before` is an earlier look, if there was one.

    There is always something to say.
    """
    return [*waits(now), *progress(before, now)] or [_nothing(now)]


def _nothing(sight: Sight) -> Finding:
    at_work = f"{counted(len(sight.group.members), 'member')} at work"
    left = f"{counted(sight.lag_count, 'record')} left" if sight.lag_count else "nothing left"
    text = f"It waits for nothing: {at_work}, with {left} to commit"
    if new := [lag for lag in sight.lags if lag.committed_offset is None and lag.end_offset]:
        text += f", and nothing committed yet in {counted(len(new), 'partition')}"
    return Finding(code="nothing", text=f"{text}.")
