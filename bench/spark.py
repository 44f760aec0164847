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
from bench.processes import Served, broker, data_dir, tree_cpu_s
from bench.report import aligned, with_quartiles
from tools.maven import UnavailableError
from tools.spark_connector import connector_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[1]
ROUND_COUNT = int(os.environ.get("OTTLA_BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("OTTLA_BENCH_SCALE", "1"))
"""Fewer records, for a quick look."""
TARGET_RATIO = 0.7
"""Of the ceiling."""
CONNECTOR_RATIO = 1.2
"""Of Spark's own connector."""
TASK_COUNT = 2

Row = tuple[str, ...]


class Spent(NamedTuple):
    """What a round took."""

    wall_s: float
    spark_cpu_s: float
    """Of Java and of the workers in Python."""
    broker_cpu_s: float


Rounds = Mapping[str, list[Spent]]
"""Who -> what each round took."""


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
    costs: list[Row] = [COST_HEADING]
    with (
        session() as (spark, missing),
        data_dir() as folder,
        broker(folder, "os") as served,
    ):
        servers = f"127.0.0.1:{served.port}"
        for case in CASES:
            case = case._replace(record_count=int(case.record_count * SCALE))
            fill(servers, case)
            taken = race(spark, served, case, has_connector=not missing)
            costs += cost_rows(case, taken)
            beside.append(compared(case, taken, "ceiling", TARGET_RATIO))
            floors.append(beside_floor(case, taken))
            if not missing:
                rivals.append(compared(case, taken, "connector", CONNECTOR_RATIO))
    return [
        f"Medians of {ROUND_COUNT} rounds in turns, `local[{TASK_COUNT}]`, and in brackets their "
        "quartiles; all have as many tasks.  CPU time is that of Spark with its workers, and of "
        "the broker; memory is not told apart, for all are run by the same Spark.",
        "",
        *aligned(beside),
        "",
        "The same bytes, received by a plain socket and dropped for ready-made Arrow; `its own` is",
        "that beside ready-made Arrow alone, for which nothing is sent.",
        "",
        *aligned(floors),
        "",
        *([f"Without Spark's connector: {missing}."] if missing else aligned(rivals)),
        "",
        *aligned(costs),
    ]


COST_HEADING: Row = ("CPU, s a million rows", "who", "Spark", "broker", "both")
WHO = {
    "floor": "received and dropped",
    "ceiling": "ready-made Arrow",
    "connector": "Spark's connector",
    "at-least-once": "ottla, at least once",
}


def cost_rows(case: Case, taken: Rounds) -> Iterator[Row]:
    """What each of them costs, of processors: medians of the rounds."""
    for name, rounds in taken.items():
        shares = [
            [spent[column] / case.record_count * 1e6 for spent in rounds] for column in (1, 2)
        ]
        both = [spark + broker for spark, broker in zip(*shares, strict=True)]
        spark_s, broker_s = (f"{statistics.median(share):.2f}" for share in shares)
        yield case.title, WHO.get(name, name), spark_s, broker_s, with_quartiles(both, ".2f")


def race(spark: "SparkSession", served: Served, case: Case, *, has_connector: bool) -> Rounds:
    """All of them in turns."""
    servers = f"127.0.0.1:{served.port}"
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
    runs = {name: partial(drain, found) for name, found in runners.items()}
    return in_turns(spark, served, runs)


def in_turns(
    spark: "SparkSession", served: Served, runners: Mapping[str, Callable[[], float]]
) -> Rounds:
    """Let each run once a round, and another one begin each time; they say how long they took."""
    taken: dict[str, list[Spent]] = {name: [] for name in runners}
    names = list(runners)
    gateway = spark.sparkContext._gateway
    assert gateway is not None, "Spark runs in a Java of its own"
    java_pid = gateway.proc.pid
    for number in range(ROUND_COUNT):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            spark_before_s, broker_before_ns = tree_cpu_s(java_pid), served.cpu_ns
            wall_s = runners[name]()
            spark_s = tree_cpu_s(java_pid) - spark_before_s
            taken[name].append(Spent(wall_s, spark_s, (served.cpu_ns - broker_before_ns) / 1e9))
    return taken


def compared(case: Case, taken: Rounds, other: str, target: float) -> Row:
    """Ours beside another; more than one is faster."""
    ratios = ratios_of(taken["ottla"], taken[other])
    return (
        case.title,
        rate(case, taken["ottla"]),
        rate(case, taken[other]),
        with_quartiles(ratios, ".2f", is_bold=True),
        f"{target:g}",
        "met" if statistics.median(ratios) >= target else "missed",
    )


def beside_floor(case: Case, taken: Rounds) -> Row:
    """Ours beside the source that drops what it receives, and that beside the ceiling."""
    return (
        case.title,
        rate(case, taken["ottla"]),
        rate(case, taken["floor"]),
        with_quartiles(ratios_of(taken["ottla"], taken["floor"]), ".2f", is_bold=True),
        with_quartiles(ratios_of(taken["floor"], taken["ceiling"]), ".2f"),
    )


def ratios_of(ours: list[Spent], theirs: list[Spent]) -> list[float]:
    """How many times faster, in each round."""
    return [their.wall_s / our.wall_s for our, their in zip(ours, theirs, strict=True)]


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


def rate(case: Case, taken: list[Spent]) -> str:
    wall_s = statistics.median(spent.wall_s for spent in taken)
    return f"{case.record_count / wall_s / 1_000:,.0f} krows/s"


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
    from ottla.spark.java import JavaMissingError, find_java
    from ottla.spark.session import session as ottla_session

    try:
        find_java(os.environ)
    except JavaMissingError as error:
        raise UnavailableError(str(error)) from None
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
