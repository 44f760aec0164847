"""Sizes, compressions and acks beside Apache Kafka; and other people's clients with both brokers.

The same clients write to both brokers, in turns, as `bench.rivals` says; everything is in the page
cache.  Who reads, reads what was written with acks=all before.  The last table has librdkafka's
mock cluster, see `bench.mock`.
"""

import statistics
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import ottla
from bench import mock
from bench.contest import why_missing
from bench.growth import part
from bench.load_clients import ACKS, COMPRESSIONS, name_of
from bench.report import aligned
from bench.rivals import Figures, Pair, Row, Work, rivals, row, turns, whole
from tools.apache_kafka import NEWEST, Setup
from tools.maven import UnavailableError

SIZES = {100: ("100 B", 300_000), 1_000: ("1 KB", 100_000), 100_000: ("100 KB", 1_000)}
"""Bytes of a record: what that is called, and how many of them are in a round."""
WARM_UP_COUNT, ROUND_COUNT = 2, 5
CLIENT_BYTES = 100
WRITERS = {
    "OttlaSend": 100_000,
    "OttlaSendMany": 300_000,
    "OttlaSendArrow": 500_000,
    "ConfluentProduce": 200_000,
    "AiokafkaSend": 30_000,
    "KafkaPythonSend": 10_000,
}
READERS = {
    "OttlaBatches": 300_000,
    "OttlaPollArrow": 500_000,
    "ConfluentConsume": 300_000,
    "AiokafkaGetmany": 100_000,
    "KafkaPythonPoll": 20_000,
}
READ_TOPIC = "OttlaSendArrow"
"""What that one wrote is what all of them read."""
MIN_RATIO = 1.2

HEADING: Row = (
    "load",
    "Ottla, MB/s",
    "Apache Kafka, MB/s",
    "Ottla / Kafka",
    "bar",
    "",
    "Ottla's CPU, s/GB",
    "Kafka's CPU, s/GB",
    "Ottla's memory, MB",
    "Kafka's memory, MB",
)
CLIENT_HEADING: Row = (
    "client, records of 100 B",
    "with Ottla, records/s",
    "with Apache Kafka, records/s",
    "Ottla / Kafka",
    "client's CPU with Ottla, µs a record",
    "with Kafka",
    "Ottla's CPU, µs a record",
    "Kafka's CPU",
    "client's memory with Ottla, MB",
    "with Kafka, MB",
)
"""The columns behind the ratio are those of `COSTS`, Ottla's first."""
COSTS = (Figures.client_cpu_us, Figures.broker_cpu_us, Figures.client_megabytes)


def tables() -> list[str]:
    """Run everything; all tables, line by line.  The last one needs no Java."""
    return [*_beside_kafka(), "", *part("the mock cluster", mock.table)][:-1]


def _beside_kafka() -> list[str]:
    try:
        loads = list(whole("loads", _loads))
        clients = [_filled(found, len(CLIENT_HEADING)) for found in whole("clients", _clients)]
    except UnavailableError as error:
        return [f"Not run: {error}."]
    return [
        f"Apache Kafka {NEWEST}, heap {Setup().heap}, set up as for the bars; confluent-kafka "
        f"writes and reads values like events in JSON.  {ROUND_COUNT} rounds in turns after "
        f"{WARM_UP_COUNT} that warm up; medians, and in brackets the quartiles of the ratios.  MB "
        "are millions of bytes of values, before compression; CPU time and memory are those of the "
        "broker, where they are not the client's; the client's memory is the most that it had.",
        "",
        *aligned([HEADING, *(_filled(found, len(HEADING)) for found in loads)]),
        "",
        *aligned([CLIENT_HEADING, *clients]),
    ]


def _filled(found: Row, width: int) -> Row:
    """As wide as a table; a row that says why there are no figures says it behind its name."""
    if found[1]:
        return found + ("",) * (width - len(found))
    return found[0], found[-1], *("",) * (width - 2)


def _loads() -> Iterator[Row]:
    with rivals("os", {}) as pair:
        for record_bytes, (size, count) in SIZES.items():
            for compression in COMPRESSIONS:
                for acks in ACKS:
                    work = Work(
                        kind=name_of(compression, acks),
                        topic=f"load-{record_bytes}-{compression}-{acks}",
                        record_bytes=record_bytes,
                        count=count,
                        warm_up_count=WARM_UP_COUNT,
                        round_count=ROUND_COUNT,
                    )
                    title = f"{size}, {compression}"
                    yield from whole(title, partial(_load, pair, title, acks, work))


def _load(pair: Pair, title: str, acks: str, work: Work) -> Iterator[Row]:
    has_bar = title == "1 KB, none" and acks == "all"
    yield _row(f"produce {title}, acks={acks}", turns(pair, work), has_bar=has_bar)
    if acks == "all":
        reading = replace(work, kind="ConfluentConsume", is_writing=False)
        yield _row(f"consume {title}", turns(pair, reading), has_bar=has_bar)
    for rival in pair:  # the disk is not as large as all of them
        with ottla.Admin(rival.address) as admin:
            admin.delete_topic(work.topic)


def _row(title: str, rounds: tuple[Figures, Figures], *, has_bar: bool) -> Row:
    at_least = MIN_RATIO if has_bar else None
    compared = row(title, rounds, Figures.megabytes_a_second, at_least=at_least)
    cpu_s = (statistics.median(figures.cpu_s_per_gigabyte()) for figures in rounds)
    megabytes = (statistics.median(figures.broker_megabytes()) for figures in rounds)
    return *compared, *(f"{cost:.2f}" for cost in cpu_s), *(f"{size:.0f}" for size in megabytes)


def _clients() -> Iterator[Row]:
    with rivals("os", {}) as pair:
        work = Work(
            kind="",
            topic="",
            record_bytes=CLIENT_BYTES,
            count=0,
            warm_up_count=WARM_UP_COUNT,
            round_count=ROUND_COUNT,
        )
        for kind, count in WRITERS.items():
            yield from _client(pair, replace(work, kind=kind, topic=kind, count=count))
        # It has more records than anybody reads.
        reading = replace(work, topic=READ_TOPIC, is_writing=False)
        for kind, count in READERS.items():
            yield from _client(pair, replace(reading, kind=kind, count=count))


def _client(pair: Pair, work: Work) -> Iterator[Row]:
    """The row of one client, or why there is none: that costs the others nothing."""
    from bench.contestants import CONTESTANTS

    kind = CONTESTANTS[work.kind]
    if reason := why_missing(kind):
        yield kind.title, "", f"not run: {reason}"
    else:
        yield from whole(kind.title, lambda: [_client_row(kind.title, turns(pair, work))])


def _client_row(title: str, rounds: tuple[Figures, Figures]) -> Row:
    def rates(figures: Figures) -> list[float]:
        return [taken.count / taken.wall_s for taken in figures.taken]

    ours, theirs = (statistics.median(rates(figures)) for figures in rounds)
    _, _, _, ratio, *_ = row("", rounds, rates)
    costs = (statistics.median(cost_of(figures)) for cost_of in COSTS for figures in rounds)
    return title, f"{ours:,.0f}", f"{theirs:,.0f}", ratio, *(f"{cost:.2f}" for cost in costs)
