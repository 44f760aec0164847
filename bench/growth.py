"""Figures over a count of things, as a table; and how they grow from one count to the next.

A figure that grows as n^1 costs the same for each thing.  The power is that between the last two
counts, where whatever is constant weighs least; above `WORSE_THAN_LINEAR` it is printed bold.
"""

import sys
import traceback
from collections.abc import Callable, Iterable
from math import log

from bench.report import aligned
from tools.maven import UnavailableError

OURS = ("bench", "ottla", "tools")
"""Packages that cannot be missing."""
WORSE_THAN_LINEAR = 1.2
"""Less is within what a run differs from the next."""

Figures = dict[str, float]
"""By the names of their columns."""


def table(title: str, measured: Iterable[tuple[int, Figures]]) -> list[str]:
    """One row for each count, and a last one with the powers."""
    points = list(measured)
    columns = list(points[0][1])
    rows: list[tuple[str, ...]] = [(title, *columns)]
    rows += [
        (f"{count:,}", *(figure(figures[name]) for name in columns)) for count, figures in points
    ]
    if len(points) > 1:
        rows.append(("grows as", *(_power(name, points) for name in columns)))
    return aligned(rows)


def power(first: tuple[float, float], last: tuple[float, float]) -> float:
    """p, where the second figure is the first times (ratio of the counts) to the power of p."""
    return log(last[1] / first[1]) / log(last[0] / first[0])


def _power(name: str, points: list[tuple[int, Figures]]) -> str:
    (first_count, first), (last_count, last) = points[-2:]
    if first[name] <= 0 or last[name] <= 0:
        return ""
    found = power((first_count, first[name]), (last_count, last[name]))
    words = f"n^{found:.2f}"
    return f"**{words}**" if found > WORSE_THAN_LINEAR else words


def figure(value: float) -> str:
    """Three digits that count, and no exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def part(name: str, lines: Callable[[], list[str]]) -> list[str]:
    """One table of several; where it cannot be run or finished, why: others shall not be lost."""
    try:
        return [*lines(), ""]
    except Exception as error:
        if reason := what_is_missing(error):
            return [f"Not run: {name}: {reason}.", ""]
        traceback.print_exc(file=sys.stderr)
        return [f"**Not finished**: {name}: {type(error).__name__}: {error}", ""]


def what_is_missing(error: BaseException) -> str:
    """What this machine lacks, if that is what the error says; nothing if it is a fault."""
    if isinstance(error, UnavailableError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return "" if package in OURS else f"there is no module {package} here"
    return ""
