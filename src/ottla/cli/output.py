"""How commands talk: options that all of them share, and the choice between text and JSON.

`-v` and `-o` mean the same everywhere.  With `-o json` a command writes one JSON object a line,
with raw numbers, and nothing else to stdout.  Text is for people where it goes to a terminal:
`3.1 GiB`, `12,481`.  Where it goes to a pipe, columns stay and numbers are plain.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import click

# What commands say can be had from here, too: hence "as".
from ottla.cli.saying import InUseError as InUseError
from ottla.cli.saying import Output as Output
from ottla.cli.saying import PartialError as PartialError
from ottla.cli.saying import table as table
from ottla.errors import OttlaError

Command = TypeVar("Command", bound=Callable[..., Any])


class UnconfirmedError(OttlaError):
    """Somebody was asked, and did not say yes."""


def verbose_option(command: Command) -> Command:
    """Give `command` the option `-v`."""
    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=_note_verbose,
        help="Say more; show the traceback of an error.",
    )(command)


def format_option(command: Command) -> Command:
    """Give `command` the option `-o`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        expose_value=False,
        callback=_note_format,
        help="Text for people, or one JSON object a line.",
    )(command)


def confirm(question: str) -> None:
    """Ask before something that cannot be undone; for commands with `--yes`.

    Raises:
        UnconfirmedError: The answer is no, or there is nobody to answer.
    """
    try:
        is_wanted = click.confirm(question, err=True)
    except click.Abort as error:
        if not isinstance(error.__context__, EOFError):
            raise
        click.echo(err=True)  # the question stands in an open line
        is_wanted = False
    if not is_wanted:
        refusal = UnconfirmedError("nothing was done: nobody said yes")
        refusal.add_note("--yes says it beforehand")
        raise refusal


def _note_verbose(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    ctx.ensure_object(Output).verbose |= value


def _note_format(ctx: click.Context, _parameter: click.Parameter, value: str) -> None:
    ctx.ensure_object(Output).format = value
