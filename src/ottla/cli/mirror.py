"""`ottla mirror`: topics, their settings and groups' offsets, copied to another cluster.

It goes on where it was when it is run again, also after a crash, and each record is copied once.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.connection import hear_clients
from ottla.cli.output import Output, PartialError, format_option, verbose_option
from ottla.cli.settings import parse_pairs
from ottla.errors import ConnectError, DeniedError
from ottla.quantities import counted

if TYPE_CHECKING:
    from ottla.mirror.progress import MirrorProgress
    from ottla.mirror.settings import MirrorSettings

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


@click.command("mirror")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option(
    "-t",
    "--topics",
    multiple=True,
    metavar="PATTERN",
    help="Which topics, in a shell's words: 'orders', 'shop.*'. Repeat it for more.  "
    "[default: all but those that begin with __]",
)
@click.option(
    "-x",
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Which topics to leave out. Repeat it for more.",
)
@click.option(
    "-g",
    "--groups",
    multiple=True,
    metavar="PATTERN",
    help="Whose offsets to bring along. Repeat it for more.  [default: all groups]",
)
@click.option("--no-groups", is_flag=True, help="Bring no offsets along.")
@click.option(
    "--once/--follow",
    "is_once",
    default=False,
    help="Copy what is there and end, or go on until somebody stops it.  [default: --follow]",
)
@click.option("--prefix", default="", help="What the names of copies begin with.")
@click.option(
    "--rename",
    "renames",
    multiple=True,
    metavar="TOPIC=COPY",
    help="What one copy is called. Repeat it for more.",
)
@click.option(
    "--name",
    metavar="NAME",
    help="Two mirrors to one cluster need two names; of two with one name, the later one takes "
    "over.  [default: the id of the cluster that is copied]",
)
@click.option(
    "--append",
    "appends",
    is_flag=True,
    help="Write into topics that have records already which are not of this mirror.",
)
@click.option(
    "--fail-on-loss",
    "fails_on_loss",
    is_flag=True,
    help="Stop when records were deleted before they were copied, instead of going on behind them.",
)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0, max=30),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a transaction waits for more records, with --follow.",
)
@click.option(
    "--compression",
    type=click.Choice(CODECS),
    default="lz4",
    show_default=True,
    help="How copies are compressed.",
)
@click.option(
    "--from-setting",
    "source_settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="One setting of the clients of FROM, e.g. security.protocol=SSL. Repeat it for more.",
)
@click.option(
    "--to-setting",
    "target_settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="The same for TO.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long one answer may take.",
)
@verbose_option
@format_option
@click.pass_obj
def command(output: Output, /, **options: Any) -> None:
    """Copy topics to another cluster, and keep following.

    FROM and TO are addresses, HOST:PORT,..., of Ottla or Apache Kafka. Records go to the partitions
    they are in, as they are, and each of them once: run it again after a crash and it goes on where
    it was. Topics are created with the settings of the originals, and groups can go on at TO where
    they were at FROM.

    \b
    Examples:
      ottla mirror old:9092 new:9092 --once
      ottla mirror old:9092 new:9092 -t 'shop.*' -x 'shop.tmp.*' -g 'billing*'
      ottla mirror localhost:9092 localhost:9092 -t orders --prefix backup.
    """
    from ottla.cli.mirror_shown import view
    from ottla.mirror.mirror import Mirror

    settings = settings_of(**options)
    hear_clients(is_told=False)  # why there is no connection is raised, too
    with view(output) as shown:
        mirror = Mirror(
            settings,
            say=output.say,
            watch=shown.show,
            on_begun=lambda: hear_clients(is_told=True),
        )
        with stopped_by_signals(mirror.stop):
            try:
                progress = mirror.run()
            except DeniedError as error:
                error.add_note(f"{error.code.advice}; --no-groups does without those of groups")
                raise
            except ConnectError as error:
                error.add_note("is the address right, and does a broker run there?")
                raise
        shown.finish()
    tell_end(output, progress)
    if progress.lost_now:
        raise PartialError(
            f"{counted(progress.lost_now, 'offset')} were deleted at the source before they were "
            "copied"
        )


def settings_of(
    *,
    topics: tuple[str, ...],
    exclude: tuple[str, ...],
    prefix: str,
    renames: tuple[str, ...],
    groups: tuple[str, ...],
    no_groups: bool,
    source_settings: tuple[str, ...],
    target_settings: tuple[str, ...],
    **others: Any,
) -> "MirrorSettings":
    """What options say, as the mirror's settings."""
    from ottla.mirror.selection import EVERYTHING, Selection
    from ottla.mirror.settings import MirrorSettings

    if groups and no_groups:
        raise click.UsageError("--groups and --no-groups contradict each other")
    selection = Selection(
        topics=topics or EVERYTHING,
        exclude=exclude,
        prefix=prefix,
        renames=parse_pairs("--rename", renames),
    )
    return MirrorSettings(
        selection=selection,
        groups=() if no_groups else groups or EVERYTHING,
        source_config=parse_pairs("--from-setting", source_settings),
        target_config=parse_pairs("--to-setting", target_settings),
        **others,
    )


def tell_end(output: Output, progress: "MirrorProgress") -> None:
    """What became of it, in a line."""
    if output.is_json:
        output.json_line(
            {
                "event": "done",
                "name": progress.name,
                "topics": len(progress.topics),
                "copied": progress.copied,
                "transactions": progress.transaction_count,
                "groups_moved": progress.groups_moved,
                "groups_active": list(progress.groups_active),
                "lost": progress.lost_now,
            }
        )
        return
    if progress.groups_active:
        names = ", ".join(progress.groups_active)
        output.say(f"left alone, because somebody is in them at the target: {names}")
    output.say(
        f"copied {counted(progress.copied, 'record')} of {counted(len(progress.topics), 'topic')}; "
        "run it again to go on from here"
    )


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM stop after the transaction, and a second one at once."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(*_: object) -> None:
        restore()
        stop()

    for number in numbers:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
