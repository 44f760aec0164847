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

from bench.blast import check_end, create_topic
from bench.processes import Served, broker, data_dir
from bench.report import aligned
from bench.txn_producers import Confluent, Taken, Timed, Wire

ROUND_COUNT = 7
TRANSACTIONAL, IDEMPOTENT = "transactional", "idempotent"
BATCH_BYTES = 1_000_000
MAX_OVERHEAD = 0.10

Flush = Literal["os", "commit"]
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
    max_overhead: float | None = None

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
    BulkCase(batches_a_transaction=16, batch_count=32, flush="os", max_overhead=MAX_OVERHEAD),
    BulkCase(batches_a_transaction=16, batch_count=32, flush="commit", max_overhead=MAX_OVERHEAD),
    BulkCase(batches_a_transaction=1, batch_count=32, flush="os"),
    BulkCase(batches_a_transaction=1, batch_count=32, flush="commit"),
]

COMMIT_HEADING: tuple[str, ...] = (
    "one after the other",
    "transactions",
    "commit, median",
    "99 %",
    "idempotent",
    "written, median",
    "share",
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
    commits = aligned([COMMIT_HEADING, *map(_commit_row, COMMIT_CASES)])
    bulk = aligned([BULK_HEADING, *map(_bulk_row, BULK_CASES)])
    method = f"{ROUND_COUNT} rounds in turns, medians; CPU time is that of the broker alone."
    return [method, "", *commits, "", *bulk]


def _commit_row(case: CommitCase) -> tuple[str, ...]:
    ours: list[Taken] = []
    peers: list[Taken] = []
    with _served(case.flush) as server, _producers(server, case.client) as pair:
        for number in range(ROUND_COUNT + 1):  # the first one warms up
            for producer, taken in _in_turn(pair, (ours, peers), number):
                found = producer.groups(case.count, case.record_count)
                if number:
                    taken.append(found)
        group_count = (ROUND_COUNT + 1) * case.count
        record_count = group_count * case.record_count
        check_end(server.port, record_count + group_count, TRANSACTIONAL)
        check_end(server.port, record_count, IDEMPOTENT)
    waits_s = [wait_s for taken in ours for wait_s in taken.waits_s]
    share = statistics.median(p.wall_s / o.wall_s for o, p in zip(ours, peers, strict=True))
    return (
        case.title,
        _rate(ours, case.count),
        _duration(statistics.median(waits_s)),
        _duration(statistics.quantiles(waits_s, n=100)[-1]),
        _rate(peers, case.count),
        _duration(statistics.median(wait_s for taken in peers for wait_s in taken.waits_s)),
        f"**{share:.0%}**",
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
    overhead, cpu_overhead = (
        statistics.median(o[column] / p[column] for o, p in zip(ours, peers, strict=True)) - 1
        for column in (0, 1)
    )
    megabytes = case.batch_count * BATCH_BYTES / 1e6
    speeds = [megabytes / statistics.median(r[0] for r in rounds) for rounds in (ours, peers)]
    limit = case.max_overhead
    return (
        case.title,
        *(f"{speed:,.0f} MB/s" for speed in speeds),
        f"**{overhead:+.1%}**",
        f"{cpu_overhead:+.1%}",
        "" if limit is None else f"at most {limit:.0%}",
        "" if limit is None else "met" if overhead <= limit else "missed",
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


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"
