"""The tables of a Markdown page, read back: what was written for people is also what is drawn."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_NUMBER = re.compile(r"-?[0-9][0-9,]*(\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Table:
    """The heading, and the rows below it."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def title(self) -> str:
        """What its first column is called."""
        return self.heading[0]

    def column(self, name: str) -> list[str]:
        """The cells below a name; `LookupError` if there is no such column."""
        if name not in self.heading:
            raise LookupError(f"no column {name!r} in {self.heading}")
        index = self.heading.index(name)
        return [row[index] for row in self.rows]

    def numbers(self, name: str) -> list[float | None]:
        return [number(cell) for cell in self.column(name)]


def tables_of(lines: Iterable[str]) -> list[Table]:
    """All tables among these lines."""
    return [Table(rows[0], tuple(rows[2:])) for rows in _blocks(lines)]


def _blocks(lines: Iterable[str]) -> Iterator[list[tuple[str, ...]]]:
    rows: list[tuple[str, ...]] = []
    for line in (*lines, ""):
        if line.startswith("|"):
            rows.append(tuple(cell.strip() for cell in line.strip().strip("|").split("|")))
        elif rows:
            yield rows
            rows = []


def number(cell: str) -> float | None:
    """The first number in a cell; None if there is none: `**1,236.5** MB/s` is 1236.5."""
    found = _NUMBER.search(cell)
    return None if found is None else float(found[0].replace(",", ""))
