"""What consumer groups cost: to get into one, to stay in it, to commit, and to load offsets again.

The peer of the first table is the mock cluster inside librdkafka, driven by the same consumer on
the same machine.  It waits 3 s for more members, as Kafka does by default; we do not, and that is
the difference which users of short-lived groups feel.  What the mock needs beyond those 3 s is what
the consumer itself takes to connect, ask around and begin to fetch: it waits 50 ms between two
connections, whoever answers.

CPU time is that of the broker alone; the load generator has a process of its own.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count

import ottla
from bench.blast import (
    Load,
    WrongAnswerError,
    ask,
    batch_of,
    blast,
    connected,
    create_topic,
    produce_request,
)
from bench.growth import part
from bench.membership import Member, commit, commit_request, committed, gather, group_count
from bench.processes import Served, allow_files, broker, data_dir
from bench.report import aligned, with_quartiles
from ottla.broker.embedded import Broker
from ottla.wire.registry import ApiKey

TOPIC = "bench"
TRIAL_COUNT = 9
MOCK_TRIAL_COUNT = 2
POLL_S = 0.05
PATIENCE_S = 30.0

GROUP_COUNT, MEMBERS_PER_GROUP = 1_000, 3
HEARTBEAT_INTERVAL_S = 3.0
HEARTBEAT_ROUNDS = 3
SPARE_FILES = 200

COMMIT_GROUP_COUNT = 64
COMMIT_DEPTH = 64
COMMIT_ROUNDS = 7

RELOADED_GROUPS, RELOADED_PARTITIONS = 1_000, 100
RELOAD_COUNT = 3

MAX_EMBEDDED_S, MAX_PROCESS_S = 0.050, 0.150
MAX_CPU_SHARE = 0.25
MIN_COMMITS_PER_S = 20_000
MAX_RELOAD_S = 2.0

Row = tuple[str, ...]

FIRST_HEADING: Row = ("first join to first record", "time", "target", "")
COST_HEADING: Row = ("staying, committing, loading", "broker", "target", "")

_names = count(1)


def tables() -> list[str]:
    """Run everything; all tables, line by line."""
    return [
        f"Medians of {TRIAL_COUNT} new groups, and in brackets their quartiles; {MOCK_TRIAL_COUNT} "
        "for the mock, which takes long.",
        "",
        *part("first records", lambda: aligned([FIRST_HEADING, *first_records()])),
        *part("costs", lambda: aligned([COST_HEADING, heartbeats(), *commits(), *reloads()])),
    ][:-1]


def _row(title: str, figure: str, target: str = "", is_met: bool | None = None) -> Row:
    return title, figure, target, "" if is_met is None else "met" if is_met else "missed"


# To the first record


def first_records() -> list[Row]:
    """Who takes how long, from nothing to a record in hand."""
    return [*_first_records_embedded(), *_first_records_of_a_process(), _first_records_of_mock()]


def _first_records_embedded() -> list[Row]:
    with Broker() as served:
        port = int(served.bootstrap_servers.rpartition(":")[2])
        return _timed_records("broker in this process", port, MAX_EMBEDDED_S)


def _first_records_of_a_process() -> list[Row]:
    with data_dir() as folder, broker(folder, "commit") as served:
        return _timed_records("broker in a process", served.port, MAX_PROCESS_S)


def _timed_records(where: str, port: int, limit_s: float) -> list[Row]:
    _fill(port)
    first_s = [_raw_trial(port)]
    raw_s = [_raw_trial(port) for _ in range(TRIAL_COUNT)]
    address = f"127.0.0.1:{port}"
    _ottla_trial(address)
    ottla_s = [_ottla_trial(address) for _ in range(TRIAL_COUNT)]
    _confluent_trial(address)
    confluent_s = [_confluent_trial(address) for _ in range(TRIAL_COUNT)]
    return [
        _time_row(f"{where}, bare requests, the very first group", first_s),
        _time_row(f"{where}, bare requests", raw_s, limit_s),
        _time_row(f"{where}, `ottla.Consumer`", ottla_s, limit_s),
        _time_row(f"{where}, confluent-kafka", confluent_s, limit_s),
    ]


def _time_row(title: str, trials_s: list[float], limit_s: float | None = None) -> Row:
    figure = with_quartiles([trial_s * 1e3 for trial_s in trials_s], ",.1f", " ms")
    if limit_s is None:
        return _row(title, figure)
    return _row(title, figure, f"{limit_s * 1000:g} ms", statistics.median(trials_s) <= limit_s)


def _raw_trial(port: int) -> float:
    begin = time.perf_counter()
    member = Member.connect(port, f"raw-{next(_names)}", TOPIC)
    try:
        member.find_coordinator()
        member.first_record()
        return time.perf_counter() - begin
    finally:
        member.close()


def _ottla_trial(bootstrap_servers: str) -> float:
    """From the making of the consumer, as with the other one."""
    begin = time.perf_counter()
    with ottla.Consumer(
        TOPIC,
        bootstrap_servers=bootstrap_servers,
        group_id=f"ottla-{next(_names)}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        if not consumer.poll(PATIENCE_S):
            raise WrongAnswerError(f"no record within {PATIENCE_S} s")
        return time.perf_counter() - begin


def _confluent_trial(bootstrap_servers: str) -> float:
    """From the making of the consumer; it connects, finds out, joins and fetches by itself.

    Most of it is librdkafka waiting for nobody: some 45 ms until it opens another connection, and
    100 ms, however it is set, until it asks where a partition without committed offset begins.
    """
    from confluent_kafka import Consumer

    begin = time.perf_counter()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"confluent-{next(_names)}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([TOPIC])
        while time.perf_counter() - begin < PATIENCE_S:
            message = consumer.poll(POLL_S)
            if message is not None and message.error() is None:
                return time.perf_counter() - begin
    finally:
        consumer.close()
    raise WrongAnswerError(f"no record within {PATIENCE_S} s")


def _first_records_of_mock() -> Row:
    title = "librdkafka's mock cluster, confluent-kafka"
    with _mock_cluster() as bootstrap_servers:
        trials_s = [_confluent_trial(bootstrap_servers) for _ in range(MOCK_TRIAL_COUNT)]
    return _time_row(title, trials_s)


@contextmanager
def _mock_cluster() -> Iterator[str]:
    """A cluster that lives as long as the client that made it; with one record in the topic."""
    from confluent_kafka import Producer

    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    metadata = producer.list_topics(timeout=PATIENCE_S)
    (node,) = metadata.brokers.values()
    producer.produce(TOPIC, b"value", partition=0)
    if producer.flush(PATIENCE_S):
        raise WrongAnswerError("the mock cluster did not take the record")
    yield f"{node.host}:{node.port}"
    producer.flush(PATIENCE_S)


def _fill(port: int) -> None:
    create_topic(port, 1, TOPIC)
    answer, _ = ask(port, produce_request(batch_of(0)), ApiKey.PRODUCE, 9)
    if answer.responses[0].partition_responses[0].error_code:
        raise WrongAnswerError(f"not produced: {answer}")


# Staying


def heartbeats() -> Row:
    """The share of a core that it takes to hear from all members, each on its own connection."""
    member_count = GROUP_COUNT * MEMBERS_PER_GROUP
    allow_files(member_count + SPARE_FILES)
    with data_dir() as folder, broker(folder, "commit") as served, ExitStack() as stack:
        members: list[Member] = []
        for number in range(GROUP_COUNT):
            group = [
                Member.connect(served.port, f"group-{number}", TOPIC)
                for _ in range(MEMBERS_PER_GROUP)
            ]
            for member in group:
                stack.callback(member.close)
            gather(group)
            members += group
        _beat(members)  # once to warm up
        before_ns, begin = served.cpu_ns, time.perf_counter()
        for _ in range(HEARTBEAT_ROUNDS):
            _beat(members)
        wall_s = time.perf_counter() - begin
        share = (served.cpu_ns - before_ns) / 1e9 / wall_s
    rate = HEARTBEAT_ROUNDS * member_count / wall_s
    title = f"{GROUP_COUNT:,} groups of {MEMBERS_PER_GROUP}, {rate:,.0f} heartbeats/s"
    return _row(
        title, f"{share:.1%} of a core", f"{MAX_CPU_SHARE:.0%}", is_met=share <= MAX_CPU_SHARE
    )


def _beat(members: list[Member]) -> None:
    """One heartbeat of each, spread evenly over the interval; answers are heard one interval on."""
    requests = [member.heartbeat() for member in members]
    begin = time.perf_counter()
    for number, (member, request) in enumerate(zip(members, requests, strict=True)):
        due = begin + number * HEARTBEAT_INTERVAL_S / len(members)
        if (wait_s := due - time.perf_counter()) > 0:
            time.sleep(wait_s)
        member.connection.sendall(request)
    for member in members:
        member.hear_heartbeat()


# Committing


def commits() -> list[Row]:
    """Commits over many groups, so many under way at a time: all that wait share one sync."""
    return [
        _commit_row(flush, partition_count)
        for partition_count in (1, 10)
        for flush in ("os", "commit")
    ]


def _commit_row(flush: str, partition_count: int) -> Row:
    groups = [f"group-{number:02}" for number in range(COMMIT_GROUP_COUNT)]
    round_count = 4_000 // partition_count
    with data_dir() as folder, broker(folder, flush) as served:
        create_topic(served.port, 10, TOPIC)
        response_bytes = _first_commit(served, groups[0], partition_count)
        load = Load(
            requests=[commit_request(group, TOPIC, partition_count, 7) for group in groups],
            response_bytes=response_bytes,
            depth=COMMIT_DEPTH,
        )
        with connected(served.port) as connection:
            blast(connection, load, round_count)
            before_ns = served.cpu_ns
            walls_s = [blast(connection, load, round_count) for _ in range(COMMIT_ROUNDS)]
            cpu_us = (served.cpu_ns - before_ns) / 1e3 / (COMMIT_ROUNDS * round_count)
        _check_committed(served, groups[-1])
    rates = [round_count * partition_count / wall_s for wall_s in walls_s]
    title = f"commits of {partition_count} offset{'s' if partition_count > 1 else ''}, "
    title += f"{COMMIT_DEPTH} under way over as many groups, flush={flush}"
    figure = f"{with_quartiles(rates, ',.0f')} offsets/s, {cpu_us:.0f} µs of CPU a request"
    is_met = statistics.median(rates) >= MIN_COMMITS_PER_S
    return _row(title, figure, f"{MIN_COMMITS_PER_S:,}/s", is_met)


def _first_commit(served: Served, group: str, partition_count: int) -> int:
    member = Member.connect(served.port, group, TOPIC)
    try:
        member.find_coordinator()
        return commit(member, partition_count, 7)
    finally:
        member.close()


def _check_committed(served: Served, group: str) -> None:
    member = Member.connect(served.port, group, TOPIC)
    try:
        if (offset := committed(member, 0)) != 7:
            raise WrongAnswerError(f"{group} is at {offset}")
    finally:
        member.close()


# Loading again


def reloads() -> list[Row]:
    """Offsets are answered from memory: how long until they are there after a start."""
    total = RELOADED_GROUPS * RELOADED_PARTITIONS
    with data_dir() as folder:
        with broker(folder, "os") as served:
            _commit_all(served)
        answers_s, loads_s = [], []
        for _ in range(RELOAD_COUNT):
            with broker(folder, "commit") as served:
                answer_s, load_s = _reload(served)
            answers_s.append(answer_s)
            loads_s.append(load_s)
    limit = f"{MAX_RELOAD_S:g} s"
    return [
        _row(
            f"{total:,} offsets: process start to the first OffsetFetch answered",
            with_quartiles(answers_s, ".2f", " s"),
            limit,
            statistics.median(answers_s) <= MAX_RELOAD_S,
        ),
        _row(
            f"{total:,} offsets: from listening until all are loaded",
            with_quartiles(loads_s, ".2f", " s"),
        ),
    ]


def _commit_all(served: Served) -> None:
    create_topic(served.port, RELOADED_PARTITIONS, TOPIC)
    member = Member.connect(served.port, "", TOPIC)
    try:
        for number in range(RELOADED_GROUPS):
            member.group = f"group-{number}"
            if number == 0:
                member.find_coordinator()
            commit(member, RELOADED_PARTITIONS, number)
    finally:
        member.close()


def _reload(served: Served) -> tuple[float, float]:
    """Seconds from the process's start to the first answer, and of the load of everything."""
    begin = time.perf_counter()
    number = RELOADED_GROUPS - 1
    member = Member.connect(served.port, f"group-{number}", TOPIC)
    try:
        offset = _insist(lambda: committed(member, RELOADED_PARTITIONS - 1))
        answer_s = served.started_s + time.perf_counter() - begin
        found = _insist(lambda: group_count(member))
        load_s = time.perf_counter() - begin
    finally:
        member.close()
    if (offset, found) != (number, RELOADED_GROUPS):
        raise WrongAnswerError(f"{found} groups, the last one at {offset}")
    return answer_s, load_s


def _insist(question: Callable[[], int | None]) -> int:
    """Ask until there is an answer."""
    begin = time.perf_counter()
    while time.perf_counter() - begin < PATIENCE_S:
        if (answer := question()) is not None:
            return answer
        time.sleep(0.001)
    raise WrongAnswerError(f"still loading after {PATIENCE_S} s")
