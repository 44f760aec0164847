"""The last step of `ottla demo broker`: a broker that is killed while it works, and loses nothing.

The broker is a process of its own, started as a user would start it.  It is killed with SIGKILL in
the middle of a stream of records; what it had acknowledged by then must be there after the restart,
each record once and in order.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

TOPIC: Final = "orders"
BATCH_BYTES: Final = 16_384
KILL_AFTER: Final = 20_000
"""Acknowledged records before the broker is killed."""

MAX_RECORDS: Final = 10 * KILL_AFTER
"""Enough to be in the middle of it; the rest is never sent."""

MAX_ON_THE_WAY: Final = 8
"""Batches that may be sent, or wait for it, when the broker is killed."""

TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 10


def show_kill(kill_after: int = KILL_AFTER) -> None:
    """Start a broker, fill it, kill it, start it again, and look what is there."""
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as folder:
        with _broker(folder) as (process, bootstrap):
            click.echo(
                f"   broker at {bootstrap}, process {process.pid}; any Kafka client can use it"
            )
            acknowledged, unknown = _write_and_kill(process, bootstrap, kill_after)
        click.echo(
            f"   killed with SIGKILL: {acknowledged:,} records were acknowledged, "
            f"{unknown:,} were on their way"
        )
        started = time.monotonic()
        with _broker(folder) as (_, bootstrap):
            seconds = time.monotonic() - started
            values = _read_all(bootstrap)
    check(values, acknowledged, unknown)
    click.echo(
        f"   restarted in {seconds:.1f} s: {len(values):,} records, each one once and in order; "
        f"{click.style('nothing that was acknowledged is lost', bold=True)}"
    )


def check(values: list[bytes | None], acknowledged: int, unknown: int) -> None:
    """What was acknowledged must be there, and nothing that was never sent."""
    assert values == [b"%d" % n for n in range(len(values))], "records are missing or out of order"
    assert acknowledged <= len(values) <= acknowledged + unknown, (
        f"{len(values)} records, of which {acknowledged} were acknowledged and {unknown} on the way"
    )


@contextmanager
def _broker(folder: str) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """A broker on a free port, and where to reach it."""
    arguments = ("serve", "--port", "0", "--data-dir", folder, "-o", "json")
    with subprocess.Popen(
        [sys.executable, "-m", "ottla", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        try:
            banner = process.stdout.readline()
            assert banner, "the broker did not start; `ottla serve` says why"
            yield process, json.loads(banner)["bootstrap_servers"]
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _write_and_kill(
    process: "subprocess.Popen[bytes]", bootstrap: str, kill_after: int
) -> tuple[int, int]:
    """Write until the broker is dead: how many were acknowledged, how many may be there."""
    from ottla.cli.connection import Connection
    from ottla.cli.writing import Tally

    tally = Tally()
    with Connection(bootstrap, TIMEOUT_S, is_quiet=True).producer(
        batch_size=BATCH_BYTES, buffer_memory=MAX_ON_THE_WAY * BATCH_BYTES
    ) as producer:
        for n in range(MAX_RECORDS):
            producer.send(TOPIC, b"%d" % n, on_delivery=tally.note)
            if tally.record_count >= kill_after:
                process.kill()
                producer.close(timeout=0)  # what has no answer yet gets none
                return tally.record_count, tally.doubtful_count
    raise AssertionError("the broker outlived its kill")


def _read_all(bootstrap: str) -> list[bytes | None]:
    from ottla.cli.connection import Connection
    from ottla.cli.consume import Span, read
    from ottla.cli.offsets import END, START

    everything = Span(first=START, last=END, partitions=frozenset(), read_committed=False)
    connection = Connection(bootstrap, TIMEOUT_S)
    return [record.value for record in read(connection, [TOPIC], everything)]
