"""The reference page of the command line, written from the commands themselves."""

import re
from collections.abc import Iterator

import click

from ottla.cli.command_tree import commands, exit_codes, options, paragraphs

HEADING = """\
# Command line

<!-- Written by `make fix` from the commands themselves. -->

What `--help` says, on one page. `ottla man | man -l -` shows it in a terminal, and
[a shell can complete it](../how-to/shell.md). Data goes to stdout and everything else to stderr;
`-o json` prints one object a line.

| exit code | meaning |
| ---: | --- |
"""

EVERYWHERE = ("--help", "--verbose", "--output", "--bootstrap", "--timeout")
"""Options that many commands have; they are told once."""


def page() -> str:
    """docs/reference/cli.md."""
    _, *others = commands()
    codes = [f"| {code} | {meaning} |\n" for code, meaning in exit_codes().items()]
    parts = [HEADING + "".join(codes), _shared(others)]
    parts += ["\n".join(_section(ctx)) for ctx in others]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _shared(all_commands: list[click.Context]) -> str:
    told: dict[str, str] = {}
    for ctx in all_commands:
        told |= {written: meaning for written, meaning in options(ctx) if _is_shared(written)}
    rows = [f"| `{_cell(written)}` | {_cell(meaning)} |" for written, meaning in told.items()]
    return "\n".join(
        ["Options that many commands have:", "", "| option | |", "| --- | --- |", *rows]
    )


def _is_shared(written: str) -> bool:
    return any(re.search(rf"{name}\b", written) for name in EVERYWHERE)


def _section(ctx: click.Context) -> Iterator[str]:
    level = "##" if ctx.parent is not None and ctx.parent.parent is None else "###"
    yield f"{level} {ctx.command_path}"
    yield ""
    if not isinstance(ctx.command, click.Group):
        usage = " ".join(ctx.command.collect_usage_pieces(ctx))
        yield f"    {ctx.command_path} {usage}"
        yield ""
    for paragraph in paragraphs(ctx):
        yield from _paragraph(paragraph)
        yield ""
    own = [(written, meaning) for written, meaning in options(ctx) if not _is_shared(written)]
    if own:
        yield "| option | |"
        yield "| --- | --- |"
        yield from (f"| `{_cell(written)}` | {_cell(meaning)} |" for written, meaning in own)


def _paragraph(paragraph: str) -> Iterator[str]:
    if not paragraph.startswith("\b"):
        yield paragraph
        return
    heading, *shown = paragraph.removeprefix("\b\n").splitlines()
    yield heading
    yield ""
    yield "```console"
    yield from (line.replace("  ", "$ ", 1) for line in shown)
    yield "```"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("  ", " ")
