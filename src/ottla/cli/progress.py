"""A bar for work whose end is known, and a line of live figures for work that is measured.

Both go to stderr and only to a terminal; `rich` is imported only then.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """Nobody watches: `advance` does nothing."""

    def advance(self, amount: int) -> None:
        """Note that `amount` more is done."""


@contextmanager
def progress_bar(name: str, total_bytes: int, is_watched: bool) -> Iterator[Progress]:
    """A bar that fills as bytes are done, where somebody watches."""
    if not is_watched:
        yield Progress()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=Console(stderr=True, force_terminal=True)) as bars:
        task = bars.add_task(name, total=total_bytes)

        class _Bar(Progress):
            def advance(self, amount: int) -> None:
                bars.advance(task, amount)

        yield _Bar()


@contextmanager
def live_line(is_watched: bool) -> Iterator["LiveLine"]:
    """A line that is written over and over, where somebody watches."""
    if not is_watched:
        yield LiveLine()
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(
        Text(""),
        console=Console(stderr=True, force_terminal=True),
        transient=True,
        auto_refresh=False,
    ) as live:

        class _Shown(LiveLine):
            def show(self, text: str) -> None:
                live.update(Text(text), refresh=True)

        yield _Shown()


class LiveLine:
    """Nobody watches: `show` does nothing."""

    def show(self, text: str) -> None:
        """Show `text` instead of what was there."""
