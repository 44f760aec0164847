"""The page bench/RESULTS.md: the circumstances, and a section for each table, written as they come.

A run of one table replaces its own section and keeps the others, so that no table costs another one
its figures.  But a page has one machine and one Python: on another one it begins anew, since times
of two machines in one page would be compared, and must not be.
"""

import datetime
import os
from collections.abc import Iterable
from dataclasses import dataclass

from bench import plots
from bench.report import HEADINGS, circumstances, machine

PREAMBLE = (
    "# Results",
    "",
    "Written by `make bench`; do not edit.  Both contestants of a row do the same work in the same",
    "run, which is checked.  Each section names the command that writes it again, and",
    "`bench/README.md` says how to read it.  Ratios travel between machines; times do not.",
    "",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One table, run: its lines, or the reason why there are none."""

    name: str
    lines: Iterable[str]
    wall_s: float

    @property
    def command(self) -> str:
        return f"python -m bench {self.name} --write"


def page(known: str, ran: Ran) -> str:
    """The page after `known`, with the section of one table replaced."""
    sections = _sections(known) if machine() in known.splitlines() else {}
    sections[HEADINGS[ran.name]] = _section(ran)
    lines = [*PREAMBLE, *circumstances()]
    for heading in HEADINGS.values():
        if heading in sections:
            lines += ["", f"## {heading}", "", *sections[heading]]
    return "\n".join(lines) + "\n"


def _section(ran: Ran) -> list[str]:
    today = datetime.datetime.now(datetime.UTC).date()
    load = os.getloadavg()[0]
    about = f"`{ran.command}`, {today}: {ran.wall_s:.0f} s; load average {load:.1f} at the end."
    lines = list(ran.lines)
    shown = [line for link in plots.links(ran.name, lines) for line in ("", link)]
    return [about, "", *lines, *shown]


def _sections(known: str) -> dict[str, list[str]]:
    """The lines of each section, by its heading, without the empty ones around them."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in known.splitlines():
        if line.startswith("## "):
            lines = sections[line.removeprefix("## ")] = []
        else:
            lines.append(line)
    return {
        heading: "\n".join(lines).strip("\n").split("\n") for heading, lines in sections.items()
    }
