"""`ottla pipeline list`."""

import os

import click

from ottla.cli.output import Output, format_option, verbose_option
from ottla.quantities import Id, local_time


@click.command("list")
@verbose_option
@format_option
@click.pass_obj
def command(output: Output) -> None:
    """List the pipelines of this machine.

    \b
    Examples:
      ottla pipeline list
      ottla pipeline list -o json
    """
    from ottla.pipeline.state import RUNNING, all_folders, state_dir

    seen = [folder.seen() for folder in all_folders(state_dir(os.environ))]
    output.rows(
        ("pipeline", "state", "pid", "steps", "started", "bootstrap", "file"),
        [
            (
                state.name,
                now,
                Id(state.pid) if now == RUNNING else None,
                len(state.steps),
                state.started_ms if output.is_json else local_time(state.started_ms),
                state.bootstrap,
                state.file or None,
            )
            for state, now in seen
        ],
    )
