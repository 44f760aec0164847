"""How fast Spark writes topics: read, SQL, write; and how long a micro-batch takes.

Exactly once beside at least once, in turns, by the same Spark in the same run: each round gives a
ratio, and the median of those is the figure.  A micro-batch is measured by Spark itself, from
trigger to trigger, on a query that has one partition and always something to read.
"""

import os
import statistics
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import ottla
from bench.harness import WrongAnswerError
from bench.processes import broker, data_dir
from bench.report import aligned
from bench.spark import ROUND_COUNT, SCALE, TASK_COUNT, Case, Row, fill, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    waits: list[Row] = [("micro-batch of 1,000 rows, 1 partition", "p50", "p95", "target", "")]
    with session() as spark, data_dir() as folder, broker(folder, "os", TWO_PHASE) as served:
        servers = f"127.0.0.1:{served.port}"
        for case in CASES:
            case = case._replace(record_count=int(case.record_count * SCALE))
            fill(servers, case)
            rows.append(race(spark, servers, case))
        fill(servers, STREAM)
        waits += [timed(spark, servers, word) for word in ("exactly-once", "at-least-once")]
    return [
        f"Medians of {ROUND_COUNT} rounds, `local[{TASK_COUNT}]`; the broker with `flush=os`.",
        "",
        *aligned(rows),
        "",
        *aligned(waits),
    ]


def race(spark: "SparkSession", servers: str, case: Case) -> Row:
    """Both deliveries in turns."""
    taken: dict[str, list[float]] = {"exactly-once": [], "at-least-once": []}
    for number in range(ROUND_COUNT + 1):
        for delivery in sorted(taken, reverse=bool(number % 2)):
            seconds = copied(spark, servers, case, delivery)
            if number:  # the first is for warming up
                taken[delivery].append(seconds)
    exact, loose = taken["exactly-once"], taken["at-least-once"]
    ratio = statistics.median(b / a for a, b in zip(exact, loose, strict=True))
    return (
        case.title,
        f"{case.record_count / statistics.median(exact) / 1_000:,.0f} krows/s",
        f"{case.record_count / statistics.median(loose) / 1_000:,.0f} krows/s",
        f"**{ratio:.2f}**",
    )


def copied(spark: "SparkSession", servers: str, case: Case, delivery: str) -> float:
    """Seconds to read a topic, change every row, and write it to another."""
    topic = f"written-{next(_numbers)}"
    with ottla.Admin(servers) as admin:
        admin.create_topic(topic, partitions=case.partition_count)
    frame = spark.read.format("ottla").options(**source(servers, case.topic)).load()
    begin = time.perf_counter()
    (
        frame.selectExpr("key", "upper(CAST(value AS STRING)) AS value")
        .write.format("ottla")
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
    reader = spark.readStream.format("ottla").options(**source(servers, STREAM.topic))
    reader = reader.option("maxOffsetsPerTrigger", BATCH_ROWS)
    frame = reader.option("startingOffsets", "earliest").load()
    with tempfile.TemporaryDirectory(prefix="ottla-bench-sink-") as folder:
        options = sink(servers, name, delivery) | {"checkpointLocation": str(Path(folder) / "c")}
        writer = frame.select("key", "value").writeStream.format("ottla").options(**options)
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(PATIENCE_S):
            raise WrongAnswerError(f"{name} takes too long")
        progress = [dict(entry.durationMs) for entry in query.recentProgress]
    found = [entry["triggerExecution"] for entry in progress if "addBatch" in entry][WARM_UP:]
    latency = Latency([float(entry) for entry in found])
    half = latency.at(0.5)
    is_judged = delivery == "exactly-once"
    return (
        delivery,
        f"**{half:.0f} ms**",
        f"{latency.at(0.95):.0f} ms",
        f"{TARGET_MS} ms" if is_judged else "",
        ("met" if half < TARGET_MS else "missed") if is_judged else "",
    )


def source(servers: str, topic: str) -> dict[str, Any]:
    return {"kafka.bootstrap.servers": servers, "subscribe": topic}


def sink(servers: str, topic: str, delivery: str) -> dict[str, Any]:
    return {
        "kafka.bootstrap.servers": servers,
        "topic": topic,
        "delivery": delivery,
        "transactionalIdPrefix": topic,
    }
