"""`ottla why pipeline`."""

import os
import time
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.completion_names import pipelines
from ottla.cli.connection import DEFAULT_BOOTSTRAP, Connection
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.why.findings import show
from ottla.cli.why.pipeline_waits import PipelineSight, StepSight, findings, title
from ottla.cli.why.sinks import look_at_sink
from ottla.errors import NotFoundError
from ottla.pipeline.state import RUNNING, State, StateFolder, UnknownPipelineError, state_dir
from ottla.spark.sink.decisions import TOPIC_PREFIX, Names

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.lag import GroupLag
    from ottla.client.admin.transactions import TransactionInfo

LOOK_S: Final = 2.0
"""Long enough to see how fast records come."""

_UNENDED: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


@click.command("pipeline")
@click.argument("name", metavar="PIPELINE", shell_complete=pipelines)
@click.option(
    "--look",
    "look_s",
    type=click.FloatRange(min=0),
    default=LOOK_S,
    metavar="SECONDS",
    show_default=True,
    help="How long to see how fast records come, if it runs and is behind. 0 is one look.",
)
@click.option(
    "-b",
    "--bootstrap",
    metavar="HOST:PORT,...",
    envvar="OTTLA_BOOTSTRAP",
    show_envvar=True,
    help="The brokers to ask first.  [default: those that the pipeline used]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    metavar="SECONDS",
    show_default=True,
    help="How long one answer may take.",
)
@verbose_option
@format_option
@click.pass_obj
def command(
    output: Output, name: str, look_s: float, bootstrap: str | None, timeout: float
) -> None:
    """Say what a pipeline waits for, and what to do about it.

    It tells whether it runs, since when not and why, which of its batches are decided and not
    carried out, which were left in the middle, how far behind each step is, and whether records
    come faster than they are read.  Of a pipeline that ran on another machine it tells what the
    brokers know.

    \b
    Examples:
      ottla why pipeline shop
      ottla why pipeline shop -b broker:9092 -o json
    """
    folder = StateFolder(state_dir(os.environ), name)
    state, now = _seen(folder)
    servers = bootstrap or (DEFAULT_BOOTSTRAP if state is None else state.bootstrap)
    connection = Connection(servers, timeout)
    with connection.admin() as admin:
        sinks = _sinks_of(admin, name, state)
        if state is None and not sinks:
            raise UnknownPipelineError(
                f"no pipeline {name!r} ever ran here, and none has written to {servers}"
            )
        steps = [_look(admin, connection, step, sink_id) for step, sink_id in sinks.items()]
        arriving = _arrivals(admin, steps, look_s if now == RUNNING else 0)
    sight = PipelineSight(
        name=name,
        state=state,
        now=now,
        steps=tuple(steps),
        arriving_per_s=arriving,
        log_file=str(folder.log_file),
        now_ms=int(time.time() * 1000),
    )
    about_it = {
        "pipeline": name,
        "state": now,
        "lag": sum(step.lag_count for step in steps),
        "steps": list(sinks),
    }
    show(output, title(sight), about_it, findings(sight))


def _seen(folder: StateFolder) -> tuple[State | None, str | None]:
    """What this machine knows of it; nothing if it ran elsewhere."""
    try:
        return folder.seen()
    except UnknownPipelineError:
        return None, None


def _sinks_of(admin: "Admin", name: str, state: State | None) -> dict[str, str]:
    """Step -> the id of its sink, which is its group, too; by the journals if nothing else."""
    if state is not None:
        return dict(state.groups)
    prefix = f"{TOPIC_PREFIX}{name}."
    topics = admin.list_topics(internal=True)
    sinks = [t.removeprefix(TOPIC_PREFIX) for t in sorted(topics) if t.startswith(prefix)]
    return {sink_id.removeprefix(f"{name}."): sink_id for sink_id in sinks}


def _look(admin: "Admin", connection: Connection, step: str, sink_id: str) -> StepSight:
    names = Names(sink_id)
    return StepSight(
        step=step,
        lag=_lag(admin, sink_id),
        sink=look_at_sink(admin, connection, names),
        open=tuple(_open_of(admin, names)),
    )


def _lag(admin: "Admin", group_id: str) -> "GroupLag | None":
    try:
        return admin.lag(group_id)
    except NotFoundError:
        return None  # it has committed nothing yet


def _open_of(admin: "Admin", names: Names) -> "list[TransactionInfo]":
    """The transactions of a sink that have not ended, its driver's among them."""
    found = []
    for listing in admin.list_transactions(states=_UNENDED):
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
