"""What a command says, as text or as JSON; and the failures that only a command has.

`ottla serve` needs no more than this of the command line's machinery, so nothing here imports it:
a broker shall not wait for it.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from ottla.errors import OttlaError
from ottla.values import dataclass


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
        self.line(json.dumps(facts, ensure_ascii=False))

    def line(self, text: str) -> None:
        """A line of data, which leaves at once."""
        _write_line(sys.stdout, text)

    def say(self, text: str) -> None:
        """A line beside the data: on stderr, so that stdout stays clean."""
        _write_line(sys.stderr, text)

    def rows(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """A table with a heading, or one object a row."""
        if self.is_json:
            for row in rows:
                self.json_line(dict(zip(columns, row, strict=True)))
            return
        import click  # here, because a broker starts without

        for number, line in enumerate(table(columns, rows, for_people=self.is_for_people)):
            click.echo(click.style(line, bold=True) if number == 0 else line)


def _write_line(stream: TextIO, text: str) -> None:
    stream.write(f"{text}\n")
    stream.flush()


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, for_people: bool
) -> list[str]:
    """Aligned columns under a heading: numbers to the right, all else to the left."""
    from ottla.quantities import human  # here, as below, because a broker starts without

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
    from ottla.quantities import Duration, short_duration

    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case Duration():
            return short_duration(value)
        case int():
            return f"{value:d}"
        case _:
            return str(value)
