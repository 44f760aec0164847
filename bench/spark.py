"""How fast Spark reads topics: `format("ottla")` beside ready-made Arrow, and Spark's connector.

All are read by the same Spark in the same run, in turns, into `noop`, which takes every column of
every row.  Each round gives a ratio, and the median of those is the figure.  The records are
counted once before the first round.

Ready-made Arrow is the ceiling for any source in Python.  Between it and ours is one that receives
the same bytes from the same broker, drops them, and hands out ready-made Arrow: what it loses is
the price of the broker and the loopback, on processors that Spark could use as well.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import ottla
from bench.contest import values_of
from bench.harness import WrongAnswerError
from bench.processes import broker, data_dir
from bench.report import aligned
from tools.maven import UnavailableError
from tools.spark_connector import connector_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[1]
ROUND_COUNT = int(os.environ.get("OTTLA_BENCH_ROUNDS", "5"))
SCALE = float(os.environ.get("OTTLA_BENCH_SCALE", "1"))
"""Fewer records, for a quick look."""
TARGET_RATIO = 0.7
"""Of the ceiling."""
CONNECTOR_RATIO = 1.2
"""Of Spark's own connector."""
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
    beside: list[Row] = [("read every column", "ottla", "ready-made Arrow", "ratio", "target", "")]
    floors: list[Row] = [("read every column", "ottla", "received and dropped", "ratio", "its own")]
    rivals: list[Row] = [("read every column", "ottla", "Spark's connector", "ratio", "target", "")]
    with (
        session() as (spark, missing),
        data_dir() as folder,
        broker(folder, "os") as served,
    ):
        servers = f"127.0.0.1:{served.port}"
        for case in CASES:
            case = case._replace(record_count=int(case.record_count * SCALE))
            fill(servers, case)
            taken = race(spark, servers, case, has_connector=not missing)
            beside.append(compared(case, taken, "ceiling", TARGET_RATIO))
            floors.append(beside_floor(case, taken))
            if not missing:
                rivals.append(compared(case, taken, "connector", CONNECTOR_RATIO))
    return [
        f"Medians of {ROUND_COUNT} rounds, `local[{TASK_COUNT}]`; all have as many tasks.",
        "",
        *aligned(beside),
        "",
        "The same bytes, received by a plain socket and dropped for ready-made Arrow; `its own` is",
        "that beside ready-made Arrow alone, for which nothing is sent.",
        "",
        *aligned(floors),
        "",
        *([f"Without Spark's connector: {missing}."] if missing else aligned(rivals)),
    ]


def race(
    spark: "SparkSession", servers: str, case: Case, *, has_connector: bool
) -> dict[str, list[float]]:
    """All of them in turns; who -> seconds of each round."""
    runners = {
        "ottla": frame(spark, servers, case),
        "floor": received(spark, servers, case),
        "ceiling": prebuilt(spark, case),
    }
    if has_connector:
        runners["connector"] = frame(spark, servers, case, "kafka")
    for found in runners.values():
        if found.count() != case.record_count:
            raise WrongAnswerError(f"{case.title}: not {case.record_count} rows")
        drain(found)
    return in_turns({name: partial(drain, found) for name, found in runners.items()})


def in_turns(runners: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Let each run once a round, and another one begin each time; who -> seconds of each round."""
    taken: dict[str, list[float]] = {name: [] for name in runners}
    names = list(runners)
    for number in range(ROUND_COUNT):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            taken[name].append(runners[name]())
    return taken


def compared(case: Case, taken: Mapping[str, list[float]], other: str, target: float) -> Row:
    """Ours beside another; more than one is faster."""
    ratio = ratio_of(taken["ottla"], taken[other])
    return (
        case.title,
        rate(case, taken["ottla"]),
        rate(case, taken[other]),
        f"**{ratio:.2f}**",
        f"{target:g}",
        "met" if ratio >= target else "missed",
    )


def beside_floor(case: Case, taken: Mapping[str, list[float]]) -> Row:
    """Ours beside the source that drops what it receives, and that beside the ceiling."""
    return (
        case.title,
        rate(case, taken["ottla"]),
        rate(case, taken["floor"]),
        f"**{ratio_of(taken['ottla'], taken['floor']):.2f}**",
        f"{ratio_of(taken['floor'], taken['ceiling']):.2f}",
    )


def ratio_of(ours: list[float], theirs: list[float]) -> float:
    """How many times faster, in the median of the rounds."""
    return statistics.median(b / a for a, b in zip(ours, theirs, strict=True))


def frame(spark: "SparkSession", servers: str, case: Case, source: str = "ottla") -> "DataFrame":
    return (
        spark.read.format(source)
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


def received(spark: "SparkSession", servers: str, case: Case) -> "DataFrame":
    return (
        spark.read.format("received")
        .option("address", servers)
        .option("topic", case.topic)
        .option("recordBytes", case.record_bytes)
        .load()
    )


def drain(found: "DataFrame") -> float:
    """Seconds to read every column of every row."""
    begin = time.perf_counter()
    found.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


def rate(case: Case, taken: list[float]) -> str:
    return f"{case.record_count / statistics.median(taken) / 1_000:,.0f} krows/s"


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
def session() -> "Iterator[tuple[SparkSession, str]]":
    """A Spark whose workers find `bench`; and why it lacks its own connector, if it does."""
    from bench.idle import Idle
    from bench.prebuilt import Prebuilt
    from bench.received import Received
    from ottla.spark.session import session as ottla_session

    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    config, missing = {}, ""
    try:
        config["spark.jars"] = connector_jars()
    except UnavailableError as error:
        missing = str(error)
    with tempfile.TemporaryDirectory(prefix="ottla-bench-spark-") as folder:
        spark = ottla_session(
            "ottla bench",
            master=f"local[{TASK_COUNT}]",
            config=config,
            log_file=Path(folder) / "spark.log",
        )
        try:
            for source in (Prebuilt, Received, Idle):
                spark.dataSource.register(source)
            yield spark, missing
        finally:
            spark.stop()
