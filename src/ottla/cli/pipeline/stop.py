"""`ottla pipeline stop`: asks the process to stop after its batch, and waits until it has."""

import os
import signal
import time
from typing import Final

import click

from ottla.cli.completion_names import pipelines
from ottla.cli.output import Output, verbose_option
from ottla.errors import DeadlineError

LOOK_INTERVAL_S: Final = 0.1


@click.command("stop")
@click.argument("name", metavar="PIPELINE", shell_complete=pipelines)
@click.option("--now", is_flag=True, help="Do not wait for the end of the batch.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the end.",
)
@verbose_option
@click.pass_obj
def command(output: Output, name: str, now: bool, timeout: float) -> None:
    """Stop a pipeline after its batch.

    Nothing is lost either way: run again, it goes on where it was.

    \b
    Examples:
      ottla pipeline stop shop
      ottla pipeline stop shop --now
    """
    from ottla.pipeline.state import RUNNING, StateFolder, state_dir

    folder = StateFolder(state_dir(os.environ), name)
    state, doing = folder.seen()
    if doing != RUNNING:
        output.say(f"{name} does not run; its last run {_ended(doing)}")
        return
    os.kill(state.pid, signal.SIGTERM)
    if now:  # a second signal means: at once; the same one could melt into the first
        os.kill(state.pid, signal.SIGINT)
    deadline_s = time.monotonic() + timeout
    while folder.is_claimed:
        if time.monotonic() >= deadline_s:
            error = DeadlineError(f"{name} (process {state.pid}) still runs after {timeout:g} s")
            error.add_note("--now stops without waiting for the batch")
            raise error
        time.sleep(LOOK_INTERVAL_S)
    output.say(f"{name} has stopped")


def _ended(doing: str) -> str:
    return "was killed" if doing == "killed" else doing
