"""A Spark session that is ready to work: Java found, workers on this Python, quiet, small.

What the caller has is used as it is: a session that runs already, a `spark-submit` that started
this program, Spark Connect, the master of a cluster.  Only a session of our own on this machine
gets settings of ours, and what the caller sets wins over those, too.
"""

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ottla.errors import OttlaError
from ottla.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THIS_MACHINE: Final = "local[*]"
CONNECT_PREFIX: Final = "sc://"
MAX_SHUFFLE_PARTITIONS: Final = 8

QUICK_START: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""For a session that lives for a minute or two: Java compiles less, and is up in half the time.

A pipeline that runs for hours is faster without."""

_CHECKPOINT_FILES: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_THREADS: Final = re.compile(r"local\[(\d+)(?:,\d+)?\]")
_TAIL_LINES: Final = 5

_LOGGING: Final = """\
# Written by ottla.  Warnings and errors of Spark, in files that do not grow without end.
status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {path}
appender.file.filePattern = {path}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
# What it warns about on every machine, and nobody can do anything about.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.host.name = org.apache.spark.util.Utils
logger.host.level = error
"""


class SparkStartError(OttlaError):
    """Spark did not start; the message has what it said last."""


def session(
    name: str = "ottla",
    *,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    log_file: Path | None = None,
) -> "SparkSession":
    """The session that there is, else a new one.

    Args:
        name: What the application is called.
        master: Where Spark runs: `local[4]`, `spark://…`, `yarn`, or `sc://…` for Spark Connect.
            All cores of this machine, if it is None.
        config: Settings of Spark; they win over ours.
        log_file: Where Spark's own messages go, instead of this program's stderr.  Next to it, in
            `….out`, is what Java and the Python workers print.  On this machine only.

    Raises:
        JavaMissingError: There is no Java that Spark can use.
        SparkStartError: Spark did not start.
    """
    from pyspark.sql import SparkSession

    made = SparkSession.getActiveSession() or _built(
        SparkSession.builder.appName(name), master, config or {}, log_file
    )
    make_known(made)
    return made


def make_known(spark: object) -> None:
    """Let a session know the format, if it has not found it.

    Spark looks for formats in a process of its own, once.  If that process fails, for example
    because some other package of the environment cannot be imported, or `PYSPARK_DRIVER_PYTHON` is
    a notebook, Spark says so in its log, and has no format of Python at all.
    """
    from pyspark.sql import SparkSession

    from ottla.spark.datasource import OttlaDataSource

    # Connect has sessions of another kind, and a server that knows what it has.
    if isinstance(spark, SparkSession) and not _has_found(spark, OttlaDataSource.name()):
        spark.dataSource.register(OttlaDataSource)


def _has_found(spark: "SparkSession", name: str) -> bool:
    formats = spark._jsparkSession.sessionState().dataSourceManager()
    return bool(formats.dataSourceExists(name))


def _built(
    builder: "SparkSession.Builder",
    master: str | None,
    config: Mapping[str, str],
    log_file: Path | None,
) -> "SparkSession":
    """A new session, where the caller wants it."""
    if master is not None and master.startswith(CONNECT_PREFIX):
        return builder.remote(master).config(map=dict(config)).getOrCreate()
    if was_submitted(os.environ) and master is None:
        return builder.config(map=dict(config)).getOrCreate()
    prepare(os.environ)
    if master is not None and not master.startswith("local"):
        return builder.master(master).config(map=dict(config)).getOrCreate()
    return _on_this_machine(builder, master or THIS_MACHINE, config, log_file)


@contextmanager
def borrowed_session(
    given: "SparkSession | None" = None,
    *,
    name: str = "ottla",
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    log_file: Path | None = None,
) -> "Iterator[SparkSession]":
    """The session that is given or runs, and is left running; else one that ends with the block."""
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    there = given or SparkSession.getActiveSession()
    if there is not None:
        make_known(there)
        yield there
        return
    made = session(name, master=master, config=config, log_file=log_file)
    try:
        yield made
    finally:
        with suppress(Py4JError, ConnectionError):  # without Java there is nothing left to stop
            made.stop()


def was_submitted(environ: Mapping[str, str]) -> bool:
    """Whether `spark-submit` or a shell of Spark started this program, and decided everything."""
    return "PYSPARK_GATEWAY_PORT" in environ or "SPARK_REMOTE" in environ


def prepare(environ: "os._Environ[str] | dict[str, str]") -> None:
    """Let Spark find Java, and its workers this Python with the packages that are in it."""
    environ["JAVA_HOME"] = str(find_java(environ).home)
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def local_settings(master: str, cpu_count: int) -> dict[str, str]:
    """What suits a session on one machine.

    The number of shuffle partitions is written into the checkpoint of a query with state and
    stays there; two hundred, Spark's default, are for a cluster.
    """
    threads = _THREADS.fullmatch(master)
    count = int(threads[1]) if threads else cpu_count if master == THIS_MACHINE else 1
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(1, min(count, MAX_SHUFFLE_PARTITIONS))),
        # Without Hadoop's native library the default forks twenty processes for each batch.
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _on_this_machine(
    builder: "SparkSession.Builder", master: str, config: Mapping[str, str], log_file: Path | None
) -> "SparkSession":
    settings: dict[str, Any] = {**local_settings(master, os.cpu_count() or 1), **config}
    if log_file is not None:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        options = f"-Dlog4j2.configurationFile={logging_file(log_file).as_uri()}"
        given = settings.get("spark.driver.extraJavaOptions", "")
        settings["spark.driver.extraJavaOptions"] = f"{options} {given}".strip()
        _silence_python()
        with log_file.with_suffix(".out").open("wb") as out:
            _start_java({"spark.master": master, **settings}, out)
    return builder.master(master).config(map=settings).getOrCreate()


def _silence_python() -> None:
    """Keep pyspark from printing Java's stack to stderr for errors that it raises as well."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def logging_file(log_file: Path) -> Path:
    """How Spark is told where to write; it goes with the log, so that two never share one."""
    path = log_file.with_suffix(".log4j2.properties").absolute()
    path.write_text(_LOGGING.format(path=log_file.absolute()), "utf-8")
    return path


def _start_java(settings: Mapping[str, str], out: BinaryIO) -> None:
    """Start the JVM with its output in a file; a session finds it there.

    It gets a process group of its own: a signal for us, which lets a batch come to its end, must
    not end Java in the middle of it.  It ends with us in any case, when its input does.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return  # a JVM of an earlier session lives on, and keeps its output where it was
    launch: Callable[..., Any] = launch_gateway  # it has no types
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(settings.items()))
    try:
        gateway = launch(conf, popen_kwargs={"stdout": out, "stderr": out, "process_group": 0})
    except PySparkException:
        raise SparkStartError(f"Spark did not start: {_last_words(Path(out.name))}") from None
    SparkContext._ensure_initialized(gateway=gateway)


def java_pid() -> int | None:
    """The process of the JVM that this program has started, if it has."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    return None if process is None else int(process.pid)


def _last_words(path: Path) -> str:
    lines = [line.strip() for line in path.read_text("utf-8", "replace").splitlines()]
    return " / ".join([line for line in lines if line][-_TAIL_LINES:]) or "Java said nothing"
