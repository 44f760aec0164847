"""`ottla pipeline status`: what a pipeline wrote down of itself, and how far behind it is now."""

import os
import time
from typing import TYPE_CHECKING

import click

from ottla.cli.completion_names import pipelines
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.pipeline.shown import lines_of
from ottla.quantities import about

if TYPE_CHECKING:
    from ottla.pipeline.state import StateFolder


@click.command("status")
@click.argument("name", metavar="[PIPELINE]", required=False, shell_complete=pipelines)
@verbose_option
@format_option
@click.pass_obj
def command(output: Output, name: str | None) -> None:
    """Show how far a pipeline has come.

    Figures are of its current run, or of its last. The name may be left out where there is only one
    pipeline.

    \b
    Examples:
      ottla pipeline status
      ottla pipeline status shop
      ottla pipeline status shop -o json
    """
    from ottla.pipeline.state import StateFolder, state_dir

    folder = StateFolder(state_dir(os.environ), name) if name else _only_one()
    state, now = folder.seen()
    if output.is_json:
        output.json_line(
            {
                "pipeline": state.name,
                "state": now,
                "pid": state.pid,
                "trouble": state.trouble or None,
                "bootstrap": state.bootstrap,
                "master": state.master,
                "checkpoint": state.checkpoint,
                "started_ms": state.started_ms,
                "updated_ms": state.updated_ms,
                "steps": [
                    {**step.as_json(), "group": state.groups.get(step.step)} for step in state.steps
                ],
            }
        )
        return
    age_ms = time.time_ns() // 1_000_000 - state.updated_ms
    click.echo(f"{state.name} · {now} · process {state.pid} · as of {about(age_ms)} ago")
    if state.trouble:
        click.echo(f"  {state.trouble}")
    for line in lines_of(state.steps, for_people=output.is_for_people):
        click.echo(f"  {line}")
    click.echo(f"checkpoint {state.checkpoint}")
    click.echo(f"Spark's log {folder.log_file}")


def _only_one() -> "StateFolder":
    from ottla.pipeline.state import UnknownPipelineError, all_folders, state_dir

    folders = all_folders(state_dir(os.environ))
    if not folders:
        raise UnknownPipelineError("no pipeline ever ran here")
    if len(folders) > 1:
        names = ", ".join(folder.path.name for folder in folders)
        raise click.UsageError(f"there is more than one pipeline, name one of {names}")
    return folders[0]
