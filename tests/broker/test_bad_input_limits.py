"""Clients that want too much: slow ones, greedy ones, and too many of them.

Each test has a broker of its own with limits small enough to reach, and looks at what the broker
does to the offender, to its memory, and to a bystander.
"""

import logging
import re
import resource
import struct
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import repeat

import pytest

from ottla.broker.embedded import Broker
from ottla.errors import ErrorCode
from ottla.testing import TestBroker
from ottla.wire.frame import SIZE
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceRequest
from tests.broker.conftest import Bystander
from tests.broker.wire_client import (
    FETCH_VERSION,
    WireClient,
    batch_of,
    fetch_request,
    framed,
    frames_of,
    produce_request,
    request_bytes,
)

MIB = 1024 * 1024
METADATA_VERSION = 8
IDLE_S = 600.0
IDLE_MS = int(IDLE_S * 1000)
"""So long that nobody is idle because a test has to wait for its turn."""


@contextmanager
def guarded_broker(**settings: str | int) -> Iterator[TestBroker]:
    """A broker that must serve a bystander before and after; its time goes on as a test says."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    with TestBroker(config=named) as broker:
        _serves_a_bystander(broker)
        yield broker
        _serves_a_bystander(broker)


def _serves_a_bystander(broker: Broker) -> None:
    bystander = Bystander(broker)
    try:
        bystander.writes_and_reads()
    finally:
        bystander.close()


class Lines(logging.Handler):
    """Waits for lines of the broker's log."""

    def __init__(self, pattern: str) -> None:
        super().__init__(logging.INFO)
        self._pattern = re.compile(pattern)
        self._changed = threading.Condition()
        self._count = 0

    def emit(self, record: logging.LogRecord) -> None:
        if self._pattern.search(record.getMessage()):
            with self._changed:
                self._count += 1
                self._changed.notify_all()

    def wait_for(self, count: int = 1) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._count >= count, timeout=60)


@contextmanager
def lines_with(pattern: str, caplog: pytest.LogCaptureFixture) -> Iterator[Lines]:
    lines = Lines(pattern)
    logger = logging.getLogger("ottla")
    logger.addHandler(lines)
    try:
        with caplog.at_level(logging.INFO, logger="ottla"):
            yield lines
    finally:
        logger.removeHandler(lines)


@contextmanager
def peak_bytes_below(limit_bytes: int) -> Iterator[None]:
    """Everything that Python allocates inside, in this process and so in its broker, is counted."""
    tracemalloc.start()
    try:
        yield
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < limit_bytes, f"{peak_bytes / MIB:.1f} MiB"


def test_row_07_a_request_that_trickles_in_is_cut_off_and_memory_follows_what_arrived() -> None:
    with (
        guarded_broker(connections_max_idle_ms=IDLE_MS) as broker,
        WireClient(broker.bootstrap_servers) as client,
        peak_bytes_below(4 * MIB),
    ):
        client.send_bytes(struct.pack(">i", 50 * MIB))
        assert any(_trickles_in_vain(client, broker) for _ in range(40)), "still open"


def test_row_18_pipelining_without_reading_is_bounded_and_answered_in_order() -> None:
    request_count = 10_000
    with guarded_broker() as broker, WireClient(broker.bootstrap_servers) as client:
        assert client.create_topic("wide", partition_count=50) == 0
        answer_bytes = len(_metadata_answer(client))
        assert answer_bytes * request_count > 15 * MIB, "it would not fit, were it all kept"
        data = frames_of(repeat(MetadataRequest(topics=None), request_count), METADATA_VERSION)

        with peak_bytes_below(8 * MIB):
            client.send_bytes(data)
            for number in range(1, request_count + 1):
                assert struct.unpack_from(">i", client.receive_frame())[0] == number


def test_row_18_requests_behind_one_that_waits_are_bounded_and_answered_in_order() -> None:
    request_count = 10_000
    with guarded_broker() as broker, WireClient(broker.bootstrap_servers) as client:
        assert client.create_topic("wide", partition_count=50) == 0
        waiting = framed(request_bytes(fetch_request("wide", max_wait_ms=2_000), FETCH_VERSION, 0))
        behind = frames_of(repeat(MetadataRequest(topics=None), request_count), METADATA_VERSION)

        with peak_bytes_below(8 * MIB):
            client.send_bytes(waiting + behind)
            for number in range(request_count + 1):
                assert struct.unpack_from(">i", client.receive_frame())[0] == number


def test_row_19_answers_that_nobody_reads_are_bounded_and_cut_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with guarded_broker(connections_max_idle_ms=IDLE_MS) as broker:
        with WireClient(broker.bootstrap_servers) as client:
            assert client.create_topic("large") == 0
            for _ in range(12):
                assert client.produce("large", batch_of(bytes(MIB - 1_000))).error_code == 0
        with (
            WireClient(broker.bootstrap_servers) as greedy,
            lines_with(f"connection closed.*:{greedy.port} reason=idle", caplog) as closings,
            peak_bytes_below(40 * MIB),
        ):
            greedy.limit_receive_buffer(16 * 1024)
            greedy.send_bytes(frames_of(repeat(fetch_request("large"), 10), FETCH_VERSION))
            greedy.wait_for_bytes()

            for _ in range(3):  # while the sockets still fill, the connection is not idle
                broker.advance(IDLE_S + 1)
            assert closings.wait_for()

            with pytest.raises(ConnectionError):
                greedy.receive_frame()  # not even the first answer has left as a whole


@pytest.mark.parametrize("limit", ["max.connections", "max.connections.per.ip"])
def test_row_20_a_connection_too_many_is_closed_and_the_others_stay(limit: str) -> None:
    with Broker(config={limit: 3}) as broker, ExitStack() as admitted:
        clients = [admitted.enter_context(WireClient(broker.bootstrap_servers)) for _ in range(3)]
        for client in clients:
            client.ask(ApiVersionsRequest(), 0)
        with WireClient(broker.bootstrap_servers) as refused:
            assert refused.is_closed_by_peer()
        for client in clients:
            client.ask(ApiVersionsRequest(), 0)


def test_row_20_a_closed_connection_makes_room_for_another() -> None:
    with Broker(config={"max.connections": 1}) as broker:
        with WireClient(broker.bootstrap_servers) as first:
            first.ask(ApiVersionsRequest(), 0)
            first.send_bytes(struct.pack(">i", -1))
            assert first.is_closed_by_peer()
        with WireClient(broker.bootstrap_servers) as second:
            second.ask(ApiVersionsRequest(), 0)


def idle_connection_count() -> int:
    """A thousand, where the table says 5,000: client and broker share this process, and opening one
    takes them 2.5 ms.  Fewer where the process, which has both ends, may not open so many files.
    """
    descriptor_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(1_000, descriptor_limit // 4)


def test_row_21_idle_connections_are_closed_and_active_ones_stay() -> None:
    with guarded_broker(connections_max_idle_ms=IDLE_MS) as broker, ExitStack() as opened:
        connections = [WireClient(broker.bootstrap_servers) for _ in range(idle_connection_count())]
        idle = [opened.enter_context(connection) for connection in connections]
        with WireClient(broker.bootstrap_servers) as active:
            for _ in range(3):
                active.ask(ApiVersionsRequest(), 0)
                broker.advance(IDLE_S / 2)
            active.ask(ApiVersionsRequest(), 0)
            assert all(client.is_closed_by_peer() for client in idle)
            active.ask(ApiVersionsRequest(), 0)


def test_a_fetch_that_waits_longer_than_the_idle_time_is_answered() -> None:
    with (
        guarded_broker(connections_max_idle_ms=IDLE_MS) as broker,
        WireClient(broker.bootstrap_servers) as client,
    ):
        assert client.create_topic("quiet") == 0
        client.send(fetch_request("quiet", max_wait_ms=3 * IDLE_MS), FETCH_VERSION)
        _serves_a_bystander(broker)  # and so has read what was sent before

        for _ in range(3):
            broker.advance(IDLE_S + 1)

        assert client.receive(FetchRequest, FETCH_VERSION)[1].error_code == ErrorCode.NONE


def _trickles_in_vain(client: WireClient, broker: TestBroker) -> bool:
    """Send one byte, wait, but not for long; whether the broker has had enough of it."""
    try:
        client.send_bytes(b"x")
    except (ConnectionResetError, BrokenPipeError):
        return True
    broker.advance(IDLE_S / 4)
    return client.is_closed_within(0.02)


def _metadata_answer(client: WireClient) -> bytes:
    client.send(MetadataRequest(topics=None), METADATA_VERSION)
    answer = client.receive_frame()
    assert len(answer) > SIZE.size
    return answer


def test_requests_that_arrive_slowly_share_a_bounded_memory() -> None:
    limits = {"socket.request.max.bytes": 2 * MIB, "queued.max.request.bytes": 2 * MIB}
    limits["ottla.connection.queued.max.bytes"] = 2 * MIB
    with (
        Broker(config={**limits, "message.max.bytes": 2 * MIB}) as broker,
        WireClient(broker.bootstrap_servers) as first,
        WireClient(broker.bootstrap_servers) as second,
        WireClient(broker.bootstrap_servers) as small,
    ):
        assert small.create_topic("large") == 0
        request = framed(
            request_bytes(produce_request("large", batch_of(bytes(MIB + 512 * 1024))), 9)
        )
        for slow in (first, second):
            slow.send_bytes(request[:-1])  # together more than the limit
        small.ask(ApiVersionsRequest(), 0)  # needs none of that memory
        first.send_bytes(request[-1:])
        assert _error_of(first) == ErrorCode.NONE
        second.send_bytes(request[-1:])
        assert _error_of(second) == ErrorCode.NONE


def _error_of(client: WireClient) -> int:
    _, response = client.receive(ProduceRequest, 9)
    error: int = response.responses[0].partition_responses[0].error_code
    return error
