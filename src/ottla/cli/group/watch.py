"""`ottla group watch`: a group on a terminal, redrawn; elsewhere one line for each change.

It looks at intervals, and asks nothing of the group's members.  A look that fails is shown like any
other change: whoever watches a group wants to see it through a broker's restart.
"""

import itertools
import time
from collections import deque
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.completion_names import groups
from ottla.cli.connection import Connection, connection_options
from ottla.cli.group.changes import Blind, Change, Watch
from ottla.cli.group.shown import headline, tables
from ottla.cli.live import Canvas, lines_or_screen
from ottla.cli.output import Output, format_option, table, verbose_option
from ottla.errors import DeadlineError, NotFoundError, RetriableError, TransportError
from ottla.quantities import local_time
from ottla.why.sight import Sight, look

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

CHANGES_SHOWN: Final = 10
REBALANCES_SHOWN: Final = 5


@click.command("watch")
@click.argument("name", metavar="GROUP", shell_complete=groups)
@click.option(
    "-i",
    "--interval",
    type=click.FloatRange(min=0.05),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait between two looks.",
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after so many looks.")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(
    output: Output, name: str, interval: float, count: int | None, connection: Connection
) -> None:
    """Show a group, and what changes in it, as it happens.

    Ctrl-C ends it. Where the output is no terminal, each change is a line; with -o json, an object.

    \b
    Examples:
      ottla group watch kitchen
      ottla group watch kitchen --interval 0.2 -o json
    """
    watch = Watch()
    # What fails is shown, not repeated: the next look comes soon enough.
    with connection.admin(retries=0) as admin, _view(output, name) as view:
        for number in itertools.count(1):
            seen = look(admin, name) if number == 1 else _look_again(admin, name)
            view.show(seen, watch.note(seen))
            if number == count:
                return
            time.sleep(interval)


def _look_again(admin: "Admin", name: str) -> Sight | Blind:
    try:
        return look(admin, name)
    except (RetriableError, TransportError, DeadlineError, NotFoundError) as error:
        return Blind(time.time_ns() // 1_000_000, str(error))


class Lines:
    """One line for each change."""

    def __init__(self, output: Output, name: str) -> None:
        self._output = output
        self._name = name

    def show(self, seen: Sight | Blind, changes: Iterable[Change]) -> None:
        """Print what is new."""
        for change in changes:
            if self._output.is_json:
                about = {"time_ms": seen.seen_ms, "group": self._name, "change": change.kind}
                self._output.json_line({**about, **change.facts})
            else:
                click.echo(line_of(seen, change))


class Screen:
    """The group as it is now, and its last changes below."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._sight: Sight | None = None
        self._changes: deque[str] = deque(maxlen=CHANGES_SHOWN)

    def show(self, seen: Sight | Blind, changes: Iterable[Change]) -> None:
        """Draw it anew."""
        if isinstance(seen, Sight):
            self._sight = seen
        self._changes += [line_of(seen, change) for change in changes]
        shown = [] if self._sight is None else lines_of(self._sight)
        self._canvas.draw([*shown, "", *self._changes])


def line_of(seen: Sight | Blind, change: Change) -> str:
    """A change with the time at which it was seen."""
    return f"{local_time(seen.seen_ms)}  {change.text}"


def lines_of(sight: Sight) -> list[str]:
    """What `ottla group describe` shows, as people read it."""
    lines = [headline(sight)]
    for columns, rows in tables(sight, rebalance_count=REBALANCES_SHOWN):
        lines += ["", *table(columns, rows, for_people=True)]
    return lines


def _view(output: Output, name: str) -> AbstractContextManager[Lines | Screen]:
    return lines_or_screen(output, lambda: Lines(output, name), Screen)
