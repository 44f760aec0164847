"""What a broker costs before it does anything: to start, to be there, for each idle thing it keeps.

Starts are timed from the outside, from the start of the process to the first answer; memory is
what the kernel counts as resident once the broker is at rest.
"""

import statistics
import time

from bench.blast import ask, connected, create_topic, framed
from bench.processes import Served, broker, data_dir
from bench.report import with_quartiles
from ottla.broker.embedded import Broker
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.registry import ApiKey

START_COUNT = 7
CONNECTION_COUNT = 1_000
PARTITION_COUNTS = (1, 1_000, 10_000)

MAX_START_S = 0.25
MAX_EMBEDDED_START_S = 0.010
MAX_IDLE_BYTES = 45_000_000
MAX_CONNECTION_BYTES = 10_000

Row = tuple[str, ...]


def rows() -> list[Row]:
    """The heading and one row for each figure."""
    return [
        ("at rest", "broker", "target", ""),
        *_start_and_memory(),
        _embedded_start(),
        *(row for count in PARTITION_COUNTS for row in _partitions(count)),
    ]


def _row(title: str, figure: str, target: str = "", is_met: bool | None = None) -> Row:
    return title, figure, target, "" if is_met is None else "met" if is_met else "missed"


def first_answer(server: Served) -> float:
    """Have a request answered: the seconds from the start of the process until then."""
    begin = time.perf_counter()
    request = framed(ApiVersionsRequest(), 0)
    ask(server.port, request, ApiKey.API_VERSIONS, 0)
    return server.started_s + time.perf_counter() - begin


def _start_and_memory() -> list[Row]:
    starts_s = []
    with data_dir() as folder:
        for number in range(START_COUNT + 1):
            with broker(folder, "commit") as server:
                start_s = first_answer(server)
                if number:  # the first one compiles modules and makes the metadata store
                    starts_s.append(start_s)
        with broker(folder, "commit") as server:
            first_answer(server)
            server.settle()
            idle_bytes, each = server.resident_bytes, _bytes_per_connection(server)
    return [
        _row(
            "process start to first answer",
            with_quartiles(starts_s, ".3f", " s"),
            f"{MAX_START_S:g} s",
            statistics.median(starts_s) <= MAX_START_S,
        ),
        _row(
            "memory, idle",
            f"{idle_bytes / 1e6:.1f} MB",
            f"{MAX_IDLE_BYTES / 1e6:g} MB",
            idle_bytes <= MAX_IDLE_BYTES,
        ),
        _row(
            f"memory of an idle connection, of {CONNECTION_COUNT:,}",
            f"{each / 1e3:.1f} KB",
            f"{MAX_CONNECTION_BYTES / 1e3:g} KB",
            each <= MAX_CONNECTION_BYTES,
        ),
    ]


def _bytes_per_connection(server: Served) -> float:
    before = server.resident_bytes
    connections = [connected(server.port) for _ in range(CONNECTION_COUNT)]
    try:
        first_answer(server)  # after it, all of those before were accepted
        return (server.resident_bytes - before) / CONNECTION_COUNT
    finally:
        for connection in connections:
            connection.close()


def _embedded_start() -> Row:
    """In this process, with everything imported; a start before the first round sees to that."""
    starts_s = []
    for _ in range(START_COUNT + 1):
        begin = time.perf_counter()
        with Broker():
            starts_s.append(time.perf_counter() - begin)
    counted_ms = [start_s * 1e3 for start_s in starts_s[1:]]
    return _row(
        "start inside a process",
        with_quartiles(counted_ms, ".1f", " ms"),
        f"{MAX_EMBEDDED_START_S * 1000:g} ms",
        statistics.median(counted_ms) <= MAX_EMBEDDED_START_S * 1e3,
    )


def _partitions(count: int) -> list[Row]:
    """A topic with `count` partitions, after a clean stop."""
    with data_dir() as folder:
        with broker(folder, "os") as server:
            begin = time.perf_counter()
            create_topic(server.port, count)
            create_s = time.perf_counter() - begin
        with broker(folder, "os") as server:
            start_s = first_answer(server)
            server.settle()
            resident_bytes = server.resident_bytes
    title = f"{count:,} partition{'s' if count > 1 else ''}"
    return [
        _row(f"{title}: to create them", f"{create_s:.2f} s"),
        _row(f"{title}: start after a clean stop", f"{start_s:.2f} s"),
        _row(f"{title}: memory", f"{resident_bytes / 1e6:.1f} MB"),
    ]
