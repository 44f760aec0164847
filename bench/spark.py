"""How fast Spark reads topics: `format("ottla")` beside a source that hands out ready-made Arrow.

Both are read by the same Spark in the same run, in turns, into `noop`, which takes every column of
every row.  Each round gives a ratio, and the median of those is the figure.  The records are
counted once before the first round.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import ottla
from bench.contest import values_of
from bench.harness import WrongAnswerError
from bench.processes import broker, data_dir
from bench.report import aligned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[1]
ROUND_COUNT = int(os.environ.get("OTTLA_BENCH_ROUNDS", "5"))
SCALE = float(os.environ.get("OTTLA_BENCH_SCALE", "1"))
"""Fewer records, for a quick look."""
TARGET_RATIO = 0.7
TASK_COUNT = 2

Row = tuple[str, ...]


class Case(NamedTuple):
    """A topic to read."""

    record_bytes: int
    partition_count: int
    record_count: int

    @property
    def topic(self) -> str:
        return f"read-{self.record_bytes}-{self.partition_count}"

    @property
    def title(self) -> str:
        plural = "" if self.partition_count == 1 else "s"
        return f"{self.record_bytes} B, {self.partition_count} partition{plural}"


CASES = (
    Case(100, 1, 2_000_000),
    Case(100, 6, 3_000_000),
    Case(1_000, 1, 600_000),
    Case(1_000, 6, 1_200_000),
)


def tables() -> list[str]:
    """Run everything; all tables, line by line."""
    heading = ("read every column", "ottla", "ready-made Arrow", "ratio", "target", "")
    rows: list[Row] = [heading]
    with session() as spark, data_dir() as folder, broker(folder, "os") as served:
        servers = f"127.0.0.1:{served.port}"
        for case in CASES:
            case = case._replace(record_count=int(case.record_count * SCALE))
            fill(servers, case)
            rows.append(race(spark, servers, case))
    return [
        f"Medians of {ROUND_COUNT} rounds, `local[{TASK_COUNT}]`; the ceiling has as many tasks.",
        "",
        *aligned(rows),
    ]


def race(spark: "SparkSession", servers: str, case: Case) -> Row:
    """Both in turns."""
    ours, ceiling = frame(spark, servers, case), prebuilt(spark, case)
    for found in (ours, ceiling):
        if found.count() != case.record_count:
            raise WrongAnswerError(f"{case.title}: not {case.record_count} rows")
        drain(found)
    taken: list[tuple[float, float]] = []
    for number in range(ROUND_COUNT):
        order: list[Callable[[], float]] = [lambda: drain(ours), lambda: drain(ceiling)]
        if number % 2:
            second, first = order[1](), order[0]()
        else:
            first, second = order[0](), order[1]()
        taken.append((first, second))
    ratio = statistics.median(second / first for first, second in taken)
    return (
        case.title,
        rate(case, statistics.median(first for first, _ in taken)),
        rate(case, statistics.median(second for _, second in taken)),
        f"**{ratio:.2f}**",
        f"{TARGET_RATIO:g}",
        "met" if ratio >= TARGET_RATIO else "missed",
    )


def frame(spark: "SparkSession", servers: str, case: Case) -> "DataFrame":
    return (
        spark.read.format("ottla")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", case.topic)
        .load()
    )


def prebuilt(spark: "SparkSession", case: Case) -> "DataFrame":
    return (
        spark.read.format("prebuilt")
        .option("rows", case.record_count)
        .option("tasks", case.partition_count)
        .option("recordBytes", case.record_bytes)
        .load()
    )


def drain(found: "DataFrame") -> float:
    """Seconds to read every column of every row."""
    begin = time.perf_counter()
    found.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


def rate(case: Case, seconds: float) -> str:
    return f"{case.record_count / seconds / 1_000:,.0f} krows/s"


def fill(servers: str, case: Case) -> None:
    """Write the records, the same number to each partition."""
    values = values_of(case.record_bytes)
    with ottla.Admin(servers) as admin:
        admin.create_topic(case.topic, partitions=case.partition_count)
    share = case.record_count // case.partition_count
    with ottla.Producer(servers) as producer:
        for partition in range(case.partition_count):
            for number in range(share):
                producer.send(case.topic, values[number % len(values)], partition=partition)


@contextmanager
def session() -> "Iterator[SparkSession]":
    """A Spark of our own, whose workers find `bench`."""
    from bench.prebuilt import Prebuilt
    from ottla.spark.session import session as ottla_session

    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="ottla-bench-spark-") as folder:
        spark = ottla_session(
            "ottla bench", master=f"local[{TASK_COUNT}]", log_file=Path(folder) / "spark.log"
        )
        try:
            spark.dataSource.register(Prebuilt)
            yield spark
        finally:
            spark.stop()
