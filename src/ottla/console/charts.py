"""Lines, sparklines and timelines as SVG, made of numbers alone.

No color is here: elements have classes (`series-0`, `good`), and the stylesheet knows light and
dark.  Texts that users made are escaped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, log10
from typing import Final

from ottla.console.history import Point
from ottla.console.words import span

WIDTH, HEIGHT = 640, 170
_LEFT, _TOP, _BOTTOM = 46, 10, 150
_GRID_LINES: Final = 4

SPARK_WIDTH, SPARK_HEIGHT = 80, 20

_ROW_HEIGHT: Final = 26
_NAME_WIDTH: Final = 150
_FEWEST_S: Final = 1.0


def line_chart(lines: Mapping[str, Sequence[Point]], label: str) -> str:
    """Several values over the same time, from 0 up."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return '<p class="mut">Nothing to draw yet.</p>'
    first_s, last_s = min(at for at, _ in points), max(at for at, _ in points)
    top = _round_up(max(value for _, value in points))
    parts = [_opening(HEIGHT, label)]
    for step in range(_GRID_LINES + 1):
        y = _BOTTOM - step * (_BOTTOM - _TOP) / _GRID_LINES
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        shown = _short(top * step / _GRID_LINES)
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{shown}</text>')
    for index, line in enumerate(lines.values()):
        if line:
            drawn = _points(line, first_s, last_s, top, (_LEFT, WIDTH), (_BOTTOM, _TOP))
            parts.append(f'<polyline class="series series-{index}" points="{drawn}"/>')
    parts.append(
        f'<text x="{_LEFT}" y="{HEIGHT - 4}">&#8722;{span(max(0.0, last_s - first_s))}</text>'
    )
    parts.append(f'<text x="{WIDTH}" y="{HEIGHT - 4}" text-anchor="end">now</text>')
    keys = "".join(
        f'<tspan class="key-{index}">■ </tspan>{escape(name)}&#160;&#160;&#160;'
        for index, name in enumerate(lines)
    )
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 4}" text-anchor="middle">{keys}</text>')
    return "".join(parts) + "</svg>"


def sparkline(line: Sequence[Point], label: str) -> str:
    """One value over time, as large as a word."""
    opening = (
        f'<svg class="spark" viewBox="0 0 {SPARK_WIDTH} {SPARK_HEIGHT}" width="{SPARK_WIDTH}" '
        f'height="{SPARK_HEIGHT}" role="img" aria-label="{escape(label)}">'
    )
    if len(line) < 2:
        return opening + "</svg>"
    top = max(value for _, value in line) or 1.0
    drawn = _points(line, line[0][0], line[-1][0], top, (0, SPARK_WIDTH), (SPARK_HEIGHT - 2, 2))
    return f'{opening}<polyline class="series series-0" points="{drawn}"/></svg>'


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in a row of a timeline, and what it was like: one of the stylesheet's words."""

    from_s: float
    until_s: float
    kind: str
    title: str


def timeline(rows: Mapping[str, Sequence[Stretch]], label: str) -> str:
    """What several things were like, one row each, over the same time."""
    stretches = [stretch for row in rows.values() for stretch in row]
    if not stretches:
        return '<p class="mut">Nothing has happened yet.</p>'
    first_s = min(stretch.from_s for stretch in stretches)
    last_s = max(max(stretch.until_s for stretch in stretches), first_s + _FEWEST_S)
    height = _ROW_HEIGHT * len(rows) + 18
    parts = [_opening(height, label)]

    def x_of(at_s: float) -> float:
        return _NAME_WIDTH + (at_s - first_s) / (last_s - first_s) * (WIDTH - _NAME_WIDTH)

    for number, (name, row) in enumerate(rows.items()):
        y = number * _ROW_HEIGHT
        parts.append(f'<text x="0" y="{y + 16}">{escape(name[:24])}</text>')
        for stretch in row:
            left, width = x_of(stretch.from_s), x_of(stretch.until_s) - x_of(stretch.from_s)
            parts.append(
                f'<rect class="fill-{escape(stretch.kind)}" x="{left:.1f}" y="{y + 3}" rx="3" '
                f'width="{max(2.0, width - 1):.1f}" height="{_ROW_HEIGHT - 8}">'
                f"<title>{escape(stretch.title)}</title></rect>"
            )
    ago = span(last_s - first_s)
    parts.append(f'<text x="{_NAME_WIDTH}" y="{height - 4}">&#8722;{ago}</text>')
    parts.append(f'<text x="{WIDTH}" y="{height - 4}" text-anchor="end">now</text>')
    return "".join(parts) + "</svg>"


def _opening(height: int, label: str) -> str:
    size = f'viewBox="0 0 {WIDTH} {height}"'
    return f'<svg {size} class="chart" role="img" aria-label="{escape(label)}">'


def _points(
    line: Sequence[Point],
    first_s: float,
    last_s: float,
    top: float,
    across: tuple[float, float],
    upward: tuple[float, float],
) -> str:
    duration_s = (last_s - first_s) or 1.0
    (left, right), (bottom, high) = across, upward
    return " ".join(
        f"{left + (at_s - first_s) / duration_s * (right - left):.1f},"
        f"{bottom - value / top * (bottom - high):.1f}"
        for at_s, value in line
    )


def _round_up(value: float) -> float:
    """The next number that is good to read on an axis: 1, 2, 4, 6, 8 or 10 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (ceil(log10(value)) - 1)
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value * 0.999)


def _short(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"
