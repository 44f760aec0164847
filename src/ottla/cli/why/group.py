"""`ottla why group`."""

import time
from typing import Final

import click

from ottla.cli.completion_names import groups
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.why.showing import show
from ottla.errors import ErrorCode, RetriableError
from ottla.quantities import about
from ottla.why.findings import Finding
from ottla.why.group import why_group
from ottla.why.sight import Sight, look

LOOK_S: Final = 1.0
"""Long enough to see whether lag grows, where the broker tells when offsets were committed."""

LONGER_LOOK_S: Final = 6.0
"""Consumers that commit by themselves do so every five seconds."""

_NOT_READY: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (
        "coordinator_loading",
        "Its coordinator still reads what it wrote down (the topic __consumer_offsets).",
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (
        "no_coordinator",
        "It has no coordinator: no broker leads its partition of __consumer_offsets.",
    ),
    ErrorCode.NOT_COORDINATOR: (
        "coordinator_moves",
        "Its coordinator is moving from one broker to another.",
    ),
}


@click.command("group")
@click.argument("name", metavar="GROUP", shell_complete=groups)
@click.option(
    "--look",
    "look_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long to watch it read, if there is anything left to read; by default a second, or "
    "six where the broker does not tell when offsets were committed. 0 is one look.",
)
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, name: str, look_s: float | None, connection: Connection) -> None:
    """Say what a group waits for, and what to do about it.

    It tells who is waited for and until when, who set off the last rebalance and why, which members
    do not come along with their partitions, and which offsets make no sense.

    \b
    Examples:
      ottla why group kitchen
      ottla why group kitchen --look 5
    """
    # What the group's coordinator cannot do now is the answer, and not waited for.
    with connection.admin(retries=0) as admin:
        try:
            sight = look(admin, name, with_bounds=True)
            before: Sight | None = None
            if (pause_s := _pause_s(sight, look_s)) > 0:
                before = sight
                time.sleep(pause_s)
                sight = look(admin, name, with_bounds=True)
        except RetriableError as error:
            if error.code not in _NOT_READY:
                raise
            _show_not_ready(output, name, error.code)
            return
    group, story = sight.group, sight.group.story
    since_ms = None if story is None else story.since_ms
    title = f"Group {name} is {group.state}"
    if story is not None and since_ms is not None:
        title += f" for {about(story.now_ms - since_ms)}"
    about_it = {"group": name, "state": group.state, "since_ms": since_ms, "lag": sight.lag_count}
    show(output, f"{title}.", about_it, why_group(before, sight))


def _pause_s(sight: Sight, wanted_s: float | None) -> float:
    """How long to wait before a second look; there is none if nobody reads, or all is read."""
    if not sight.group.members or sight.lag_count == 0:
        return 0
    if wanted_s is not None:
        return wanted_s
    return LONGER_LOOK_S if sight.group.story is None else LOOK_S


def _show_not_ready(output: Output, name: str, code: ErrorCode) -> None:
    word, text = _NOT_READY[code]
    finding = Finding(
        code=word, text=text, advice="Members ask again until it is ready; look again in a moment."
    )
    about_it = {"group": name, "state": None, "since_ms": None, "lag": None}
    show(output, f"Group {name} is not known yet.", about_it, [finding])
