"""What transactions cost: how long a commit takes, and how much they slow down writing.

The peer of a transactional producer is an idempotent one that writes the same records to a topic
of its own at the same broker.  They take turns, a round of one and a round of the other; each round
gives a ratio, and the median of those is the figure.  A commit counts from the request to the
answer: then its outcome is durable.  The markers follow, and the next transaction waits for them,
so they are in the transactions a second.
"""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar

from bench.blast import RECORD_BYTES, check_end, create_topic
from bench.growth import part
from bench.processes import Served, broker, data_dir
from bench.report import aligned, with_quartiles
from bench.txn_producers import Confluent, Taken, Timed, Wire

ROUND_COUNT = 7
TRANSACTIONAL, IDEMPOTENT = "transactional", "idempotent"
BATCH_BYTES = 1_000_000
MAX_OVERHEAD_PERCENT = 10

Flush = Literal["os", "commit"]
FLUSHES: tuple[Flush, ...] = ("os", "commit")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCase:
    """Transactions one after the other."""

    client: type[Wire] | type[Confluent]
    record_count: int
    count: int
    """Transactions in a round."""
    flush: Flush = "commit"

    @property
    def title(self) -> str:
        records = "1 record" if self.record_count == 1 else f"{self.record_count:,} records"
        return f"{self.client.name}, {records}, flush={self.flush}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkCase:
    """Batches of 1 MB, several under way at a time."""

    batches_a_transaction: int
    batch_count: int
    """In a round."""
    flush: Flush
    depth: int = 4
    max_overhead_percent: float | None = None

    @property
    def title(self) -> str:
        return f"{self.batches_a_transaction} MB a transaction, flush={self.flush}"


COMMIT_CASES = [
    CommitCase(client=Wire, record_count=1, count=200),
    CommitCase(client=Wire, record_count=1_000, count=50),
    CommitCase(client=Wire, record_count=1, count=200, flush="os"),
    CommitCase(client=Wire, record_count=1_000, count=50, flush="os"),
    CommitCase(client=Confluent, record_count=1, count=100),
    CommitCase(client=Confluent, record_count=1_000, count=50),
    CommitCase(client=Confluent, record_count=1, count=100, flush="os"),
]

BULK_CASES = [
    BulkCase(batches_a_transaction=size, batch_count=32, flush=flush, max_overhead_percent=limit)
    for size, limit in ((16, MAX_OVERHEAD_PERCENT), (1, None))
    for flush in FLUSHES
]

COMMIT_HEADING: tuple[str, ...] = (
    "one after the other",
    "transactions",
    "commit, median",
    "99 %",
    "idempotent",
    "written, median",
    "share",
    "broker's CPU a transaction",
    "CPU of the idempotent one",
)
BULK_HEADING: tuple[str, ...] = (
    "1 MB batches, 4 under way",
    "transactional",
    "idempotent",
    "overhead",
    "of CPU time",
    "target",
    "",
)


def tables() -> list[str]:
    """Run everything; the method and both tables, line by line."""
    method = (
        f"{ROUND_COUNT} rounds in turns, medians, and in brackets the quartiles of the rounds; CPU "
        "time is that of the broker alone, which is the same one for both."
    )
    return [
        method,
        "",
        *part("commits", lambda: aligned([COMMIT_HEADING, *map(_commit_row, COMMIT_CASES)])),
        *part("batches", lambda: aligned([BULK_HEADING, *map(_bulk_row, BULK_CASES)])),
    ][:-1]


def _commit_row(case: CommitCase) -> tuple[str, ...]:
    ours: list[Taken] = []
    peers: list[Taken] = []
    with _served(case.flush) as server, _producers(server, case.client) as pair:
        for number in range(ROUND_COUNT + 1):  # the first one warms up
            for producer, taken in _in_turn(pair, (ours, peers), number):
                before_ns = server.cpu_ns
                found = producer.groups(case.count, case.record_count)
                found.broker_cpu_s = (server.cpu_ns - before_ns) / 1e9
                if number:
                    taken.append(found)
        group_count = (ROUND_COUNT + 1) * case.count
        record_count = group_count * case.record_count
        check_end(server.port, record_count + group_count, TRANSACTIONAL)
        check_end(server.port, record_count, IDEMPOTENT)
    waits_s = [wait_s for taken in ours for wait_s in taken.waits_s]
    percents = [p.wall_s / o.wall_s * 100 for o, p in zip(ours, peers, strict=True)]
    return (
        case.title,
        _rate(ours, case.count),
        _duration(statistics.median(waits_s)),
        _duration(statistics.quantiles(waits_s, n=100)[-1]),
        _rate(peers, case.count),
        _duration(statistics.median(wait_s for taken in peers for wait_s in taken.waits_s)),
        with_quartiles(percents, ".0f", " %", is_bold=True),
        *(_cpu(rounds, case.count) for rounds in (ours, peers)),
    )


def _bulk_row(case: BulkCase) -> tuple[str, ...]:
    ours: list[tuple[float, float]] = []
    peers: list[tuple[float, float]] = []
    with _served(case.flush) as server, _producers(server, Wire) as pair:
        for number in range(ROUND_COUNT + 1):
            for producer, taken in _in_turn(pair, (ours, peers), number):
                assert isinstance(producer, Wire)
                before_ns = server.cpu_ns
                wall_s = producer.bulk(
                    case.batch_count, BATCH_BYTES, case.depth, case.batches_a_transaction
                )
                cpu_s = (server.cpu_ns - before_ns) / 1e9
                if number:
                    taken.append((wall_s, cpu_s))
        record_count = (ROUND_COUNT + 1) * case.batch_count * BATCH_BYTES // RECORD_BYTES
        marker_count = (ROUND_COUNT + 1) * case.batch_count // case.batches_a_transaction
        check_end(server.port, record_count + marker_count, TRANSACTIONAL)
        check_end(server.port, record_count, IDEMPOTENT)
    overheads, cpu_overheads = (
        [(o[column] / p[column] - 1) * 100 for o, p in zip(ours, peers, strict=True)]
        for column in (0, 1)
    )
    megabytes = case.batch_count * BATCH_BYTES / 1e6
    speeds = [megabytes / statistics.median(r[0] for r in rounds) for rounds in (ours, peers)]
    limit = case.max_overhead_percent
    return (
        case.title,
        *(f"{speed:,.0f} MB/s" for speed in speeds),
        with_quartiles(overheads, "+.1f", " %", is_bold=True),
        with_quartiles(cpu_overheads, "+.1f", " %"),
        "" if limit is None else f"at most {limit:g} %",
        "" if limit is None else "met" if statistics.median(overheads) <= limit else "missed",
    )


@contextmanager
def _served(flush: Flush) -> Iterator[Served]:
    with data_dir() as folder, broker(folder, flush) as server:
        for topic in (TRANSACTIONAL, IDEMPOTENT):
            create_topic(server.port, 1, topic)
        yield server


@contextmanager
def _producers(
    server: Served, client: type[Wire] | type[Confluent]
) -> Iterator[tuple[Timed, Timed]]:
    """The two that take turns."""
    ours = client(server.port, TRANSACTIONAL, "bench")
    peer = client(server.port, IDEMPOTENT, None)
    yield ours, peer
    ours.close()
    peer.close()


def _in_turn(
    pair: tuple[Timed, Timed], rounds: tuple[list[T], list[T]], number: int
) -> list[tuple[Timed, list[T]]]:
    sides = list(zip(pair, rounds, strict=True))
    return sides if number % 2 else sides[::-1]


def _rate(rounds: list[Taken], count: int) -> str:
    return f"{count / statistics.median(taken.wall_s for taken in rounds):,.0f}/s"


def _cpu(rounds: list[Taken], count: int) -> str:
    return f"{statistics.median(taken.broker_cpu_s for taken in rounds) / count * 1e6:.0f} µs"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"
