"""Our clients beside others: how fast they write and read, how long one record takes to get there.

All of them work with the same broker in the same run, in turns: a round of each, then the next
round, in the other direction.  Each round gives a ratio, and the median of those is the figure.
Whoever is fast gets more records, so that nobody's round is over in no time.  How everybody is set
up is said in `bench.writers`, `bench.readers` and `bench.round_trips`.

Before a round of writing, the memory that its records take in the broker's files is made ready, the
same for everybody; see `warm_memory`.

Every record is looked for afterwards: a topic ends where it has to, its last record is the one that
was written last, and what is read has the bytes that were written.
"""

import statistics
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

from bench.blast import WrongAnswerError, ask, check_end, create_topic, fetch_request
from bench.contest import VALUE_COUNT, Contestant, Taken, values_of, why_missing
from bench.growth import part
from bench.processes import (
    Served,
    broker,
    contestant,
    data_dir,
    import_s,
    peak_bytes,
    round_of,
    warm_memory,
)
from bench.readers import (
    AiokafkaGetmany,
    ConfluentConsume,
    KafkaPythonPoll,
    OttlaBatches,
    OttlaIteration,
    OttlaPollArrow,
)
from bench.report import aligned, with_quartiles
from bench.round_trips import (
    AiokafkaSendAndWait,
    AiokafkaSendToGetone,
    ConfluentProduceAndFlush,
    ConfluentProduceToPoll,
    OttlaAsyncSend,
    OttlaAsyncSendToPoll,
    OttlaSendAndWait,
    OttlaSendToPoll,
)
from bench.writers import (
    AiokafkaSend,
    ConfluentProduce,
    ConfluentProduceBatch,
    KafkaPythonSend,
    OttlaAsyncEnqueue,
    OttlaSend,
    OttlaSendArrow,
    OttlaSendMany,
)
from ottla.records.batch import Batch
from ottla.wire.registry import ApiKey

ROUND_COUNT = 11
SMALL_BYTES, LARGE_BYTES = 100, 1_000
TRIP_COUNT = 200
"""Round trips in a round."""
RECORD_OVERHEAD_BYTES = 20
"""What a record takes in a file beside its value, at the most."""
READ_TOPIC = "read"
SPARE_COUNT = 200_000
"""Records beyond those that are timed: what a reader has in hand when its clock begins."""
FETCH_VERSION = 12
IMPORT_COUNT = 9
MAX_IMPORT_S = 0.080

Kind = type[Contestant]
Rounds = dict[Kind, list[Taken]]
Row = tuple[str, ...]

WRITES: dict[Kind, tuple[int, int]] = {
    OttlaSend: (200_000, 100_000),
    OttlaSendMany: (500_000, 100_000),
    OttlaSendArrow: (2_000_000, 200_000),
    OttlaAsyncEnqueue: (50_000, 50_000),
    ConfluentProduce: (300_000, 100_000),
    ConfluentProduceBatch: (300_000, 100_000),
    KafkaPythonSend: (20_000, 20_000),
    AiokafkaSend: (50_000, 50_000),
}
"""Who writes, and how many records a round: small ones, large ones."""

READS: dict[Kind, tuple[int, int]] = {
    OttlaIteration: (300_000, 100_000),
    OttlaBatches: (500_000, 100_000),
    OttlaPollArrow: (1_500_000, 150_000),
    ConfluentConsume: (500_000, 100_000),
    KafkaPythonPoll: (30_000, 20_000),
    AiokafkaGetmany: (150_000, 50_000),
}

ACKNOWLEDGED: tuple[Kind, ...] = (
    OttlaSendAndWait,
    OttlaAsyncSend,
    ConfluentProduceAndFlush,
    AiokafkaSendAndWait,
)
HANDED_OVER: tuple[Kind, ...] = (
    OttlaSendToPoll,
    OttlaAsyncSendToPoll,
    ConfluentProduceToPoll,
    AiokafkaSendToGetone,
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many times faster ours shall be, in small records a second."""

    ours: Kind
    peer: Kind
    target_ratio: float | None = None


WRITE_COMPARISONS = (
    Comparison(OttlaSend, ConfluentProduce, 0.7),
    Comparison(OttlaSend, AiokafkaSend, 3),
    Comparison(OttlaSend, KafkaPythonSend),
    Comparison(OttlaSendMany, ConfluentProduceBatch, 1.5),
    Comparison(OttlaSendMany, ConfluentProduce),
    Comparison(OttlaSendArrow, ConfluentProduce, 8),
    Comparison(OttlaAsyncEnqueue, AiokafkaSend),
)
READ_COMPARISONS = (
    Comparison(OttlaIteration, ConfluentConsume),
    Comparison(OttlaIteration, AiokafkaGetmany),
    Comparison(OttlaIteration, KafkaPythonPoll),
    Comparison(OttlaBatches, ConfluentConsume, 1.5),
    Comparison(OttlaPollArrow, ConfluentConsume, 8),
)
TRIP_COMPARISONS = (
    Comparison(OttlaSendAndWait, AiokafkaSendAndWait),
    Comparison(OttlaAsyncSend, AiokafkaSendAndWait),
    Comparison(OttlaSendToPoll, AiokafkaSendToGetone),
    Comparison(OttlaAsyncSendToPoll, AiokafkaSendToGetone),
)


def tables() -> list[str]:
    """Run everything; all tables, line by line."""
    return [
        f"{ROUND_COUNT} rounds in turns, medians, and in brackets the quartiles of the rounds; the "
        "client's CPU time is that of its process, and its memory the most that it had.  The "
        "broker is the same one for all.",
        "",
        *_missing_lines(),
        *part("writing", lambda: _speeds("writing", WRITES, WRITE_COMPARISONS, writing)),
        *part("reading", lambda: _speeds("reading", READS, READ_COMPARISONS, reading)),
        *part("one record", _trips),
        *part("imports", lambda: aligned([("import", "time", "target", ""), *_import_rows()])),
    ][:-1]


def _trips() -> list[str]:
    return aligned([TRIP_HEADING, *_trip_rows(ACKNOWLEDGED), *_trip_rows(HANDED_OVER)])


TRIP_HEADING: Row = ("one record after the other", "median", "99 %", "client's CPU", "target", "")


def _missing_lines() -> list[str]:
    """Who does not take part, and why."""
    reasons = {kind.title: why_missing(kind) for kind in (*WRITES, *READS, *ACKNOWLEDGED)}
    missing = [f"Without {title}: {reason}." for title, reason in reasons.items() if reason]
    return [line for each in missing for line in (each, "")]


# Speed


def _speeds(
    what: str,
    counts: dict[Kind, tuple[int, int]],
    comparisons: tuple[Comparison, ...],
    measure: Callable[[dict[Kind, int], int], Rounds],
) -> list[str]:
    speeds: list[Row] = [
        (
            what,
            "record",
            "records a second",
            "client's CPU a record",
            "broker's CPU a record",
            "client's memory",
        )
    ]
    ratios: list[Row] = [
        (f"{what}: ours", "peer", "record", "times faster", "times less CPU", "target", "")
    ]
    for column, record_bytes in enumerate((SMALL_BYTES, LARGE_BYTES)):
        there = {kind: pair[column] for kind, pair in counts.items() if not why_missing(kind)}
        rounds = measure(there, record_bytes)
        speeds += [_speed_row(kind, record_bytes, taken) for kind, taken in rounds.items()]
        ratios += [
            _ratio_row(each, rounds, record_bytes)
            for each in comparisons
            if {each.ours, each.peer} <= set(rounds)
        ]
    return [*aligned(speeds), "", *aligned(ratios)]


def _speed_row(kind: Kind, record_bytes: int, taken: list[Taken]) -> Row:
    broker_cpu_us = statistics.median(t.broker_cpu_s / t.count for t in taken) * 1e6
    return (
        kind.title,
        f"{record_bytes:,} B",
        with_quartiles([t.count / t.wall_s for t in taken], ",.0f"),
        _cpu(taken),
        f"{broker_cpu_us:.2f} µs",
        f"{max(t.peak_bytes for t in taken) / 1e6:.0f} MB",
    )


def _ratio_row(comparison: Comparison, rounds: Rounds, record_bytes: int) -> Row:
    pairs = list(zip(rounds[comparison.ours], rounds[comparison.peer], strict=True))
    faster = [(o.count / o.wall_s) / (p.count / p.wall_s) for o, p in pairs]
    thriftier = [(p.cpu_s / p.count) / (o.cpu_s / o.count) for o, p in pairs]
    target = comparison.target_ratio if record_bytes == SMALL_BYTES else None
    return (
        comparison.ours.title,
        comparison.peer.title,
        f"{record_bytes:,} B",
        with_quartiles(faster, ".2f", is_bold=True),
        f"{statistics.median(thriftier):.2f}",
        "" if target is None else f"{target:g}",
        _verdict(None if target is None else statistics.median(faster) >= target),
    )


def writing(counts: dict[Kind, int], record_bytes: int) -> Rounds:
    """Everybody writes to a topic of its own."""
    stored_bytes = record_bytes + RECORD_OVERHEAD_BYTES
    with data_dir() as folder, broker(folder, "os") as server:
        for kind in counts:
            create_topic(server.port, 1, kind.__name__)
        rounds = _turns(
            server,
            counts,
            record_bytes,
            lambda kind: kind.__name__,
            before=lambda count: warm_memory(folder, count * stored_bytes),
        )
        for kind, count in counts.items():
            _check_written(server, kind.__name__, (ROUND_COUNT + 1) * count, record_bytes)
    return rounds


def reading(counts: dict[Kind, int], record_bytes: int) -> Rounds:
    """Everybody reads the same topic from its beginning."""
    with data_dir() as folder, broker(folder, "os") as server:
        create_topic(server.port, 1, READ_TOPIC)
        written_count = max(counts.values()) + SPARE_COUNT
        with contestant("OttlaSendMany", server.port, READ_TOPIC, record_bytes) as writer:
            round_of(writer, written_count)
        _check_written(server, READ_TOPIC, written_count, record_bytes)
        return _turns(server, counts, record_bytes, lambda _: READ_TOPIC)


def _check_written(server: Served, topic: str, record_count: int, record_bytes: int) -> None:
    """The topic has so many records, and the last one is what was written last."""
    check_end(server.port, record_count, topic)
    request = fetch_request(record_count - 1, 1, FETCH_VERSION, topic)
    answer, _ = ask(server.port, request, ApiKey.FETCH, FETCH_VERSION)
    *_, last = Batch.parse(bytes(answer.responses[0].partitions[0].records)).records()
    expected = values_of(record_bytes)[(record_count - 1) % VALUE_COUNT]
    offset, _, _, value, _ = last
    if (offset, value) != (record_count - 1, expected):
        raise WrongAnswerError(f"{topic} ends with {value!r} at {offset}")


# Turns


def _turns(
    server: Served,
    counts: dict[Kind, int],
    record_bytes: int,
    topic_of: Callable[[Kind], str],
    before: Callable[[int], object] = lambda count: None,
) -> Rounds:
    """Rounds of everybody, in turns; one before them warms up, and is not counted.

    `before` is called with the count of records before each of them.
    """
    rounds: Rounds = {kind: [] for kind in counts}
    with _all_started(server, counts, record_bytes, topic_of) as processes:
        for number in range(ROUND_COUNT + 1):
            for kind in counts if number % 2 else reversed(counts):
                before(counts[kind])
                before_ns = server.cpu_ns
                taken = round_of(processes[kind], counts[kind])
                taken.broker_cpu_s = (server.cpu_ns - before_ns) / 1e9
                taken.peak_bytes = peak_bytes(processes[kind].pid)
                if number:
                    rounds[kind].append(taken)
    return rounds


@contextmanager
def _all_started(
    server: Served, kinds: dict[Kind, int], record_bytes: int, topic_of: Callable[[Kind], str]
) -> "Iterator[dict[Kind, subprocess.Popen[str]]]":
    with ExitStack() as stack:
        yield {
            kind: stack.enter_context(
                contestant(kind.__name__, server.port, topic_of(kind), record_bytes)
            )
            for kind in kinds
        }


# One record


def round_trips(kinds: tuple[Kind, ...]) -> Rounds:
    """One record after the other, each contestant in a topic of its own."""
    counts = dict.fromkeys(kinds, TRIP_COUNT)
    with data_dir() as folder, broker(folder, "os") as server:
        for kind in kinds:
            create_topic(server.port, 1, kind.__name__)
        rounds = _turns(server, counts, SMALL_BYTES, lambda kind: kind.__name__)
        for kind in kinds:
            check_end(server.port, (ROUND_COUNT + 1) * TRIP_COUNT, kind.__name__)
    return rounds


def _trip_rows(kinds: tuple[Kind, ...]) -> list[Row]:
    kinds = tuple(kind for kind in kinds if not why_missing(kind))
    rounds = round_trips(kinds)
    return [_trip_row(kind, rounds) for kind in kinds]


def _trip_row(kind: Kind, rounds: Rounds) -> Row:
    waits_s = [wait_s for taken in rounds[kind] for wait_s in taken.waits_s]
    peers = [each.peer for each in TRIP_COMPARISONS if each.ours is kind and each.peer in rounds]
    target, verdict = "", ""
    for peer in peers:
        shares = [
            statistics.median(ours.waits_s) / statistics.median(theirs.waits_s)
            for ours, theirs in zip(rounds[kind], rounds[peer], strict=True)
        ]
        target = f"median at most {peer.title}'s"
        verdict = (
            f"{_verdict(statistics.median(shares) <= 1)}, {with_quartiles(shares, '.2f')} of it"
        )
    return (
        kind.title,
        f"**{statistics.median(waits_s) * 1e3:.3f} ms**",
        f"{statistics.quantiles(waits_s, n=100)[-1] * 1e3:.2f} ms",
        _cpu(rounds[kind]),
        target,
        verdict,
    )


# Imports

IMPORTS = (
    ("`import ottla`", "import ottla", MAX_IMPORT_S),
    ("`import ottla`, `ottla.Producer`", "import ottla; ottla.Producer", MAX_IMPORT_S),
    ("`import ottla`, `ottla.Consumer`", "import ottla; ottla.Consumer", MAX_IMPORT_S),
    ("`import asyncio`", "import asyncio", None),
    ("`import confluent_kafka`", "import confluent_kafka", None),
    ("`import aiokafka`", "import aiokafka", None),
    ("`import kafka`", "import kafka", None),
)


def _import_rows() -> list[Row]:
    """In Pythons of their own, whose modules are compiled already; without the start of Python."""
    there = [each for each in IMPORTS if find_spec(each[1].split()[1].rstrip(";"))]
    times_s: dict[str, list[float]] = {title: [] for title, _, _ in there}
    for number in range(IMPORT_COUNT + 1):
        for title, statement, _ in there:
            taken_s = import_s(statement)
            if number:  # the first one compiles
                times_s[title].append(taken_s)
    return [
        (
            title,
            with_quartiles([s * 1e3 for s in times_s[title]], ".1f", " ms"),
            "" if limit_s is None else f"{limit_s * 1e3:g} ms",
            _verdict(None if limit_s is None else statistics.median(times_s[title]) <= limit_s),
        )
        for title, _, limit_s in there
    ]


# Words


def _cpu(rounds: list[Taken]) -> str:
    return f"{statistics.median(taken.cpu_s / taken.count for taken in rounds) * 1e6:.2f} µs"


def _verdict(is_met: bool | None) -> str:
    return "" if is_met is None else "met" if is_met else "missed"
