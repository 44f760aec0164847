"""What a pipeline waits for: looks at what this machine knows of it, and what the brokers know."""

import time
from typing import TYPE_CHECKING

from ottla.client.admin.transactions import UNENDED
from ottla.errors import NotFoundError
from ottla.pipeline.state import RUNNING, State, StateFolder, UnknownPipelineError
from ottla.spark.sink.decisions import TOPIC_PREFIX, Names
from ottla.why.access import Access
from ottla.why.pipeline_waits import PipelineSight, StepSight
from ottla.why.sinks import look_at_sink

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.lag import GroupLag
    from ottla.client.admin.transactions import TransactionInfo


def seen_here(folder: StateFolder) -> tuple[State | None, str | None]:
    """What this machine knows of a pipeline, and how it is now; nothing if it ran elsewhere."""
    try:
        return folder.seen()
    except UnknownPipelineError:
        return None, None


def look_at_pipeline(access: Access, folder: StateFolder, look_s: float) -> PipelineSight:
    """Look at a pipeline, for `look_s` if it runs and is behind: how fast do records come?

    One that nobody knows has no state and no steps.
    """
    state, now = seen_here(folder)
    sinks = _sinks_of(access.admin, folder.path.name, state)
    steps = [_look(access, step, sink_id) for step, sink_id in sinks.items()]
    return PipelineSight(
        name=folder.path.name,
        state=state,
        now=now,
        steps=tuple(steps),
        arriving_per_s=_arrivals(access.admin, steps, look_s if now == RUNNING else 0),
        log_file=str(folder.log_file),
        now_ms=time.time_ns() // 1_000_000,
    )


def _sinks_of(admin: "Admin", name: str, state: State | None) -> dict[str, str]:
    """Step -> the id of its sink, which is its group, too; by the journals if nothing else."""
    if state is not None:
        return dict(state.groups)
    prefix = f"{TOPIC_PREFIX}{name}."
    topics = admin.list_topics(internal=True)
    sinks = [t.removeprefix(TOPIC_PREFIX) for t in sorted(topics) if t.startswith(prefix)]
    return {sink_id.removeprefix(f"{name}."): sink_id for sink_id in sinks}


def _look(access: Access, step: str, sink_id: str) -> StepSight:
    names = Names(sink_id)
    return StepSight(
        step=step,
        lag=_lag(access.admin, sink_id),
        sink=look_at_sink(access, names),
        open=tuple(_open_of(access.admin, names)),
    )


def _lag(admin: "Admin", group_id: str) -> "GroupLag | None":
    try:
        return admin.lag(group_id)
    except NotFoundError:
        return None  # it has committed nothing yet


def _open_of(admin: "Admin", names: Names) -> "list[TransactionInfo]":
    """The transactions of a sink that have not ended, its driver's among them."""
    found = []
    for listing in admin.list_transactions(states=UNENDED):
        name = listing.transactional_id
        if name != names.coordinator and not names.is_participant(name):
            continue
        try:
            found.append(admin.describe_transaction(name))
        except NotFoundError:
            continue  # it was forgotten meanwhile
    return found


def _arrivals(admin: "Admin", steps: list[StepSight], look_s: float) -> dict[str, float]:
    """Step -> how many records a second come to what it reads, of those that are behind."""
    behind = [step for step in steps if step.lag_count]
    if not behind or not look_s:
        return {}
    ends = {step.step: _ends(admin, step) for step in behind}
    began_s = time.monotonic()
    time.sleep(look_s)
    took_s = time.monotonic() - began_s
    return {step.step: (_ends(admin, step) - ends[step.step]) / took_s for step in behind}


def _ends(admin: "Admin", step: StepSight) -> int:
    partitions = [part.tp for part in step.lag.partitions] if step.lag is not None else []
    return sum(end or 0 for end in admin.list_offsets(partitions, missing_ok=True).values())
