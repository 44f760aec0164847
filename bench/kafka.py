"""Our broker beside Apache Kafka: the same clients, the same machine, in turns.

Kafka is the newest one that Maven gives, a single node with the heap and the options of its own
start script; `bench.rivals` says how they take turns.  Durability is alike in each row: in the page
cache, which is Kafka's habit and our `flush=os`; or synced before it is acknowledged, which is our
habit and `log.flush.interval.messages=1` there.

A peer that cannot be had, for want of Java, Maven or a network, is said to be missing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from bench import rest
from bench.processes import resident_bytes
from bench.report import aligned
from bench.rivals import (
    HEADING,
    Figures,
    Pair,
    Rounds,
    Row,
    Work,
    rivals,
    row,
    single,
    turns,
    whole,
)
from tools.apache_kafka import JVM_OPTIONS, NEWEST, ONE_NODE, Setup
from tools.maven import UnavailableError

RECORD_BYTES = 1_000
BESIDE_A_SECOND = 20_000
"""Of records of 1 KB: 20 MB/s, which both brokers take with a part of one core."""
SYNCED = {"log.flush.interval.messages": 1}

WRITE = Work(
    kind="ConfluentProduce",
    topic="written",
    record_bytes=RECORD_BYTES,
    count=100_000,
    warm_up_count=8,
    round_count=15,
)
READ = replace(WRITE, kind="ConfluentConsume", is_writing=False)
ACKNOWLEDGED = replace(
    WRITE,
    kind="ConfluentProduceAndFlush",
    topic="acked",
    count=500,
    warm_up_count=24,
    round_count=40,
)
HANDED_OVER = replace(ACKNOWLEDGED, kind="ConfluentProduceToPoll", topic="handed")
"""In many short rounds: what disturbs a machine comes in bursts, and shall not meet one of the two
alone.  Kafka's slowest trips become faster for ten thousand of them, so that many are not counted.
"""


def tables() -> list[str]:
    """Run everything; the table, line by line."""
    parts = {
        "in the page cache": _in_page_cache,
        "synced": _synced,
        "starts": rest.starts,
        f"{rest.PARTITION_COUNT:,} partitions": rest.many_partitions,
    }
    try:
        rows = [found for title, part in parts.items() for found in whole(title, part)]
    except UnavailableError as error:
        return [f"Not run: {error}."]
    return [
        f"Apache Kafka {NEWEST}, one node, `-Xmx{Setup().heap} {' '.join(JVM_OPTIONS)}`, Kafka's "
        f"own settings but for {_listed(ONE_NODE)}; synced: {_listed(SYNCED)}."
        f"  Clients are confluent-kafka.  {WRITE.round_count} rounds in turns after "
        f"{WRITE.warm_up_count} that warm up, {ACKNOWLEDGED.round_count} after "
        f"{ACKNOWLEDGED.warm_up_count} of single records, the other broker stopped meanwhile; "
        "medians, and in brackets the quartiles of the "
        "ratios.  MB are millions of bytes of values; CPU time is that of the broker, where it is "
        f"not the client's; under load means beside a producer of {BESIDE_A_SECOND:,} records a "
        "second.",
        "",
        *aligned([HEADING, *rows]),
    ]


def _listed(settings: Mapping[str, object]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in settings.items())


def _in_page_cache() -> Iterator[Row]:
    with rivals("os", {}) as pair:
        writes = turns(pair, WRITE)
        yield row("produce, 1 KB, MB/s", writes, Figures.megabytes_a_second, at_least=1.2)
        yield row("broker's CPU, s/GB produced", writes, Figures.cpu_s_per_gigabyte, at_most=0.6)
        yield from _costs("produced", writes)
        reads = turns(pair, READ)
        yield row("consume, 1 KB, MB/s", reads, Figures.megabytes_a_second, at_least=1.2)
        yield row("broker's CPU, s/GB consumed", reads, Figures.cpu_s_per_gigabyte, at_most=0.6)
        yield from _costs("consumed", reads)
        yield from _trips(pair, "until acknowledged", ACKNOWLEDGED)
        yield from _trips(pair, "until another one has it", HANDED_OVER)
        for title, work in (
            ("until acknowledged, under load", ACKNOWLEDGED),
            ("until another one has it, under load", HANDED_OVER),
        ):
            topic = f"{work.topic}-under-load"
            loaded = replace(work, topic=topic, beside_a_second=BESIDE_A_SECOND)
            yield from _trips(pair, title, loaded)
        ours, theirs = ([resident_bytes(rival.pid) / 1e6] for rival in pair)
        yield single("memory after all of that, MB", ours, theirs)


def _synced() -> Iterator[Row]:
    with rivals("commit", SYNCED) as pair:
        writes = turns(pair, replace(WRITE, topic="synced", count=50_000))
        yield row("produce, synced, 1 KB, MB/s", writes, Figures.megabytes_a_second, at_least=2)
        yield row("broker's CPU, s/GB produced, synced", writes, Figures.cpu_s_per_gigabyte)
        yield from _trips(pair, "until synced and acknowledged", replace(ACKNOWLEDGED, count=300))


def _costs(done: str, rounds: Rounds) -> Iterator[Row]:
    """What it costs beside the broker's CPU time."""
    yield row(f"client's CPU, µs a record {done}", rounds, Figures.client_cpu_us)
    yield row(f"broker's memory, {done}, MB", rounds, Figures.broker_megabytes)
    yield row(f"client's memory, {done}, MB", rounds, Figures.client_megabytes)


def _trips(pair: Pair, title: str, work: Work) -> Iterator[Row]:
    rounds = turns(pair, work)
    name = f"one record {title}"
    yield row(f"{name}, p50, ms", rounds, lambda figures: figures.trips_ms(50))
    yield row(f"{name}, p99, ms", rounds, lambda figures: figures.trips_ms(99), at_most=0.7)
    ours, theirs = ([figures.rare_trip_ms()] for figures in rounds)
    yield single(f"{name}, p99.9, ms", ours, theirs)
    if not work.beside_a_second:  # it would be that of the others' records
        yield row(f"broker's CPU, µs a record {title}", rounds, Figures.broker_cpu_us)
