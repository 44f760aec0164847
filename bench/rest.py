"""Both brokers at rest: how soon they are there, and what very many idle partitions cost.

A start counts from that of the process until a record is acknowledged, by the same bare requests;
both have started in the same folder before.
"""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import ottla
from bench.first_record import acknowledged
from bench.harness import WrongAnswerError
from bench.processes import broker, data_dir, resident_bytes
from bench.rivals import Row, single
from tools.apache_kafka import NEWEST, ApacheKafka, Setup

START_COUNT = 5
PARTITION_COUNT, EACH_COUNT = 10_000, 1_000
"""In all, and of one topic: Kafka takes no more than 10,000 changes in one request."""
ASKED_COUNT, SKIPPED_COUNT = 1_000, 10
"""Partitions that get a record, evenly over all topics: of so many, one in a hundred is ten, not
two.  The first ones are for connecting."""
NEXT_COUNT = 5
"""Records that each gets after its first: in half a second a machine may be disturbed once."""
PATIENCE_S = 300.0
TOPIC = "first"
SETTLING_S = 3.0


def starts() -> Iterator[Row]:
    """From nothing to a record acknowledged, and the memory it has then."""
    ours_s, theirs_s, ours_bytes, theirs_bytes = [], [], [], []
    with data_dir() as folder, ApacheKafka(NEWEST) as kafka:
        _write_one(kafka.bootstrap_servers)
        with broker(folder, "os") as server:
            _write_one(f"127.0.0.1:{server.port}")
        port = int(kafka.bootstrap_servers.rpartition(":")[2])
        kafka.stop()
        for _ in range(START_COUNT):
            begin_s = time.perf_counter()
            kafka.launch()
            theirs_s.append(acknowledged(port, TOPIC) - begin_s)
            theirs_bytes.append(_bytes_at_rest(kafka.pid))
            kafka.stop()  # now the port is ours
            acknowledged_s: list[float] = []
            write = partial(_note_first, acknowledged_s, port)
            begin_s = time.perf_counter()
            with broker(folder, "os", port=port, meanwhile=write) as server:
                ours_s.append(acknowledged_s[0] - begin_s)
                ours_bytes.append(_bytes_at_rest(server.process.pid))
    yield single("process start to first record acknowledged, s", ours_s, theirs_s, 1 / 20)
    yield single(
        "idle memory, MB",
        [b / 1e6 for b in ours_bytes],
        [b / 1e6 for b in theirs_bytes],
        1 / 8,
    )


def _bytes_at_rest(pid: int) -> int:
    """The memory of a process, once it has done what it left for after its first answer."""
    time.sleep(SETTLING_S)
    return resident_bytes(pid)


def _note_first(acknowledged_s: list[float], port: int) -> None:
    acknowledged_s.append(acknowledged(port, TOPIC))


def _write_one(address: str) -> None:
    with ottla.Producer(address, acks="all") as producer:
        producer.send(TOPIC, b"record").result(60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Many:
    """What very many partitions cost."""

    create_s: float
    start_s: float
    each_kilobytes: float
    learned_ms: float
    """What the client needs until it knows a topic, before it writes: Metadata of 1,000."""
    first_p99_ms: float
    """Of the first record that a partition gets after the start."""
    next_p99_ms: float


MANY_TITLES = {
    "create_s": "to create them, s",
    "start_s": "start after a clean stop, s",
    "each_kilobytes": "memory of each, KB",
    "learned_ms": f"{EACH_COUNT:,} of them known to the client, p50, ms",
    "first_p99_ms": "the first record of each, p99, ms",
    "next_p99_ms": "the next record of each, p99, ms",
}


def many_partitions() -> Iterator[Row]:
    """Very many partitions, at rest; then a record to some of them, and a few more."""
    ours, theirs = _ours_with_many(), _theirs_with_many()
    for name, title in MANY_TITLES.items():
        title = f"{PARTITION_COUNT:,} partitions: {title}"
        at_most = None if name == "learned_ms" else 1.0
        yield single(title, [getattr(ours, name)], [getattr(theirs, name)], at_most)


def _ours_with_many() -> Many:
    with data_dir() as folder:
        with broker(folder, "os") as server:
            before_bytes = _bytes_at_rest(server.process.pid)
            create_s = _create_many(f"127.0.0.1:{server.port}")
        begin_s = time.perf_counter()
        with broker(folder, "os") as server:
            start_s = time.perf_counter() - begin_s
            each = (_bytes_at_rest(server.process.pid) - before_bytes) / PARTITION_COUNT / 1e3
            latencies = _latencies_ms(f"127.0.0.1:{server.port}")
    return Many(create_s=create_s, start_s=start_s, each_kilobytes=each, **latencies)


def _theirs_with_many() -> Many:
    setup = Setup(start_timeout_s=PATIENCE_S, stop_timeout_s=PATIENCE_S)
    with ApacheKafka(NEWEST, setup) as kafka:
        before_bytes = _bytes_at_rest(kafka.pid)
        create_s = _create_many(kafka.bootstrap_servers)
        kafka.stop()
        begin_s = time.perf_counter()
        kafka.start()
        start_s = time.perf_counter() - begin_s
        each = (_bytes_at_rest(kafka.pid) - before_bytes) / PARTITION_COUNT / 1e3
        latencies = _latencies_ms(kafka.bootstrap_servers)
    return Many(create_s=create_s, start_s=start_s, each_kilobytes=each, **latencies)


def _create_many(address: str) -> float:
    begin_s = time.perf_counter()
    timeout_ms = int(PATIENCE_S * 1000)
    with ottla.Admin(
        address, default_api_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms
    ) as admin:
        for number in range(PARTITION_COUNT // EACH_COUNT):
            admin.create_topic(f"many-{number}", partitions=EACH_COUNT)
    return time.perf_counter() - begin_s


def _latencies_ms(address: str) -> dict[str, float]:
    """One record to each of some partitions, one after the other; then some more of them.

    What a client asks once for each topic comes before: ten such questions among a thousand records
    would be all that the slowest hundredth of them has.
    """
    with ottla.Producer(address) as producer:
        learned_ms = statistics.median(_learned_ms(producer))
        first_ms = _latency_ms(producer)
        next_ms = statistics.median(_latency_ms(producer) for _ in range(NEXT_COUNT))
    _check_written(address)
    return {"learned_ms": learned_ms, "first_p99_ms": first_ms, "next_p99_ms": next_ms}


def _learned_ms(producer: "ottla.Producer") -> Iterator[float]:
    for number in range(PARTITION_COUNT // EACH_COUNT):
        begin_s = time.perf_counter()
        if len(producer.partitions_for(f"many-{number}")) != EACH_COUNT:
            raise WrongAnswerError(f"many-{number} has not {EACH_COUNT} partitions")
        yield (time.perf_counter() - begin_s) * 1e3


def _latency_ms(producer: "ottla.Producer") -> float:
    waits_s = []
    for topic, partition in asked():
        begin_s = time.perf_counter()
        producer.send(topic, b"v" * 100, partition=partition).result(PATIENCE_S)
        waits_s.append(time.perf_counter() - begin_s)
    return statistics.quantiles(waits_s[SKIPPED_COUNT:], n=100)[98] * 1e3


def _check_written(address: str) -> None:
    with ottla.Admin(address) as admin:
        ends = admin.list_offsets([ottla.TopicPartition(*place) for place in asked()])
    expected = 1 + NEXT_COUNT
    if (wrong := {place: end for place, end in ends.items() if end != expected}) or not ends:
        raise WrongAnswerError(f"{len(wrong)} partitions have not {expected} records: {wrong}")


def asked() -> Iterator[tuple[str, int]]:
    """The topic and the partition of each that gets a record."""
    for place in range(0, PARTITION_COUNT, PARTITION_COUNT // ASKED_COUNT):
        number, partition = divmod(place, EACH_COUNT)
        yield f"many-{number}", partition
