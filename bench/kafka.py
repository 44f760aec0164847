"""Our broker beside Apache Kafka: the same clients, the same machine, in turns.

Kafka is the newest one that Maven gives, a single node with the heap and the options of its own
start script.  Both brokers run all the time; each round goes to the one, then to the other.  The
first rounds warm both up, for Java compiles what runs often, and are not counted.  Every record is
counted at the end.

Durability is alike in each table: in the page cache, which is Kafka's habit and our `flush=os`; or
synced before it is acknowledged, which is our habit and `log.flush.interval.messages=1` there.

A peer that cannot be had, for want of Java, Maven or a network, is said to be missing.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import ottla
from bench.blast import check_end
from bench.contest import Contestant, Taken
from bench.processes import broker, contestant, cpu_ns, data_dir, resident_bytes, round_of
from bench.readers import ConfluentConsume
from bench.report import aligned
from bench.round_trips import ConfluentProduceAndFlush
from bench.writers import ConfluentProduce
from tools.apache_kafka import NEWEST, ApacheKafka, Setup
from tools.maven import UnavailableError

ROUND_COUNT = 7
WARM_UP_COUNT = 3
RECORD_BYTES = 1_000
WRITE_COUNT, READ_COUNT, SYNCED_COUNT, TRIP_COUNT = 100_000, 100_000, 50_000, 500
PARTITION_COUNT, EACH_COUNT = 10_000, 1_000
"""In all, and of one topic."""
START_COUNT = 3
SYNCED = {"log.flush.interval.messages": 1}

Kind = type[Contestant]
Row = tuple[str, ...]
HEADING: Row = ("what", "Ottla", "Apache Kafka", "Ottla / Kafka", "bar", "")


@dataclass(frozen=True, slots=True)
class Rival:
    """A running broker."""

    name: str
    port: int
    pid: int


@dataclass(slots=True)
class Figures:
    """What one broker gave in the rounds of one load."""

    taken: list[Taken] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    """Of the broker."""

    def megabytes_a_second(self) -> list[float]:
        return [each.count * RECORD_BYTES / 1e6 / each.wall_s for each in self.taken]

    def cpu_s_per_gigabyte(self) -> list[float]:
        sizes = (each.count * RECORD_BYTES / 1e9 for each in self.taken)
        return [cpu_s / size for cpu_s, size in zip(self.cpu_s, sizes, strict=True)]

    def trips_ms(self, quantile: int) -> list[float]:
        """Of each round, how long at most so many in a hundred took."""
        return [statistics.quantiles(t.waits_s, n=100)[quantile - 1] * 1e3 for t in self.taken]


Rounds = tuple[Figures, Figures]
"""Ours, and Kafka's."""


def tables() -> list[str]:
    """Run everything; the table, line by line."""
    try:
        rows = [*_loads(), *_starts(), *_many_partitions()]
    except UnavailableError as error:
        return [f"Not run: {error}."]
    return [
        f"Apache Kafka {NEWEST}, heap {Setup().heap}.  {ROUND_COUNT} rounds in turns after "
        f"{WARM_UP_COUNT} that warm up; medians, and in brackets the quartiles of the ratios.  "
        "MB are millions of bytes of values; CPU time is that of the broker.",
        "",
        *aligned([HEADING, *rows]),
    ]


def _loads() -> Iterator[Row]:
    with _rivals("os", {}) as rivals:
        writes = _turns(rivals, ConfluentProduce, WRITE_COUNT, "written")
        yield _row("produce, 1 KB, MB/s", writes, Figures.megabytes_a_second, at_least=1.2)
        yield _row("broker's CPU, s/GB produced", writes, Figures.cpu_s_per_gigabyte, at_most=0.6)
        reads = _turns(rivals, ConfluentConsume, READ_COUNT, "written", writes_too=False)
        yield _row("consume, 1 KB, MB/s", reads, Figures.megabytes_a_second, at_least=1.2)
        yield _row("broker's CPU, s/GB consumed", reads, Figures.cpu_s_per_gigabyte, at_most=0.6)
        trips = _turns(rivals, ConfluentProduceAndFlush, TRIP_COUNT, "trips")
        yield _row("one record until acknowledged, p50, ms", trips, lambda f: f.trips_ms(50))
        yield _row(
            "one record until acknowledged, p99, ms", trips, lambda f: f.trips_ms(99), at_most=0.7
        )
    with _rivals("commit", SYNCED) as rivals:
        synced = _turns(rivals, ConfluentProduce, SYNCED_COUNT, "synced")
        yield _row("produce, synced, 1 KB, MB/s", synced, Figures.megabytes_a_second, at_least=2)
        trips = _turns(rivals, ConfluentProduceAndFlush, TRIP_COUNT, "synced-trips")
        yield _row(
            "one record until synced and acknowledged, p99, ms", trips, lambda f: f.trips_ms(99)
        )


@contextmanager
def _rivals(flush: str, settings: Mapping[str, object]) -> Iterator[tuple[Rival, Rival]]:
    with ExitStack() as stack:
        theirs = stack.enter_context(ApacheKafka(NEWEST, Setup(settings=settings)))
        ours = stack.enter_context(broker(stack.enter_context(data_dir()), flush))
        port = int(theirs.bootstrap_servers.rpartition(":")[2])
        yield Rival("ottla", ours.port, ours.process.pid), Rival("kafka", port, theirs.pid)


def _turns(
    rivals: tuple[Rival, Rival], kind: Kind, count: int, topic: str, *, writes_too: bool = True
) -> Rounds:
    """Rounds of one client against both, in turns."""
    figures = Figures(), Figures()
    with ExitStack() as stack:
        clients = []
        for rival in rivals:
            if writes_too:
                _create(rival, topic)
            clients.append(
                stack.enter_context(contestant(kind.__name__, rival.port, topic, RECORD_BYTES))
            )
        for number in range(WARM_UP_COUNT + ROUND_COUNT):
            for place in (0, 1) if number % 2 else (1, 0):
                before_ns = cpu_ns(rivals[place].pid)
                taken = round_of(clients[place], count)
                if number >= WARM_UP_COUNT:
                    figures[place].taken.append(taken)
                    figures[place].cpu_s.append((cpu_ns(rivals[place].pid) - before_ns) / 1e9)
    if writes_too:
        for rival in rivals:
            check_end(rival.port, (WARM_UP_COUNT + ROUND_COUNT) * count, topic)
    return figures


def _create(rival: Rival, topic: str) -> None:
    with ottla.Admin(f"127.0.0.1:{rival.port}") as admin:
        admin.create_topic(topic)


# Starts, and what it costs to be there


def _starts() -> Iterator[Row]:
    """From the start of the process until a record is acknowledged; both have started before."""
    ours_s, theirs_s, ours_bytes, theirs_bytes = [], [], [], []
    with data_dir() as folder, ApacheKafka(NEWEST) as kafka:
        _write_one(kafka.bootstrap_servers)
        with broker(folder, "os") as server:
            _write_one(f"127.0.0.1:{server.port}")
        for _ in range(START_COUNT):
            kafka.stop()
            begin_s = time.perf_counter()
            kafka.start()
            _write_one(kafka.bootstrap_servers)
            theirs_s.append(time.perf_counter() - begin_s)
            theirs_bytes.append(resident_bytes(kafka.pid))
            begin_s = time.perf_counter()
            with broker(folder, "os") as server:
                _write_one(f"127.0.0.1:{server.port}")
                ours_s.append(time.perf_counter() - begin_s)
                ours_bytes.append(server.resident_bytes)
    yield _single("process start to first record acknowledged, s", ours_s, theirs_s, 1 / 20)
    yield _single(
        "memory after that, MB",
        [b / 1e6 for b in ours_bytes],
        [b / 1e6 for b in theirs_bytes],
        1 / 8,
    )


def _write_one(address: str) -> None:
    with ottla.Producer(address, acks="all") as producer:
        producer.send("first", b"record").result(60)


class Many(NamedTuple):
    """What very many partitions cost."""

    create_s: float
    start_s: float
    each_kilobytes: float
    p99_ms: float


MANY_TITLES = ("to create them, s", "restart, s", "memory of each, KB", "one record, p99, ms")


def _many_partitions() -> Iterator[Row]:
    """Very many partitions, at rest; then one record to some of them."""
    ours, theirs = _ours_with_many(), _theirs_with_many()
    for title, our, their in zip(MANY_TITLES, ours, theirs or ours, strict=True):
        name = f"{PARTITION_COUNT:,} partitions: {title}"
        if theirs is None:
            yield name, f"{our:.2f}", "did not start in time", "", "≤ 1", ""
        else:
            yield _single(name, [our], [their], 1.0)


def _ours_with_many() -> Many:
    with data_dir() as folder:
        with broker(folder, "os") as server:
            before_bytes = server.resident_bytes
            create_s = _create_many(f"127.0.0.1:{server.port}")
        begin_s = time.perf_counter()
        with broker(folder, "os") as server:
            start_s = time.perf_counter() - begin_s
            p99_ms = _latency_ms(f"127.0.0.1:{server.port}")
            each = (server.resident_bytes - before_bytes) / PARTITION_COUNT / 1e3
    return Many(create_s, start_s, each, p99_ms)


def _theirs_with_many() -> Many | None:
    with ApacheKafka(NEWEST, Setup(heap="2g")) as kafka:
        before_bytes = resident_bytes(kafka.pid)
        create_s = _create_many(kafka.bootstrap_servers)
        kafka.stop()
        begin_s = time.perf_counter()
        try:
            kafka.start()
        except RuntimeError:  # it gives up after a while
            return None
        start_s = time.perf_counter() - begin_s
        p99_ms = _latency_ms(kafka.bootstrap_servers)
        each = (resident_bytes(kafka.pid) - before_bytes) / PARTITION_COUNT / 1e3
    return Many(create_s, start_s, each, p99_ms)


def _create_many(address: str) -> float:
    begin_s = time.perf_counter()
    with ottla.Admin(address, default_api_timeout_ms=300_000, request_timeout_ms=300_000) as admin:
        for number in range(PARTITION_COUNT // EACH_COUNT):  # Kafka takes no more at once
            admin.create_topic(f"many-{number}", partitions=EACH_COUNT)
    return time.perf_counter() - begin_s


def _latency_ms(address: str) -> float:
    """One record to each of 200 partitions, one after the other."""
    waits_s = []
    with ottla.Producer(address) as producer:
        for place in range(0, PARTITION_COUNT, PARTITION_COUNT // 200):
            number, partition = divmod(place, EACH_COUNT)
            begin_s = time.perf_counter()
            producer.send(f"many-{number}", b"v" * 100, partition=partition).result(120)
            waits_s.append(time.perf_counter() - begin_s)
    return statistics.quantiles(waits_s[10:], n=100)[98] * 1e3


# Words


def _row(
    title: str,
    rounds: Rounds,
    figures_of: Callable[[Figures], list[float]],
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Row:
    ours, theirs = figures_of(rounds[0]), figures_of(rounds[1])
    ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    ratio = statistics.median(ratios)
    is_met = None
    if at_least is not None:
        is_met = ratio >= at_least
    elif at_most is not None:
        is_met = ratio <= at_most
    bar = "" if is_met is None else f"≥ {at_least:g}" if at_least is not None else f"≤ {at_most:g}"
    return (
        title,
        f"{statistics.median(ours):.2f}",
        f"{statistics.median(theirs):.2f}",
        f"**{ratio:.2f}** ({low:.2f} to {high:.2f})",
        bar,
        _verdict(is_met),
    )


def _single(title: str, ours: list[float], theirs: list[float], at_most: float | None) -> Row:
    ratio = statistics.median(ours) / statistics.median(theirs)
    return (
        title,
        f"{statistics.median(ours):.2f}",
        f"{statistics.median(theirs):.2f}",
        f"**{ratio:.3f}**",
        "" if at_most is None else f"≤ {at_most:g}",
        _verdict(None if at_most is None else ratio <= at_most),
    )


def _verdict(is_met: bool | None) -> str:
    return "" if is_met is None else "met" if is_met else "missed"
