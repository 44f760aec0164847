"""`ottla bench produce`."""

import random
import sys
import time
from typing import Final

import click

from ottla.cli.bench.rates import TOPIC, Meter
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.produce import ACKS, CODECS
from ottla.cli.progress import live_line
from ottla.errors import ConflictError, ErrorCode

GROUP: Final = 1_000
"""Records between two looks at the clock."""


@click.command("produce")
@click.option("--topic", default=TOPIC, show_default=True, help="It is created if it is missing.")
@click.option("-n", "--records", type=click.IntRange(min=1), default=200_000, show_default=True)
@click.option(
    "--size", type=click.IntRange(min=0), default=1024, show_default=True, help="Bytes of a value."
)
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="For a new topic.",
)
@click.option("--compression", type=click.Choice(CODECS), default="none", show_default=True)
@click.option("--acks", type=click.Choice(list(ACKS)), default="all", show_default=True)
@click.option("--batch-bytes", type=click.IntRange(min=1), default=1_000_000, show_default=True)
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(
    output: Output,
    topic: str,
    records: int,
    size: int,
    partitions: int,
    compression: str,
    acks: str,
    batch_bytes: int,
    connection: Connection,
) -> None:
    """Write records as fast as it goes.

    The topic stays, for `ottla bench consume`; `ottla topic delete` removes it.
    """
    from ottla.client.basic.topics import create_topic, find_topic
    from ottla.client.basic.writer import Writer
    from ottla.records.compression import Compression

    # The same noise every time: compression has little to gain, and runs can be compared.
    noise = random.Random(size).randbytes(size + GROUP)
    values = [noise[n : n + size] for n in range(GROUP)]
    with connection.open() as client, live_line(sys.stderr.isatty()) as line:
        try:
            create_topic(client, topic, partition_count=partitions, replication_factor=1)
        except ConflictError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        writer = Writer(
            client,
            find_topic(client, topic, create=True),
            acks=ACKS[acks],
            compression=Compression.named(compression),
            batch_bytes=batch_bytes,
        )
        meter = Meter(f"produce (acks={acks})", line)
        for first in range(0, records, GROUP):
            now_ms = int(time.time() * 1000)
            group = values[: records - first]
            writer.add_all((now_ms, None, value, ()) for value in group)
            meter.count(len(group), size * len(group))
        writer.flush()
    meter.tell(output)
