"""Groups of commands that are imported when they are called, not to list them.

So `ottla --help` and `ottla topic --help` stay quick, however much a command needs.
"""

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose commands are named by module, with the line they have in its help."""

    def __init__(self, *args: Any, commands_by_name: Mapping[str, tuple[str, str]], **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._commands_by_name = commands_by_name

    @property
    def help_lines(self) -> Mapping[str, str]:
        """Command -> its line in the list."""
        return {name: line for name, (_, line) in self._commands_by_name.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._commands_by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._commands_by_name:
            return None
        module, _ = self._commands_by_name[cmd_name]
        command: click.Command = importlib.import_module(module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; what is misspelled gets a hint."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib  # not needed by a command that is spelled right

            for meant in difflib.get_close_matches(args[0], self.list_commands(ctx), n=1):
                error.add_note(f"did you mean `{ctx.command_path} {meant}`?")
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self.help_lines.items()))
