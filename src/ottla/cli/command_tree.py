"""Every command that there is, for pages that are written about all of them."""

import inspect
from collections.abc import Iterator

import click

from ottla.cli.main import EXIT_CODES, INTERRUPTED, OK, UNEXPECTED, USAGE, cli


def commands() -> Iterator[click.Context]:
    """The root, then every command below it with its context; groups before what they hold."""
    yield from _below(click.Context(cli, info_name="ottla", **cli.context_settings))


def options(ctx: click.Context) -> list[tuple[str, str]]:
    """The options of a command as its help shows them: how they are written, and what they do."""
    records = [
        param.get_help_record(ctx)
        for param in ctx.command.get_params(ctx)
        if isinstance(param, click.Option)
    ]
    return [record for record in records if record is not None]


def paragraphs(ctx: click.Context) -> list[str]:
    """The help of a command; one that begins with a backspace is to be left as it is."""
    return inspect.cleandoc(ctx.command.help or "").split("\n\n")


def exit_codes() -> dict[int, str]:
    """Exit code -> what it means, as the first kind of failure that has it says of itself."""
    said = {OK: "It worked.", USAGE: "The command was not understood."}
    for kind, code in EXIT_CODES.items():
        said.setdefault(code, (inspect.getdoc(kind) or kind.__name__).split("\n")[0])
    others = {UNEXPECTED: "Any other failure.", INTERRUPTED: "Interrupted."}
    return dict(sorted({**said, **others}.items()))


def _below(ctx: click.Context) -> Iterator[click.Context]:
    yield ctx
    if not isinstance(ctx.command, click.Group):
        return
    for name in ctx.command.list_commands(ctx):
        command = ctx.command.get_command(ctx, name)
        assert command is not None, name
        yield from _below(click.Context(command, parent=ctx, info_name=name))
