"""`ottla bench consume`."""

import sys

import click

from ottla.cli.bench.rates import TOPIC, Meter
from ottla.cli.connection import Connection, connection_options
from ottla.cli.offsets import END, START, resolve
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.progress import live_line
from ottla.model import TopicPartition


@click.command("consume")
@click.option("--topic", default=TOPIC, show_default=True)
@click.option("-n", "--records", type=click.IntRange(min=1), help="Stop after about so many.")
@click.option("--raw", is_flag=True, help="Take batches as they come, without reading records.")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(
    output: Output, topic: str, records: int | None, raw: bool, connection: Connection
) -> None:
    """Read a topic as fast as it goes.

    From its first record to what is its last one now; `ottla bench produce` fills a topic.
    """
    from ottla.client.basic.reader import Fetched, fetch
    from ottla.client.basic.topics import find_topic

    def size_of(part: Fetched) -> tuple[int, int]:
        if raw:
            sizes = [(batch.record_count, batch.size_bytes) for batch in part.batches]
        else:
            sizes = [(1, len(r.key or b"") + len(r.value or b"")) for r in part.records()]
        return sum(count for count, _ in sizes), sum(size for _, size in sizes)

    with connection.open() as client, live_line(sys.stderr.isatty()) as line:
        found = find_topic(client, topic)
        leaders = {TopicPartition(topic, p.index): p.leader_id for p in found.partitions}
        ends = resolve(client, [found], END)
        positions = {
            key: at for key, at in resolve(client, [found], START).items() if at < ends[key]
        }
        meter = Meter("consume (raw)" if raw else "consume", line)
        while positions and (records is None or meter.record_count < records):
            for part in fetch(client, positions, leaders):
                meter.count(*size_of(part))
                positions[part.partition] = part.next_offset
                if part.next_offset >= ends[part.partition]:
                    del positions[part.partition]
    meter.tell(output)
