"""`ottla bench produce`."""

import random
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Literal

import click

from ottla.cli.bench.rates import TOPIC, Meter
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.produce import CODECS
from ottla.cli.progress import live_line
from ottla.config import MIB

ACKS: Final[Mapping[str, Literal["all", 0, 1]]] = {"all": "all", "1": 1, "0": 0}

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
    compression: Any,
    acks: str,
    batch_bytes: int,
    connection: Connection,
) -> None:
    """Write records as fast as it goes.

    Ctrl-C ends it early, with the figures so far.  The topic stays, for `ottla bench consume`;
    `ottla topic delete` removes it.

    \b
    Examples:
      ottla bench produce
      ottla bench produce -n 1000000 --size 1024 --compression zstd
    """
    # The same noise every time: compression has little to gain, and runs can be compared.
    noise = random.Random(size).randbytes(size + GROUP)
    values = [noise[n : n + size] for n in range(GROUP)]
    with connection.admin() as admin:
        admin.create_topic(topic, partitions=partitions, replication_factor=1, exists_ok=True)
    with (
        connection.producer(
            acks=ACKS[acks],
            compression_type=compression,
            batch_size=batch_bytes,
            max_request_size=max(MIB, 2 * batch_bytes, 2 * size),
        ) as producer,
        live_line(sys.stderr.isatty()) as line,
    ):
        producer.partitions_for(topic)
        meter = Meter(f"produce (acks={acks})", line)
        with suppress(KeyboardInterrupt):
            for first in range(0, records, GROUP):
                group = values[: records - first]
                producer.send_many(topic, group)
                meter.count(len(group), size * len(group))
        producer.flush()
        meter.tell(output)
