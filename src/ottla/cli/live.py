"""Output that goes on: lines to a file or a program, a table drawn again and again to people.

Commands that watch something have two views, one for each; here is decided which it is.  `rich` is
imported only where somebody looks.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ottla.cli.output import Output

if TYPE_CHECKING:
    from rich.live import Live

View = TypeVar("View")


class Canvas:
    """A place on the terminal."""

    def __init__(self, live: "Live") -> None:
        self._live = live

    def draw(self, lines: Iterable[str]) -> None:
        """Put `lines` in the place of what was there; what is too long for the terminal is cut."""
        from rich.text import Text

        text = Text("\n".join(lines), no_wrap=True, overflow="ellipsis")
        self._live.update(text, refresh=True)


@contextmanager
def lines_or_screen(
    output: Output, lines: Callable[[], View], screen: Callable[[Canvas], View]
) -> Iterator[View]:
    """The view that fits where the output goes."""
    if not output.is_for_people:
        yield lines()
        return
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        yield screen(Canvas(live))
