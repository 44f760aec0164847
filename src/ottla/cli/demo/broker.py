"""`ottla demo broker`: records, codecs and a broker at work, in a few seconds, with figures.

Each step does what it says with the code that a broker or client would use, and checks the result.
Rates are records per second of CPU time, to give an idea; `make bench` measures.
"""

import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeVar

import click

from ottla import __version__
from ottla.cli.demo.kill import show_kill
from ottla.cli.output import verbose_option
from ottla.cli.version import running_twins
from ottla.errors import BatchError, ErrorCode
from ottla.records.arrow import from_arrow, to_arrow
from ottla.records.batch import CHECKED_FROM, CRC_AT, LOG_OVERHEAD_BYTES, Batch
from ottla.records.builder import BatchOptions, build
from ottla.records.compression import Compression, compress
from ottla.records.kernel import kernel
from ottla.records.shapes import BATCH_HEADER_BYTES, Unwritten
from ottla.wire.codec import decode, encode
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.registry import ApiKey, api

T = TypeVar("T")

RECORD_COUNT: Final = 100_000
CUSTOMER_COUNT: Final = 1_000
PARTITION_COUNT: Final = 6
FIRST_TIMESTAMP_MS: Final = 1_700_000_000_000
MEBIBYTE: Final = 1024 * 1024
BOMB_BYTES: Final = 256 * MEBIBYTE
PATIENCE_SECONDS: Final = 0.2
MAX_RUNS: Final = 3


@click.command("broker")
@click.option(
    "--records",
    "record_count",
    type=click.IntRange(min=1),
    default=RECORD_COUNT,
    show_default=True,
    help="How many records the batch has.",
)
@verbose_option
def command(record_count: int) -> None:
    """Show records, codecs, and a broker that is killed and loses nothing.

    \b
    Examples:
      ottla demo broker
      ottla demo broker --records 10000
    """
    twins = " · ".join(f"{codec}: {twin}" for codec, twin in running_twins().items())
    click.echo(f"Ottla {__version__} · {twins}")
    orders = make_orders(record_count)
    plain = compare_compressions(orders)
    show_columns(plain)
    show_partitions()
    show_request()
    show_refusals(plain)
    _heading("A broker, killed at work and started again")
    show_kill()


def make_orders(count: int) -> list[Unwritten]:
    """Records as a shop would write them: a customer as key, a small JSON document as value."""
    return [
        (
            FIRST_TIMESTAMP_MS + n,
            b"customer-%d" % (n * 7919 % CUSTOMER_COUNT),
            b'{"order": %d, "item": "espresso", "size": "double", "amount": %d.50, "paid": true}'
            % (n, n % 90),
            (("source", b"till-%d" % (n % 5)),) if n % 10 == 0 else (),
        )
        for n in range(count)
    ]


def compare_compressions(orders: list[Unwritten]) -> bytearray:
    """Build, check and read one batch with each codec; return the uncompressed one."""
    _heading(f"One batch of {len(orders):,} orders, with each compression")
    click.echo(f"   {'':<7} {'bytes':>11} {'of plain':>9} {'build':>11} {'read':>11}")
    plain = bytearray()
    for compression in Compression:
        options = BatchOptions(compression=compression)
        data, build_seconds = _timed(partial(build, orders, options))
        batch = Batch.parse(data)
        batch.check_crc()
        records, read_seconds = _timed(batch.record_list)
        assert [record[1:] for record in records] == orders
        plain = plain or data
        click.echo(
            f"   {compression.label:<7} {len(data):>11,} {len(data) / len(plain):>9.1%} "
            f"{_rate(len(orders), build_seconds):>11} {_rate(len(orders), read_seconds):>11}"
        )
    return plain


def show_columns(plain: bytearray) -> None:
    """The batch as Arrow columns, and the columns as a batch again: the same bytes."""
    _heading("The same batch as Arrow columns, and back to the same bytes")
    batch = Batch.parse(plain)
    try:
        columns, read_seconds = _timed(lambda: to_arrow([batch]))
    except ModuleNotFoundError as error:
        click.echo(f"   left out: {error}")
        return
    again, build_seconds = _timed(lambda: from_arrow(columns, timestamp_ms=FIRST_TIMESTAMP_MS))
    assert again == plain
    click.echo(f"   batch to columns {_rate(batch.record_count, read_seconds):>9}")
    click.echo(f"   columns to batch {_rate(batch.record_count, build_seconds):>9}")
    for row in columns.slice(length=3).to_pylist():
        time_text = row["timestamp"].isoformat(timespec="milliseconds")
        key, value = row["key"].decode(), row["value"].decode()
        click.echo(f"   {row['offset']}  {time_text}  {key:<12}  {value}")


def show_partitions() -> None:
    """Hash the keys of all customers as Java's producer does."""
    _heading(f"Keys to {PARTITION_COUNT} partitions, by the hash that Java's producer uses")
    keys = [b"customer-%d" % n for n in range(CUSTOMER_COUNT)]
    counts = Counter((kernel.murmur2(key) & 0x7FFFFFFF) % PARTITION_COUNT for key in keys)
    for partition in range(PARTITION_COUNT):
        bar = "█" * (counts[partition] * 60 // CUSTOMER_COUNT)
        click.echo(f"   {partition}  {bar} {counts[partition]} customers")


def show_request() -> None:
    """One Produce request at the oldest and the newest version, as it goes over the wire."""
    _heading("One Produce request, at its oldest and its newest version")
    batch = bytes(build([(FIRST_TIMESTAMP_MS, b"table-4", b"espresso", ())]))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=(
            TopicProduceData(  # old versions name the topic, new ones send its id
                name="orders",
                topic_id=bytes(range(16)),
                partition_data=(PartitionProduceData(index=0, records=batch),),
            ),
        ),
    )
    versions = api(ApiKey.PRODUCE).versions
    for version in (versions.low, versions.high):
        data = encode(request, version)
        (topic,) = decode(ProduceRequest, data, version).topic_data
        assert topic.partition_data == request.topic_data[0].partition_data
        click.echo(f"   v{version}: {len(data)} bytes, of which {len(batch)} are the batch")
        for line in hex_view(data, max_lines=3):
            click.echo(f"     {line}")


def show_refusals(plain: bytearray) -> None:
    """Damage and malice, and what is said about them."""
    _heading("What does not get through")
    damaged = bytearray(plain)
    damaged[len(damaged) // 2] ^= 0x01
    _refused("one bit flipped", lambda: Batch.parse(damaged).check_crc(), ErrorCode.CORRUPT_MESSAGE)
    cut = plain[: len(plain) // 2]
    _refused("half a batch", lambda: Batch.parse(cut), ErrorCode.CORRUPT_MESSAGE)
    bomb = make_bomb()
    title = f"{len(bomb) / 1024:.0f} KiB of zstd that grow to {BOMB_BYTES // MEBIBYTE} MiB"
    _refused(title, lambda: Batch.parse(bomb).record_list(), ErrorCode.MESSAGE_TOO_LARGE)


def make_bomb() -> bytearray:
    """A batch with a good checksum, whose few bytes unpack to `BOMB_BYTES` of zeros."""
    frame_bytes = 16 * MEBIBYTE
    frames = compress(Compression.ZSTD, bytes(frame_bytes)) * (BOMB_BYTES // frame_bytes)
    header = build([(0, None, None, ())], BatchOptions(compression=Compression.ZSTD))
    bomb = header[:BATCH_HEADER_BYTES] + frames
    struct.pack_into(">i", bomb, 8, len(bomb) - LOG_OVERHEAD_BYTES)
    struct.pack_into(">I", bomb, CRC_AT, kernel.crc32c(bytes(bomb[CHECKED_FROM:])))
    return bomb


def hex_view(data: bytes, max_lines: int) -> Iterator[str]:
    """Sixteen bytes a line, in hexadecimal and as text."""
    lines = range(0, len(data), 16)
    for start in lines[:max_lines]:
        row = data[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
        yield f"{start:04x}  {row.hex(' '):<47}  {text}"
    if len(lines) > max_lines:
        yield f"      ... {len(data) - 16 * max_lines} more bytes"


def _heading(text: str) -> None:
    click.echo(f"\n{click.style(text, bold=True)}")


def _refused(what: str, attempt: Callable[[], object], code: ErrorCode) -> None:
    """Make the attempt, which must fail with `code`, and show what is said about it."""
    started = time.perf_counter()
    try:
        attempt()
    except BatchError as error:
        refusal = error
    else:
        raise AssertionError(f"accepted: {what}")
    elapsed_ms = (time.perf_counter() - started) * 1000
    assert refusal.code is code, refusal
    click.echo(f"   {what}, refused in {elapsed_ms:.1f} ms")
    click.echo(f"     {click.style('error:', fg='red')} {refusal}")
    click.echo(f"     {click.style('hint:', fg='yellow')}  {code.advice}")


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    """What `work` returns, and the CPU seconds of its fastest run; slow work runs only once."""
    runs: list[float] = []
    while sum(runs) < PATIENCE_SECONDS and len(runs) < MAX_RUNS:
        started = time.process_time()
        result = work()
        runs.append(time.process_time() - started)
    return result, min(runs)


def _rate(count: int, seconds: float) -> str:
    per_second = count / seconds
    return f"{per_second / 1e6:.1f} M/s" if per_second >= 1e6 else f"{per_second / 1e3:.0f} k/s"
