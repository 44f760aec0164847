"""librdkafka's mock cluster beside our broker: a broker in C that keeps a little, in memory.

It answers as soon as it has read, checks no batch, and forgets all but the last megabytes of a
partition, so it can be written to, not read from.  `python -m bench.mock` runs one, prints its
port, and ends with its input.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from bench.blast import create_topic, end_offset
from bench.harness import WrongAnswerError
from bench.processes import broker, data_dir
from bench.report import aligned
from bench.rivals import Figures, Pair, Rival, Row, Work, row, turns

PARTITION_COUNT = 4
"""What the mock gives every topic."""
TIMEOUT_S = 30.0
HEADING: Row = ("confluent-kafka, 1 KB", "Ottla", "librdkafka's mock", "Ottla / mock")

WRITE = Work(
    kind="ConfluentProduce",
    topic="written",
    record_bytes=1_000,
    count=100_000,
    is_writing=False,  # neither is the topic made by others, nor has it one partition
    warm_up_count=1,
    round_count=5,
)
TRIP = replace(WRITE, kind="ConfluentProduceAndFlush", topic="trips", count=500)


def table() -> list[str]:
    """Who is how fast; every record is counted."""
    with _pair() as pair:
        writes, trips = (_turns(pair, work) for work in (WRITE, TRIP))
    rows = [
        row("produce, MB/s", writes, Figures.megabytes_a_second),
        row("broker's CPU, s/GB produced", writes, Figures.cpu_s_per_gigabyte),
        row("broker's memory, MB", writes, Figures.broker_megabytes),
        row("one record until acknowledged, p50, ms", trips, lambda found: found.trips_ms(50)),
        row("one record until acknowledged, p99, ms", trips, lambda found: found.trips_ms(99)),
    ]
    return aligned([HEADING, *(found[: len(HEADING)] for found in rows)])


def _turns(pair: Pair, work: Work) -> tuple[Figures, Figures]:
    ours, mock = pair
    create_topic(ours.port, PARTITION_COUNT, work.topic)
    found = turns(pair, work)
    expected = (work.warm_up_count + work.round_count) * work.count
    for rival in (ours, mock):
        written = sum(end_offset(rival.port, work.topic, part) for part in range(PARTITION_COUNT))
        if written != expected:
            raise WrongAnswerError(f"{rival.name} has {written} records, not {expected}")
    return found


@contextmanager
def _pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        ours = stack.enter_context(broker(stack.enter_context(data_dir()), "os"))
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "bench.mock"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(process.communicate, timeout=TIMEOUT_S)
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield Rival("ottla", ours.port, ours.process.pid), Rival("mock", port, process.pid)


def main() -> None:
    from confluent_kafka import Producer

    # The cluster lives as long as the client that made it.
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (node,) = producer.list_topics(timeout=TIMEOUT_S).brokers.values()
    print(node.port, flush=True)
    sys.stdin.read()
    producer.close()


if __name__ == "__main__":
    main()
