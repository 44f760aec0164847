"""`ottla completion`: what a shell must read to complete commands, options and names.

The script asks `ottla` itself for every word, so it never goes stale: it need not be written again
after an upgrade.
"""

from typing import Final

import click
from click.shell_completion import get_completion_class

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_OTTLA_COMPLETE"
"""Set by the script when it asks; click looks for this name."""


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands.

    Options and names, too: topics, groups and transactional ids are those of the broker that -b, or
    OTTLA_BOOTSTRAP, names.

    \b
    Examples:
      source <(ottla completion bash)             # in ~/.bashrc
      source <(ottla completion zsh)              # in ~/.zshrc, after compinit
      ottla completion fish > ~/.config/fish/completions/ottla.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, shell
    complete = kind(ctx.find_root().command, {}, "ottla", VARIABLE)
    # Not `source()`: that runs bash to look at its version, and complains of what it cannot find.
    click.echo(complete.source_template % complete.source_vars())
