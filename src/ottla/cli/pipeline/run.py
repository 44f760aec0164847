"""`ottla pipeline run`: a pipeline in this process, until it is done or somebody stops it."""

from pathlib import Path
from typing import Final

import click

from ottla.cli.connection import Connection
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.pipeline.shown import view
from ottla.cli.settings import parse_pairs
from ottla.quantities import counted

CONNECT_TIMEOUT_S: Final = 30.0


@click.command("run")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--once/--continuous",
    default=False,
    help="Read what is there and end, or go on until somebody stops it.  [default: --continuous]",
)
@click.option(
    "--every",
    metavar="INTERVAL",
    help="How often a batch begins, e.g. '10 seconds'; by default as soon as the last has ended.",
)
@click.option(
    "-b",
    "--bootstrap",
    metavar="HOST:PORT,...",
    envvar="OTTLA_BOOTSTRAP",
    show_envvar=True,
    help="The brokers to ask first.  [default: localhost:9092]",
)
@click.option("--master", help="Where Spark runs: local[4], spark://..., yarn, sc://...")
@click.option(
    "--checkpoint",
    metavar="DIR",
    help="Where steps remember how far they came; a URI where Spark runs elsewhere.",
)
@click.option(
    "-c",
    "--conf",
    "spark_settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="One setting of Spark. Repeat it for more.",
)
@click.option(
    "-X",
    "client_settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="One setting of the clients, e.g. -X security.protocol=SSL. Repeat it for more.",
)
@verbose_option
@format_option
@click.pass_obj
def command(
    output: Output,
    /,
    file: Path,
    once: bool,
    spark_settings: tuple[str, ...],
    client_settings: tuple[str, ...],
    **options: str | None,
) -> None:
    """Run a pipeline.

    Ctrl-C stops it after the batch, a second one at once. It goes on where it was when it is run
    again, also after a crash.

    \b
    Examples:
      ottla pipeline run shop.py
      ottla pipeline run shop.py --once
      ottla pipeline run shop.py --every '10 seconds' --master 'local[4]'
    """
    from ottla.pipeline import Run, load, run

    how = Run(
        once=once,
        config=parse_pairs("--conf", spark_settings),
        client=parse_pairs("-X", client_settings),
        file=str(file.absolute()),
        **options,
    )
    pipeline = load(file)
    with Connection(how.servers(), CONNECT_TIMEOUT_S).admin(config=dict(how.client)):
        pass  # who types a command wants to know at once if nobody is there
    with view(output) as shown:
        progress = run(pipeline, how=how, watch=shown.show, say=output.say)
    if not output.is_json:
        written = counted(sum(step.rows_out for step in progress), "row")
        if letters := sum(step.rows_bad for step in progress):
            written += f" and {counted(letters, 'dead letter')}"
        output.say(f"{pipeline.name}: {written} written; run it again to go on from here")
