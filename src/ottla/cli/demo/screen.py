"""What one sees of the demo: a picture that moves, on a terminal; elsewhere a line now and then."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.output import table
from ottla.quantities import about
from ottla.values import dataclass

if TYPE_CHECKING:
    from rich.live import Live

BAR_CELLS: Final = 40
LINE_EVERY_S: Final = 3.0
START_LINE_EVERY_S: Final = 10.0
"""While Spark starts, which is slow where there is more to do, and there is nothing to see yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The demo at one moment."""

    written: int
    lag: int
    rows_in: int
    rows_bad: int
    rows_out: int
    batch_count: int
    batch_ms: int | None


class Screen:
    """Events as they come, and figures; as lines."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()
        self._next_line_s = 0.0

    def say(self, text: str) -> None:
        """Something happened."""
        click.echo(self._dated(text))

    def show(self, figures: Figures) -> None:
        """How it stands."""
        now_s = time.monotonic()
        if now_s >= self._next_line_s:
            every_s = LINE_EVERY_S if figures.batch_count else START_LINE_EVERY_S
            self._next_line_s = now_s + every_s
            click.echo(self._dated(line_of(figures)))

    def _dated(self, text: str) -> str:
        return f"{time.monotonic() - self._started_s:5.1f} s  {text}"


class LiveScreen(Screen):
    """Events as they come, and figures below them that change in place."""

    def __init__(self, live: "Live") -> None:
        super().__init__()
        self._live = live
        self._highest_lag = 1

    def say(self, text: str) -> None:
        """Something happened."""
        self._live.console.print(self._dated(text), highlight=False, markup=False)

    def show(self, figures: Figures) -> None:
        """How it stands."""
        from rich.text import Text

        self._highest_lag = max(self._highest_lag, figures.lag)
        cells = round(BAR_CELLS * figures.lag / self._highest_lag)
        bar = f"lag  {'█' * cells}{'·' * (BAR_CELLS - cells)}  {figures.lag:,}"
        text = Text("\n".join(["", *_table(figures), "", bar]), no_wrap=True, overflow="ellipsis")
        self._live.update(text, refresh=True)


@contextmanager
def screen() -> Iterator[Screen]:
    """What fits where the output goes."""
    if not sys.stdout.isatty():
        yield Screen()
        return
    from rich.live import Live

    with Live(auto_refresh=False, transient=True) as live:
        yield LiveScreen(live)


def line_of(figures: Figures) -> str:
    """The figures in a line."""
    if not figures.batch_count:
        return f"written {figures.written:,} · Spark is starting"
    return (
        f"written {figures.written:,} · read {figures.rows_in:,} · bad {figures.rows_bad:,} · "
        f"windows {figures.rows_out:,} · batches {figures.batch_count} · lag {figures.lag:,}"
    )


def _table(figures: Figures) -> list[str]:
    columns = ("orders written", "read", "bad", "windows out", "batches", "batch time")
    row = (
        figures.written,
        figures.rows_in,
        figures.rows_bad,
        figures.rows_out,
        figures.batch_count,
        None if figures.batch_ms is None else about(figures.batch_ms),
    )
    return table(columns, [row], for_people=True)
