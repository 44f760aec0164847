"""How fast Spark writes topics: read, SQL, write; and how long a micro-batch takes.

Exactly once beside at least once, ours and that of Spark's own connector, in turns, by the same
Spark in the same run: each round gives a ratio, and the median of those is the figure.

A micro-batch is measured by Spark itself, from trigger to trigger, on a query that has one
partition and always something to read.  One whose source and sink do nothing (`bench.idle`) shows
how much of it is Spark's own.
"""

import os
import tempfile
import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import ottla
from bench.harness import WrongAnswerError
from bench.processes import Served, broker, data_dir
from bench.report import aligned
from bench.spark import (
    COST_HEADING,
    ROUND_COUNT,
    SCALE,
    TASK_COUNT,
    Case,
    Rounds,
    Row,
    compared,
    cost_rows,
    fill,
    in_turns,
    session,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXACT: Final = "exactly-once"
LOOSE: Final = "at-least-once"
CONNECTOR: Final = "connector"
IDLE: Final = "idle"
CONNECTOR_RATIO: Final = 1.0
"""Exactly once, of its at least once."""
TARGET_MS: Final = 250
BATCH_ROWS: Final = 1_000
BATCH_COUNT: Final = int(os.environ.get("OTTLA_BENCH_BATCHES", "60"))
WARM_UP: Final = 10
PATIENCE_S: Final = 300
CASES: Final = (
    Case(100, 1, 1_000_000),
    Case(100, 6, 1_500_000),
    Case(1_000, 1, 300_000),
    Case(1_000, 6, 600_000),
)
STREAM: Final = Case(120, 1, (BATCH_COUNT + WARM_UP) * BATCH_ROWS)
_IDLE_OPTIONS: Final = {
    "rows": BATCH_ROWS,
    "recordBytes": STREAM.record_bytes,
    "batches": BATCH_COUNT + WARM_UP,
}
_TITLES: Final = {
    IDLE: "a source and a sink that do nothing",
    CONNECTOR: "Spark's connector, at least once",
}
TWO_PHASE: Final = {"transaction.two.phase.commit.enable": "true"}

_numbers = count(1)


class Latency(NamedTuple):
    """How long micro-batches took, in milliseconds."""

    durations_ms: list[float]

    def at(self, share: float) -> float:
        ordered = sorted(self.durations_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def tables() -> list[str]:
    """Run everything; all tables, line by line."""
    rows: list[Row] = [("read, SQL, write", "exactly once", "at least once", "ratio")]
    rivals: list[Row] = [
        ("read, SQL, write", "exactly once", "Spark's connector", "ratio", "target", "")
    ]
    costs: list[Row] = [COST_HEADING]
    waits: list[Row] = [("micro-batch of 1,000 rows, 1 partition", "p50", "p95", "target", "")]
    with (
        session() as (spark, missing),
        data_dir() as folder,
        broker(folder, "os", TWO_PHASE) as served,
    ):
        servers = f"127.0.0.1:{served.port}"
        for case in CASES:
            case = case._replace(record_count=int(case.record_count * SCALE))
            fill(servers, case)
            taken = race(spark, served, case, has_connector=not missing)
            costs += cost_rows(case, taken)
            rows.append(compared(case, taken, LOOSE, 0)[:4])
            if not missing:
                rivals.append(compared(case, taken, CONNECTOR, CONNECTOR_RATIO))
        fill(servers, STREAM)
        waits += [timed(spark, servers, word) for word in (IDLE, EXACT, LOOSE)]
        if not missing:
            waits.append(timed(spark, servers, CONNECTOR))
    return [
        f"Medians of {ROUND_COUNT} rounds in turns, `local[{TASK_COUNT}]`, and in brackets their "
        "quartiles; the broker with `flush=os`.  CPU time is that of Spark with its workers, and "
        "of the broker.",
        "",
        *aligned(rows),
        "",
        *([f"Without Spark's connector: {missing}."] if missing else aligned(rivals)),
        "",
        *aligned(costs),
        "",
        *aligned(waits),
    ]


def race(spark: "SparkSession", served: Served, case: Case, *, has_connector: bool) -> Rounds:
    """All deliveries in turns."""
    servers = f"127.0.0.1:{served.port}"
    runners = {"ottla": EXACT, LOOSE: LOOSE} | ({CONNECTOR: CONNECTOR} if has_connector else {})
    runs = {name: partial(copied, spark, servers, case, word) for name, word in runners.items()}
    for run in runs.values():
        run()  # to warm up
    return in_turns(spark, served, runs)


def copied(spark: "SparkSession", servers: str, case: Case, delivery: str) -> float:
    """Seconds to read a topic, change every row, and write it to another."""
    topic = f"written-{next(_numbers)}"
    with ottla.Admin(servers) as admin:
        admin.create_topic(topic, partitions=case.partition_count)
    frame = spark.read.format(_format(delivery)).options(**source(servers, case.topic)).load()
    begin = time.perf_counter()
    (
        frame.selectExpr("key", "upper(CAST(value AS STRING)) AS value")
        .write.format(_format(delivery))
        .mode("append")
        .options(**sink(servers, topic, delivery))
        .save()
    )
    seconds = time.perf_counter() - begin
    with ottla.Admin(servers) as admin:
        partitions = [ottla.TopicPartition(topic, n) for n in range(case.partition_count)]
        ends = admin.list_offsets(partitions, isolation_level="read_committed")
        if sum(end or 0 for end in ends.values()) < case.record_count:
            raise WrongAnswerError(f"{topic} has not {case.record_count} records")
        admin.delete_topic(topic)
    return seconds


def timed(spark: "SparkSession", servers: str, delivery: str) -> Row:
    """How long micro-batches take."""
    name = f"timed-{next(_numbers)}"
    with ottla.Admin(servers) as admin:
        admin.create_topic(name)
    kind = IDLE if delivery == IDLE else _format(delivery)
    given = _IDLE_OPTIONS if delivery == IDLE else source(servers, STREAM.topic)
    reader = spark.readStream.format(kind).options(**given)
    if delivery != IDLE:
        reader = reader.option("maxOffsetsPerTrigger", BATCH_ROWS)
        reader = reader.option("startingOffsets", "earliest")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-sink-") as folder:
        options = {} if delivery == IDLE else sink(servers, name, delivery)
        options["checkpointLocation"] = str(Path(folder) / "c")
        writer = reader.load().select("key", "value").writeStream.format(kind).options(**options)
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(PATIENCE_S):
            raise WrongAnswerError(f"{name} takes too long")
        progress = [dict(entry.durationMs) for entry in query.recentProgress]
    found = [entry["triggerExecution"] for entry in progress if "addBatch" in entry][WARM_UP:]
    latency = Latency([float(entry) for entry in found])
    half = latency.at(0.5)
    is_judged = delivery == EXACT
    return (
        _TITLES.get(delivery, delivery),
        f"**{half:.0f} ms**",
        f"{latency.at(0.95):.0f} ms",
        f"{TARGET_MS} ms" if is_judged else "",
        ("met" if half < TARGET_MS else "missed") if is_judged else "",
    )


def _format(delivery: str) -> str:
    return "kafka" if delivery == CONNECTOR else "ottla"


def source(servers: str, topic: str) -> dict[str, Any]:
    return {"kafka.bootstrap.servers": servers, "subscribe": topic}


def sink(servers: str, topic: str, delivery: str) -> dict[str, Any]:
    if delivery == CONNECTOR:
        return {"kafka.bootstrap.servers": servers, "topic": topic}
    return {
        "kafka.bootstrap.servers": servers,
        "topic": topic,
        "delivery": delivery,
        "transactionalIdPrefix": topic,
    }
