"""How pipelines look: a live table on a terminal, a line for each batch elsewhere, or JSON."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Final, Protocol

import click

from ottla.cli.live import Canvas, lines_or_screen
from ottla.cli.output import Output, table
from ottla.pipeline.progress import BatchReport, StepProgress
from ottla.quantities import about

COLUMNS: Final = ("step", "batch", "rows in", "out", "bad", "in/s", "out/s", "lag", "batch time")


class View(Protocol):
    """Shows a running pipeline."""

    def show(
        self, progress: Sequence[StepProgress], ended: Sequence[tuple[str, BatchReport]]
    ) -> None:
        """Show how it stands now."""


class Lines:
    """A line, or an object, for each batch that has ended."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def show(
        self, progress: Sequence[StepProgress], ended: Sequence[tuple[str, BatchReport]]
    ) -> None:
        """Print what is new."""
        for step, report in ended:
            if self._output.is_json:
                self._output.json_line(facts_of(step, report))
            else:
                click.echo(line_of(step, report))


class Screen:
    """The table of all steps, drawn again and again."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas

    def show(
        self, progress: Sequence[StepProgress], ended: Sequence[tuple[str, BatchReport]]
    ) -> None:
        """Draw it anew."""
        self._canvas.draw(lines_of(progress))


def view(output: Output) -> AbstractContextManager[View]:
    """What fits where the output goes."""
    return lines_or_screen(output, lambda: Lines(output), Screen)


def lines_of(progress: Sequence[StepProgress], *, for_people: bool = True) -> list[str]:
    """The steps as a table."""
    return table(COLUMNS, [row_of(step) for step in progress], for_people=for_people)


def row_of(step: StepProgress) -> tuple[object, ...]:
    """A step as a row under `COLUMNS`."""
    return (
        step.step,
        step.batch_id,
        step.rows_in,
        step.rows_out,
        step.rows_bad,
        round(step.in_per_s),
        round(step.out_per_s),
        step.lag,
        None if step.batch_ms is None else about(step.batch_ms),
    )


def line_of(step: str, report: BatchReport) -> str:
    """A batch in one line."""
    at = datetime.fromtimestamp(report.ended_ms / 1000).astimezone().strftime("%H:%M:%S")
    bad = f" bad={report.rows_bad}" if report.rows_bad else ""
    lag = "-" if report.lag is None else report.lag
    return (
        f"{at} {step} batch={report.batch_id} in={report.rows_in} out={report.rows_out}{bad} "
        f"lag={lag} ms={report.duration_ms}"
    )


def facts_of(step: str, report: BatchReport) -> dict[str, object]:
    """A batch as an object."""
    return {
        "event": "batch",
        "step": step,
        "batch_id": report.batch_id,
        "ended_ms": report.ended_ms,
        "duration_ms": report.duration_ms,
        "rows_in": report.rows_in,
        "rows_out": report.rows_out,
        "rows_bad": report.rows_bad,
        "lag": report.lag,
    }
