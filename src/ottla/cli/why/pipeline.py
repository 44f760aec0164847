"""`ottla why pipeline`."""

import os
from typing import Final

import click

from ottla.cli.completion_names import pipelines
from ottla.cli.connection import DEFAULT_BOOTSTRAP, Connection
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.why.showing import show
from ottla.pipeline.state import StateFolder, UnknownPipelineError, state_dir
from ottla.why.pipeline import look_at_pipeline, seen_here
from ottla.why.pipeline_waits import findings, title

LOOK_S: Final = 2.0
"""Long enough to see how fast records come."""


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
    state, _ = seen_here(folder)
    servers = bootstrap or (DEFAULT_BOOTSTRAP if state is None else state.bootstrap)
    connection = Connection(servers, timeout)
    with connection.admin() as admin:
        sight = look_at_pipeline(connection.access(admin), folder, look_s)
    if sight.state is None and not sight.steps:
        raise UnknownPipelineError(
            f"no pipeline {name!r} ever ran here, and none has written to {servers}"
        )
    about_it = {
        "pipeline": name,
        "state": sight.now,
        "lag": sum(step.lag_count for step in sight.steps),
        "steps": [step.step for step in sight.steps],
    }
    show(output, title(sight), about_it, findings(sight))
