"""How commands talk: options that all of them share, and the choice between text and JSON.

`-v` and `-o` mean the same everywhere.  With `-o json` a command writes one JSON object a line,
with raw numbers, and nothing else to stdout.  Text is for people where it goes to a terminal:
`3.1 GiB`, `12,481`.  Where it goes to a pipe, columns stay and numbers are plain.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from ottla.cli.quantities import human
from ottla.errors import OttlaError
from ottla.values import dataclass

Command = TypeVar("Command", bound=Callable[..., Any])


class PartialError(OttlaError):
    """A part was done and the rest was not; the message says how much."""


class InUseError(OttlaError):
    """Somebody else has what we need: a port, a folder."""


@dataclass(slots=True)
class Output:
    """What the caller wants to see."""

    verbose: bool = False
    format: str = "text"

    @property
    def is_json(self) -> bool:
        return self.format == "json"

    @property
    def is_for_people(self) -> bool:
        """Whether text goes to a terminal."""
        return not self.is_json and sys.stdout.isatty()

    def json_line(self, facts: Mapping[str, object]) -> None:
        click.echo(json.dumps(facts, ensure_ascii=False))

    def say(self, text: str) -> None:
        """A line beside the data: on stderr, so that stdout stays clean."""
        click.echo(text, err=True)

    def rows(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """A table with a heading, or one object a row."""
        if self.is_json:
            for row in rows:
                self.json_line(dict(zip(columns, row, strict=True)))
            return
        for number, line in enumerate(table(columns, rows, for_people=self.is_for_people)):
            click.echo(click.style(line, bold=True) if number == 0 else line)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, for_people: bool
) -> list[str]:
    """Aligned columns under a heading: numbers to the right, all else to the left."""
    values = list(rows)
    cells = [[name.upper().replace("_", " ") for name in columns]]
    cells += [[human(value) if for_people else _plain(value) for value in row] for row in values]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    is_number = [
        all(row[n] is None or isinstance(row[n], int | float) for row in values) and bool(values)
        for n in range(len(columns))
    ]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        ).rstrip()
        for line in cells
    ]


def _plain(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:d}"
        case _:
            return str(value)


def verbose_option(command: Command) -> Command:
    """Give `command` the option `-v`."""
    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=_note_verbose,
        help="Say more; show the traceback of an error.",
    )(command)


def format_option(command: Command) -> Command:
    """Give `command` the option `-o`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        expose_value=False,
        callback=_note_format,
        help="Text for people, or one JSON object a line.",
    )(command)


def _note_verbose(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    ctx.ensure_object(Output).verbose |= value


def _note_format(ctx: click.Context, _parameter: click.Parameter, value: str) -> None:
    ctx.ensure_object(Output).format = value
