"""Where `ottla` starts: finds the command, runs it, and says what went wrong in plain words.

Data goes to stdout, everything else to stderr.  An error is one `error:` line and, where there is
something to do about it, one `hint:` line; the traceback is shown with `-v` only.  A command that
knows better what to do than the error's own class says it with `add_note` on the exception.
"""

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Final

import click

from ottla import __version__
from ottla.cli.lazy import LazyGroup
from ottla.cli.output import InUseError, Output, PartialError
from ottla.errors import (
    BatchError,
    BrokerError,
    ConflictError,
    ConnectError,
    DeadlineError,
    DeliveryError,
    DeniedError,
    NotFoundError,
    OttlaError,
    TransportError,
)

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "bench": ("ottla.cli.bench.group", "Measure a broker: records and bytes a second, live."),
    "completion": ("ottla.cli.completion", "Print what makes a shell complete commands."),
    "console": ("ottla.cli.console", "Show a cluster in a browser."),
    "consume": ("ottla.cli.consume", "Print the records of topics."),
    "demo": ("ottla.cli.demo.group", "Show a pipeline, or a broker, that is killed at work."),
    "doctor": ("ottla.cli.doctor.group", "Say what is wrong, and what to fix."),
    "group": ("ottla.cli.group.group", "Show, move and delete consumer groups."),
    "log": ("ottla.cli.log.group", "Look into the files of a data directory."),
    "man": ("ottla.cli.man", "Print the manual page."),
    "mirror": ("ottla.cli.mirror", "Copy topics to another cluster, and keep following."),
    "pipeline": ("ottla.cli.pipeline.group", "Run pipelines on Spark, and see how they do."),
    "produce": ("ottla.cli.produce", "Write records to a topic."),
    "restore": ("ottla.cli.snapshot_restore", "Make a data directory of a snapshot."),
    "serve": ("ottla.cli.serve", "Run a broker."),
    "snapshot": (
        "ottla.cli.snapshot",
        "Write the data directory of a broker into one file.",
    ),
    "topic": ("ottla.cli.topic.group", "Create, show, change and delete topics."),
    "txn": ("ottla.cli.txn.group", "Show transactions, and end those that nobody else ends."),
    "version": ("ottla.cli.version", "Print the version; -v says what else is at work."),
    "why": ("ottla.cli.why.why", "Say in words what something waits for."),
}
"""Command -> its module, which has a `command`, and its line in `ottla --help`."""

OK, UNEXPECTED, USAGE, INTERRUPTED = 0, 1, 2, 130

EXIT_CODES: Final[Mapping[type[OttlaError], int]] = {
    PartialError: 8,
    TransportError: 3,
    DeniedError: 4,
    ConflictError: 5,
    InUseError: 5,
    NotFoundError: 6,
    DeadlineError: 7,
}
"""Kind of failure -> exit code, so that scripts can tell them apart; others exit with 1."""


class _Root(LazyGroup):
    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Whoever reads our output has enough, like `head`: that is no failure.
            discard_stdout()
            return None


@click.group(
    cls=_Root,
    commands_by_name=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(__version__, message="ottla %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """A streaming log that speaks the Apache Kafka protocol.

    \b
    Examples:
      ottla serve --console                   # a broker, and a page that shows it
      ottla produce orders espresso lungo     # in another terminal
      ottla consume orders
      ottla topic create --help               # every command has examples
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: what the `ottla` script and `python -m ottla` call."""
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: list[str]) -> int:
    """Run one command; return its exit code."""
    output = Output()
    try:
        cli.main(arguments, prog_name="ottla", standalone_mode=False, obj=output)
    except (Exception, KeyboardInterrupt) as error:
        # The edge of the program: nothing may pass it without a line for the user.
        return report(error, output)
    return OK


def report(error: BaseException, output: Output) -> int:
    """Say on stderr what went wrong and what to do about it; return the exit code."""
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return _say("interrupted", "", INTERRUPTED)
    if isinstance(error, click.UsageError):
        if error.ctx is not None and error.message == error.ctx.get_help():
            click.echo(error.message, err=True)  # a group without a command: that is no mistake
            return USAGE
        return _say(error.format_message(), _usage_hint(error), USAGE)
    if output.verbose:
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    if isinstance(error, OttlaError):
        return _say(str(error), _hint(error), exit_code(error))
    text = f"{type(error).__name__}: {error}"
    return _say(text, "this is a bug; -v shows where it happened", UNEXPECTED)


def exit_code(error: OttlaError) -> int:
    """The exit code of the first kind of failure that `error` is."""
    if isinstance(error, DeliveryError):
        error = error.cause
    if isinstance(error, LookupError):  # what a pipeline misses, though no broker said so
        return EXIT_CODES[NotFoundError]
    return next((n for kind, n in EXIT_CODES.items() if isinstance(error, kind)), UNEXPECTED)


def _hint(error: OttlaError) -> str:
    notes: list[str] = getattr(error, "__notes__", [])
    if notes:
        return notes[0]
    if isinstance(error, DeliveryError):
        error = error.cause
    if isinstance(error, BrokerError | BatchError):
        return error.code.advice
    if isinstance(error, ConnectError):
        return "`ottla serve` starts a broker here; -b HOST:PORT names one elsewhere"
    return ""


def discard_stdout() -> None:
    """Let the interpreter flush what is left into nothing when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage_hint(error: click.UsageError) -> str:
    notes: list[str] = getattr(error, "__notes__", [])
    if notes:
        return notes[0]
    command = error.ctx.command_path if error.ctx else "ottla"
    return f"`{command} --help` shows what there is"


def _say(text: str, hint: str, code: int) -> int:
    click.echo(f"error: {text}", err=True)
    if hint and hint not in text:
        click.echo(f"hint:  {hint}", err=True)
    return code
