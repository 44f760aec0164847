"""`ottla pipeline ledger`: the decisions of the exactly-once sink, read from the log itself."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from ottla.cli.completion_names import pipelines
from ottla.cli.output import Output, format_option, verbose_option
from ottla.errors import NotFoundError, UnknownTopicError
from ottla.quantities import about, local_time

if TYPE_CHECKING:
    from ottla.model import TopicPartition
    from ottla.spark.sink.decisions import Decision


@click.command("ledger")
@click.argument("name", metavar="PIPELINE", shell_complete=pipelines)
@click.option("--step", "steps", multiple=True, help="Of this step only. Repeat it for more.")
@click.option(
    "-n", "--last", type=click.IntRange(min=1), default=20, show_default=True, help="How many."
)
@click.option(
    "-b",
    "--bootstrap",
    metavar="HOST:PORT,...",
    help="The brokers to ask first.  [default: those that the pipeline used]",
)
@verbose_option
@format_option
@click.pass_obj
def command(
    output: Output, name: str, steps: tuple[str, ...], last: int, bootstrap: str | None
) -> None:
    """Show the batches that were committed, and of what.

    Each line is one batch that is in the log as a whole: the offsets up to which it read, the rows
    that it wrote, and how many transactions they are.

    \b
    Examples:
      ottla pipeline ledger shop
      ottla pipeline ledger shop --step revenue -n 10
    """
    from ottla.pipeline.state import StateFolder, state_dir
    from ottla.spark.sink.decisions import read_ledger

    state = StateFolder(state_dir(os.environ), name).read()
    wanted = list(steps) or list(state.groups)
    rows: list[tuple[object, ...]] = []
    for step in wanted:
        if step not in state.groups:
            raise click.UsageError(f"{name} has no step {step!r}, but {', '.join(state.groups)}")
        try:
            ledger = read_ledger(bootstrap or state.bootstrap, state.groups[step])
        except (UnknownTopicError, NotFoundError):
            continue  # it has committed nothing yet, or writes at least once
        rows += [_row(step, decision, output.is_json) for decision in ledger[-last:]]
    output.rows(
        ("step", "batch", "decided", "took", "rows", "transactions", "offsets"),
        rows,
    )


def _row(step: str, decision: "Decision", is_json: bool) -> tuple[object, ...]:
    offsets = offsets_of(decision.groups)
    return (
        step,
        decision.batch_id,
        decision.decided_ms if is_json else local_time(decision.decided_ms),
        decision.duration_ms if is_json else about(decision.duration_ms),
        decision.row_count,
        len(decision.participants),
        offsets if is_json else " ".join(f"{tp}@{offset}" for tp, offset in offsets.items()),
    )


def offsets_of(groups: "Mapping[str, Mapping[TopicPartition, int]]") -> dict[str, int]:
    """Partition -> the offset at which the batch after this one begins."""
    return {str(tp): at for positions in groups.values() for tp, at in sorted(positions.items())}
