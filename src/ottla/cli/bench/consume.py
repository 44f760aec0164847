"""`ottla bench consume`."""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from ottla.cli.bench.rates import TOPIC, Meter
from ottla.cli.connection import Connection, connection_options
from ottla.cli.offsets import END, START, resolve
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.progress import live_line
from ottla.client.consumer.until import POLL_RECORDS, batches_until

if TYPE_CHECKING:
    from ottla.client.records import Batch


@click.command("consume")
@click.option("--topic", default=TOPIC, show_default=True)
@click.option("-n", "--records", type=click.IntRange(min=1), help="Stop after about so many.")
@click.option("--raw", is_flag=True, help="Count bytes as they come, without looking at records.")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(
    output: Output, topic: str, records: int | None, raw: bool, connection: Connection
) -> None:
    """Read a topic as fast as it goes.

    From its first record to what is its last one now; `ottla bench produce` fills a topic.  Ctrl-C
    ends it early, with the figures so far.

    \b
    Examples:
      ottla bench consume
      ottla bench consume --raw -n 1000000
    """
    with connection.admin() as admin:
        partitions = admin.list_partitions([topic])
        starts = resolve(admin, partitions, START)
        ends = resolve(admin, partitions, END)
    wanted = {key: end for key, end in ends.items() if starts[key] < end}
    with (
        connection.consumer(auto_offset_reset="none", max_poll_records=POLL_RECORDS) as consumer,
        live_line(sys.stderr.isatty()) as line,
    ):
        meter = Meter("consume (raw)" if raw else "consume", line)
        consumer.assign({key: starts[key] for key in wanted})
        with suppress(KeyboardInterrupt):
            for batch in batches_until(wanted, consumer, connection.timeout_s):
                meter.count(len(batch), 0 if raw else _value_bytes(batch))
                if raw:
                    meter.size_bytes = int(consumer.metrics()["bytes-consumed-total"])
                if records is not None and meter.record_count >= records:
                    break
        meter.tell(output)


def _value_bytes(batch: "Batch[bytes | None, bytes | None]") -> int:
    return sum(len(record.key or b"") + len(record.value or b"") for record in batch)
