"""`ottla man`: the manual page, written from the commands themselves.

The page is installed with the package (share/man/man1), so that `man ottla` finds it where the
environment is active.  It says what `--help` says, and is made of the same words.
"""

import re
from collections.abc import Iterator

import click

from ottla import __version__


@click.command("man")
def command() -> None:
    """Print the manual page.

    \b
    Examples:
      ottla man | man -l -
      ottla man > ~/.local/share/man/man1/ottla.1
    """
    click.echo(page(), nl=False)


def page() -> str:
    """The manual page of `ottla`, with every command, in the language of man."""
    from ottla.cli.command_tree import commands

    root, *others = commands()
    lines = [
        f'.TH OTTLA 1 "" "ottla {__version__}" "Ottla"',
        ".SH NAME",
        "ottla \\- a streaming log that speaks the Apache Kafka protocol",
        ".SH SYNOPSIS",
        "\\fBottla\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]...",
        ".SH DESCRIPTION",
        *_prose(root),
        ".SH COMMANDS",
    ]
    for ctx in others:
        lines += _section(ctx)
    lines += [".SH EXIT STATUS", *_exit_statuses()]
    return "\n".join(lines) + "\n"


def _section(ctx: click.Context) -> Iterator[str]:
    from ottla.cli.command_tree import options

    usage = " ".join(ctx.command.collect_usage_pieces(ctx))
    yield f".SS {_safe(f'{ctx.command_path} {usage}')}"
    yield from _prose(ctx)
    if isinstance(ctx.command, click.Group):
        return
    for written, meaning in options(ctx):
        yield ".TP"
        yield f"\\fB{_safe(written)}\\fR"
        yield _safe(meaning)


def _prose(ctx: click.Context) -> Iterator[str]:
    from ottla.cli.command_tree import paragraphs

    for paragraph in paragraphs(ctx):
        yield ".PP"
        if paragraph.startswith("\b"):
            heading, _, shown = paragraph.removeprefix("\b\n").partition("\n")
            yield _safe(heading)
            yield ".nf"
            yield from (_safe(line) for line in shown.splitlines())
            yield ".fi"
        else:
            yield _safe(re.sub(r"\s+", " ", paragraph))


def _exit_statuses() -> Iterator[str]:
    from ottla.cli.command_tree import exit_codes

    for code, meaning in exit_codes().items():
        yield ".TP"
        yield f"\\fB{code}\\fR"
        yield _safe(meaning)


def _safe(text: str) -> str:
    """Text that roff takes for text: nothing in it is a command."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
