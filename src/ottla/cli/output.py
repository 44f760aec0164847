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

Command = TypeVar("Command", bound=Callable[..., Any])


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


def _note_verbose(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    ctx.ensure_object(Output).verbose |= value


def _note_format(ctx: click.Context, _parameter: click.Parameter, value: str) -> None:
    ctx.ensure_object(Output).format = value
