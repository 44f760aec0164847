"""Pictures of the results: SVG, drawn from the tables of bench/RESULTS.md and from nothing else.

The same page gives the same bytes, so a picture never says anything that the page does not.  A
table that is not there, or has no figures, has no picture, and an old one of it is removed.
`python -m bench.plots` draws all of them again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from math import floor, log10
from pathlib import Path

from bench.markdown import Table, number, tables_of
from bench.report import HEADINGS

Place = Callable[[float, float], tuple[float, float]]
"""From figures to a point of the picture."""

STYLE = (
    "text{font:12px sans-serif;fill:#59636e}.name{fill:#1f2328}.head{font-weight:bold}"
    ".met{fill:#1a7f37}.missed{fill:#cf222e}.plain{fill:#0969da}.grid{stroke:#d1d9e0}"
    ".one{stroke:#59636e;stroke-dasharray:4 3}.bar{stroke:#9a6700;stroke-width:2}"
    ".line{fill:none;stroke:#0969da;stroke-width:2}.even{stroke:#9a6700;stroke-dasharray:3 3}"
    "@media (prefers-color-scheme:dark){text{fill:#9198a1}.name{fill:#f0f6fc}"
    ".grid{stroke:#3d444d}.met{fill:#3fb950}.missed{fill:#f85149}.plain{fill:#4493f8}"
    ".line{stroke:#4493f8}}"
)
ROW_HEIGHT, NAME_WIDTH, PLOT_WIDTH, VALUE_WIDTH = 24, 330, 380, 110
PANEL_WIDTH, PANEL_HEIGHT, PANELS_A_ROW = 260, 190, 3
PANEL_LEFT, PANEL_TOP, PANEL_BOTTOM, PANEL_RIGHT = 56, 30, 150, 245


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot(ABC):
    """One picture of one table."""

    file: str
    section: str
    """A name of `HEADINGS`."""
    table: str
    """What the first column of the table is called."""
    caption: str

    def drawn(self, tables: Iterable[Table]) -> str | None:
        """The picture, where these tables have what it takes; no figure is lost for want of one."""
        for table in tables:
            if table.title == self.table and self.needs <= set(table.heading):
                return self.draw(table)
        return None

    @property
    def needs(self) -> set[str]:
        """The columns that a table must have."""
        return set()

    @abstractmethod
    def draw(self, table: Table) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratios(Plot):
    """How many times the peer's figure ours is, on a scale on which 2 and 1/2 are equally far."""

    column: str

    @property
    def needs(self) -> set[str]:
        return {self.column, "bar", ""}

    def draw(self, table: Table) -> str | None:
        rows = [
            (row[0], ratio, number(bar), verdict)
            for row, ratio, bar, verdict in zip(
                table.rows,
                table.numbers(self.column),
                table.column("bar"),
                table.column(""),
                strict=True,
            )
            if ratio
        ]
        if not rows:
            return None
        known = [figure for _, ratio, bar, _ in rows for figure in (ratio, bar or 1.0)]
        low, high = floor(log10(min(known))), floor(log10(max(known))) + 1

        def x_of(ratio: float) -> float:
            return NAME_WIDTH + (log10(ratio) - low) / (high - low) * PLOT_WIDTH

        height, middle = 30 + len(rows) * ROW_HEIGHT, f"{x_of(1):.1f}"
        parts = [
            f'<line class="one" x1="{middle}" x2="{middle}" y1="20" y2="{height - 4}"/>'
            f'<text x="{middle}" y="14" text-anchor="middle">1</text>'
        ]
        for place, (name, ratio, bar, verdict) in enumerate(rows):
            y = 26 + place * ROW_HEIGHT
            left, right = sorted((x_of(1), x_of(ratio)))
            kind = verdict if verdict in ("met", "missed") else "plain"
            parts.append(_name(name, y))
            parts.append(
                f'<rect class="{kind}" x="{left:.1f}" y="{y}" width="{right - left:.1f}" '
                f'height="{ROW_HEIGHT - 8}" rx="2"/>'
            )
            if bar is not None:
                at = f"{x_of(bar):.1f}"
                ends = f'y1="{y - 2}" y2="{y + ROW_HEIGHT - 6}"'
                parts.append(f'<line class="bar" x1="{at}" x2="{at}" {ends}/>')
            words = f"{ratio:g} {verdict}"
            parts.append(f'<text x="{NAME_WIDTH + PLOT_WIDTH + 8}" y="{y + 13}">{words}</text>')
        width = NAME_WIDTH + PLOT_WIDTH + VALUE_WIDTH
        return _svg(width, height, self.caption, "".join(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars(Plot):
    """One figure of several contestants, from 0 up; of the rows that have `only` in a cell."""

    column: str
    only: str

    @property
    def needs(self) -> set[str]:
        return {self.column}

    def draw(self, table: Table) -> str | None:
        rows = [
            (row[0], figure, cell)
            for row, figure, cell in zip(
                table.rows, table.numbers(self.column), table.column(self.column), strict=True
            )
            if figure and self.only in row
        ]
        if not rows:
            return None
        top = max(figure for _, figure, _ in rows)
        parts = []
        for place, (name, figure, cell) in enumerate(rows):
            y = 8 + place * ROW_HEIGHT
            kind = "met" if "ottla" in name else "plain"
            parts.append(_name(name, y))
            parts.append(
                f'<rect class="{kind}" x="{NAME_WIDTH}" y="{y}" '
                f'width="{figure / top * PLOT_WIDTH:.1f}" height="{ROW_HEIGHT - 8}" rx="2"/>'
            )
            x = NAME_WIDTH + figure / top * PLOT_WIDTH + 8
            words = escape(cell.partition("(")[0].replace("*", "").strip())
            parts.append(f'<text x="{x:.1f}" y="{y + 13}">{words}</text>')
        width = NAME_WIDTH + PLOT_WIDTH + VALUE_WIDTH
        return _svg(width, 12 + len(rows) * ROW_HEIGHT, self.caption, "".join(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth(Plot):
    """Each column over the first one, both by powers of ten; a dashed line grows evenly with it."""

    def draw(self, table: Table) -> str | None:
        counts = table.numbers(table.title)
        panels = []
        for name in table.heading[1:]:
            points = [
                (count, figure)
                for count, figure in zip(counts, table.numbers(name), strict=True)
                if count and figure and figure > 0
            ]
            if len(points) > 1:
                panels.append(_panel(name, points))
        if not panels:
            return None
        placed = [
            f'<g transform="translate({place % PANELS_A_ROW * PANEL_WIDTH},'
            f'{place // PANELS_A_ROW * PANEL_HEIGHT})">{panel}</g>'
            for place, panel in enumerate(panels)
        ]
        width = min(len(panels), PANELS_A_ROW) * PANEL_WIDTH
        height = -(-len(panels) // PANELS_A_ROW) * PANEL_HEIGHT
        return _svg(width, height, self.caption, "".join(placed))


def _panel(name: str, points: list[tuple[float, float]]) -> str:
    """One line, with the powers of ten around it as the grid."""
    low_x, high_x = _decades([x for x, _ in points])
    low_y, high_y = _decades([y for _, y in points])

    def place(x: float, y: float) -> tuple[float, float]:
        across = (log10(x) - low_x) / (high_x - low_x)
        up = (log10(y) - low_y) / (high_y - low_y)
        return (
            PANEL_LEFT + across * (PANEL_RIGHT - PANEL_LEFT),
            PANEL_BOTTOM - up * (PANEL_BOTTOM - PANEL_TOP),
        )

    parts = [f'<text class="head" x="{PANEL_LEFT}" y="18">{escape(name)}</text>']
    for power in range(low_y, high_y + 1):
        _, y = place(points[0][0], 10.0**power)
        parts.append(
            f'<line class="grid" x1="{PANEL_LEFT}" x2="{PANEL_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{PANEL_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>'
        )
    for power in range(low_x, high_x + 1):
        x, _ = place(10.0**power, points[0][1])
        parts.append(
            f'<text x="{x:.1f}" y="{PANEL_BOTTOM + 16}" text-anchor="middle">{10**power:,}</text>'
        )
    parts.append(_even(points[-1], low_x, low_y, place(*points[-1]), place))
    drawn = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in points)
    parts.append(f'<polyline class="line" points="{drawn}"/>')
    for x, y in points:
        at = place(x, y)
        parts.append(f'<circle class="plain" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="3"/>')
    return "".join(parts)


def _even(
    last: tuple[float, float],
    low_x: int,
    low_y: int,
    end: tuple[float, float],
    place: Place,
) -> str:
    """From the last point back, as if each thing had cost the same; as far as the panel goes."""
    down = min(log10(last[0]) - low_x, log10(last[1]) - low_y)
    begin = place(last[0] / 10**down, last[1] / 10**down)
    return (
        f'<line class="even" x1="{begin[0]:.1f}" y1="{begin[1]:.1f}" x2="{end[0]:.1f}" '
        f'y2="{end[1]:.1f}"/>'
    )


def _decades(figures: list[float]) -> tuple[int, int]:
    low, high = floor(log10(min(figures))), floor(log10(max(figures)))
    return low, high if 10.0**high == max(figures) and high > low else high + 1


def _name(name: str, y: float) -> str:
    shown = escape(name.replace("`", ""))
    return f'<text class="name" x="{NAME_WIDTH - 8}" y="{y + 13}" text-anchor="end">{shown}</text>'


def _svg(width: int, height: int, caption: str, body: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(caption)}"><style>{STYLE}</style>'
        f"{body}</svg>\n"
    )


PLOTS: tuple[Plot, ...] = (
    Ratios(
        file="kafka.svg",
        section="kafka",
        table="what",
        column="Ottla / Kafka",
        caption="Ottla's figures as multiples of Apache Kafka's; the upright strokes are the bars",
    ),
    Ratios(
        file="load.svg",
        section="load",
        table="load",
        column="Ottla / Kafka",
        caption="Ottla's megabytes a second as multiples of Apache Kafka's",
    ),
    Bars(
        file="clients-writing.svg",
        section="clients",
        table="writing",
        column="records a second",
        only="100 B",
        caption="Records of 100 bytes written in a second",
    ),
    Bars(
        file="clients-reading.svg",
        section="clients",
        table="reading",
        column="records a second",
        only="100 B",
        caption="Records of 100 bytes read in a second",
    ),
    *(
        Growth(
            file=f"scale-{name.replace(',', '').replace(' ', '-').lower()}.svg",
            section="scale",
            table=name,
            caption=f"What grows with {name}; dashed: evenly",
        )
        for name in (
            "partitions",
            "connections",
            "groups",
            "members of one group",
            "members of one new group",
            "open transactions",
            "segments",
            "log, MB",
        )
    ),
)


def pictures(section: str, lines: Iterable[str]) -> dict[Plot, str]:
    """What can be drawn of the tables of one section."""
    tables = tables_of(lines)
    drawn = {plot: plot.drawn(tables) for plot in PLOTS if plot.section == section}
    return {plot: picture for plot, picture in drawn.items() if picture is not None}


def links(section: str, lines: Iterable[str]) -> list[str]:
    """The lines that show the pictures of a section."""
    return [f"![{plot.caption}]({plot.file})" for plot in pictures(section, lines)]


def draw(results: Path) -> list[Path]:
    """Draw everything that the page has figures for, beside it; remove the rest."""
    parts = results.read_text("utf-8").split("\n## ")[1:]
    sections = {heading: body for heading, _, body in (part.partition("\n") for part in parts)}
    written = []
    for name, heading in HEADINGS.items():
        drawn = pictures(name, sections.get(heading, "").splitlines())
        for plot in PLOTS:
            path = results.with_name(plot.file)
            if plot in drawn:
                path.write_text(drawn[plot], "utf-8")
                written.append(path)
            elif plot.section == name:
                path.unlink(missing_ok=True)
    return written


if __name__ == "__main__":
    print(*draw(Path(__file__).with_name("RESULTS.md")), sep="\n")
