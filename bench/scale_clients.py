"""What those cost who are connected: connections, groups and their members, open transactions."""

import socket
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from bench import growth
from bench.blast import (
    TOPIC,
    WrongAnswerError,
    ask,
    batch_of,
    check_end,
    connected,
    create_topic,
    exactly,
    framed,
    produce_request,
    trip,
)
from bench.membership import Member, gather, group_count
from bench.processes import Served, allow_files, broker, data_dir
from bench.standing import first_answer
from bench.txn_producers import Wire
from ottla.wire.header import decode_response
from ottla.wire.messages import consumer_group_heartbeat, fetch
from ottla.wire.registry import ApiKey, api

Counts = Sequence[int]
CONNECTION_COUNTS: Counts = (1, 10, 100, 1_000, 2_000)
GROUP_COUNTS: Counts = (1, 10, 100, 1_000)
MEMBER_COUNTS: Counts = (1, 10, 100, 1_000)
TRANSACTION_COUNTS: Counts = (1, 10, 100, 1_000)
SPARE_FILES = 300
TRIAL_COUNT = 20
REQUEST_COUNT = 2_000
"""Over all connections, at least."""
FETCH_VERSION, BEAT_VERSION = 12, 1
SETTLING_ROUNDS = 3
NEW_MEMBERS = "members of one new group"
READ_COMMITTED = 1


@contextmanager
def _served(file_count: int) -> Iterator[Served]:
    """A broker with one record in one topic, warm enough to be measured."""
    allow_files(file_count + SPARE_FILES)
    with data_dir() as folder, broker(folder, "os") as server:
        _fill(server)
        yield server


def _fill(server: Served) -> None:
    create_topic(server.port, 1)
    answer, _ = ask(server.port, produce_request(batch_of(0)), ApiKey.PRODUCE, 9)
    if answer.responses[0].partition_responses[0].error_code:
        raise WrongAnswerError(f"not produced: {answer}")
    server.settle()


def _median_ms(act: Callable[[], object], count: int = TRIAL_COUNT) -> float:
    waits_s = []
    for number in range(count + 1):
        begin = time.perf_counter()
        act()
        if number:  # the first one compiles what is compiled at first use
            waits_s.append(time.perf_counter() - begin)
    return statistics.median(waits_s) * 1e3


# Connections


def connections(counts: Counts = CONNECTION_COUNTS) -> list[str]:
    return growth.table("connections", [(count, _connected(count)) for count in counts])


def _connected(count: int) -> growth.Figures:
    request = produce_request(batch_of(0))
    figures: growth.Figures = {}
    with _served(2 * count) as server, ExitStack() as stack:
        before_bytes = server.resident_bytes
        begin = time.perf_counter()
        others = [stack.enter_context(connected(server.port)) for _ in range(count)]
        first_answer(server)  # after it, all of those before were accepted
        figures["to connect all, s"] = time.perf_counter() - begin
        figures["memory of all, MB"] = (server.resident_bytes - before_bytes) / 1e6
        figures["one record beside them, p50, ms"] = _median_ms(
            lambda: trip(others[0], request), 10 * TRIAL_COUNT
        )
        figures["CPU of a request, all at once, µs"] = _all_at_once_us(server, others, request)
        trip_count = 10 * TRIAL_COUNT + 2  # one to warm up, one to see how long an answer is
        check_end(server.port, 1 + trip_count + _round_count(count) * count)
    return figures


def _all_at_once_us(server: Served, others: list[socket.socket], request: bytes) -> float:
    """Everybody sends one record, then everybody reads its answer."""
    response_bytes = 4 + len(trip(others[0], request))
    round_count = _round_count(len(others))
    before_ns = server.cpu_ns
    for _ in range(round_count):
        for connection in others:
            connection.sendall(request)
        for connection in others:
            exactly(connection, response_bytes)
    return (server.cpu_ns - before_ns) / 1e3 / (round_count * len(others))


def _round_count(connection_count: int) -> int:
    return max(2, REQUEST_COUNT // connection_count)


# Groups


def groups(counts: Counts = GROUP_COUNTS) -> list[str]:
    return growth.table("groups", [(count, _with_groups(count)) for count in counts])


def _with_groups(count: int) -> growth.Figures:
    """So many groups of one member each."""
    allow_files(count + SPARE_FILES)
    figures: growth.Figures = {}
    with data_dir() as folder:
        with broker(folder, "os") as server, ExitStack() as stack:
            _fill(server)
            _first_record(server, "warm")
            before_bytes, before_ns = server.resident_bytes, server.cpu_ns
            members = []
            for number in range(count):
                member = Member.connect(server.port, f"group-{number}", TOPIC)
                stack.callback(member.close)
                gather([member])
                members.append(member)
            figures["CPU to join, of each, ms"] = (server.cpu_ns - before_ns) / 1e6 / count
            figures["memory of all, MB"] = (server.resident_bytes - before_bytes) / 1e6
            figures["the next group's first record, ms"] = _median_ms(
                lambda: _first_record(server, f"next-{time.perf_counter_ns()}")
            )
            figures["CPU of a heartbeat, µs"] = _heartbeat_us(server, members)
            figures["ListGroups, ms"] = _median_ms(lambda: group_count(members[0]), 5)
        with broker(folder, "os") as server:
            figures["start, with their offsets and members, s"] = first_answer(server)
    return figures


def _first_record(server: Served, group: str) -> None:
    member = Member.connect(server.port, group, TOPIC)
    try:
        member.find_coordinator()
        member.first_record()
    finally:
        member.close()


def _heartbeat_us(server: Served, members: list[Member]) -> float:
    round_count = max(2, REQUEST_COUNT // len(members))
    before_ns = server.cpu_ns
    for _ in range(round_count):
        for member in members:
            member.connection.sendall(member.heartbeat())
        for member in members:
            member.hear_heartbeat()
    return (server.cpu_ns - before_ns) / 1e3 / (round_count * len(members))


def members(counts: Counts = MEMBER_COUNTS) -> list[str]:
    return growth.table("members of one group", [(count, _with_members(count)) for count in counts])


def _with_members(count: int) -> growth.Figures:
    figures: growth.Figures = {}
    with _served(2 * count) as server, ExitStack() as stack:
        _first_record(server, "warm")
        crowd = [Member.connect(server.port, "crowd", TOPIC) for _ in range(count + 1)]
        for member in crowd:
            stack.callback(member.close)
        newcomer = crowd.pop()
        before_ns, begin = server.cpu_ns, time.perf_counter()
        gather(crowd)
        figures["all join, s"] = time.perf_counter() - begin
        figures["CPU of that, ms"] = (server.cpu_ns - before_ns) / 1e6
        before_ns, begin = server.cpu_ns, time.perf_counter()
        _rebalance(crowd, newcomer)
        figures["one more joins, s"] = time.perf_counter() - begin
        figures["CPU of one more, ms"] = (server.cpu_ns - before_ns) / 1e6
    return figures


def _rebalance(crowd: list[Member], newcomer: Member) -> None:
    """Everybody joins and syncs again, and the first one leads."""
    newcomer.be_named()
    everybody = [*crowd, newcomer]
    for member in reversed(everybody):
        member.tell_join()
    for member in everybody:
        member.hear_join()
    for member in reversed(everybody):
        member.tell_sync()
    for member in everybody:
        member.hear_sync()


def new_members(counts: Counts = MEMBER_COUNTS) -> list[str]:
    """Of a group whose broker assigns (KIP-848), with a partition for each."""
    return growth.table(NEW_MEMBERS, [(count, _with_new_members(count)) for count in counts])


def _with_new_members(count: int) -> growth.Figures:
    figures: growth.Figures = {}
    with _served(0) as server, connected(server.port) as connection:
        create_topic(server.port, count, "shared")
        _beat(connection, "warm", "warm", 0)
        before_ns = server.cpu_ns
        names = [f"member-{number}" for number in range(count)]
        epochs = {name: _beat(connection, "crowd", name, 0) for name in names}
        figures["CPU to join, of each, ms"] = (server.cpu_ns - before_ns) / 1e6 / count
        for _ in range(SETTLING_ROUNDS):
            epochs = {name: _beat(connection, "crowd", name, epochs[name]) for name in names}
        before_ns = server.cpu_ns
        for name in names:
            _beat(connection, "crowd", name, epochs[name])
        figures["CPU of a heartbeat, µs"] = (server.cpu_ns - before_ns) / 1e3 / count
        before_ns = server.cpu_ns
        _beat(connection, "crowd", "newcomer", 0)
        figures["CPU of one more, ms"] = (server.cpu_ns - before_ns) / 1e6
    return figures


def _beat(connection: socket.socket, group: str, member: str, epoch: int) -> int:
    """A heartbeat of a member that owns nothing; the epoch it is in then."""
    is_join = epoch == 0
    body = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if is_join else -1,
        subscribed_topic_names=("shared",) if is_join else None,
        topic_partitions=(),
    )
    frame = trip(connection, framed(body, BEAT_VERSION))
    _, answer = decode_response(api(ApiKey.CONSUMER_GROUP_HEARTBEAT), BEAT_VERSION, frame)
    if answer.error_code:
        raise WrongAnswerError(f"{member}: {answer}")
    found: int = answer.member_epoch
    return found


# Transactions


def transactions(counts: Counts = TRANSACTION_COUNTS) -> list[str]:
    return growth.table("open transactions", [(count, _with_open(count)) for count in counts])


def _with_open(count: int) -> growth.Figures:
    """So many transactions of one record each, all in one partition."""
    allow_files(2 * count + SPARE_FILES)
    figures: growth.Figures = {}
    with data_dir() as folder:
        with broker(folder, "os") as server, ExitStack() as stack:
            _fill(server)
            create_topic(server.port, 1, "other")
            another = Wire(server.port, TOPIC, "another")
            stack.callback(another.close)
            another.groups(TRIAL_COUNT, 1)
            before_bytes, before_ns = server.resident_bytes, server.cpu_ns
            for number in range(count):
                producer = Wire(server.port, TOPIC, f"open-{number}")
                stack.callback(producer.close)
                producer.begin()
            figures["CPU to begin, of each, ms"] = (server.cpu_ns - before_ns) / 1e6 / count
            figures["memory of all, MB"] = (server.resident_bytes - before_bytes) / 1e6
            before_ns = server.cpu_ns
            taken = another.groups(TRIAL_COUNT, 1)
            figures["another one: commit, p50, ms"] = statistics.median(taken.waits_s) * 1e3
            figures["another one: CPU, ms"] = (server.cpu_ns - before_ns) / 1e6 / TRIAL_COUNT
            with connected(server.port) as connection:
                request = _committed_fetch()
                figures["fetch of what is committed, p50, ms"] = _median_ms(
                    lambda: trip(connection, request)
                )
        with broker(folder, "os") as server:
            figures["start after a clean stop, s"] = first_answer(server)
    return figures


def _committed_fetch() -> bytes:
    wanted = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    body = fetch.FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1_000_000,
        isolation_level=READ_COMMITTED,
        topics=(fetch.FetchTopic(topic=TOPIC, partitions=(wanted,)),),
    )
    return framed(body, FETCH_VERSION)
