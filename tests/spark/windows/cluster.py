"""A Spark cluster of two hosts, and on it the accidents that need one.

    python -m tests.spark.windows.cluster SERVERS FOLDER

Master and workers live in the JVM of the driver, under two addresses of this machine; each worker
starts an executor, a JVM of its own.  Speculation is on.  FOLDER has the checkpoints, and `events`,
what Spark wrote down of its stages and tasks.  When a query is over, a line of JSON says how it
ended, whether its accident happened, and which transactions it has left open.
"""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark import SparkContext
from pyspark.errors import PySparkException

from ottla.spark.session import QUICK_START, _start_java, logging_file, prepare
from ottla.spark.sink.faults import FOLDER_VARIABLE, REACHED, RESUME
from tests.spark.sink_world import MAX_STARTS, World, finish, order, was_too_slow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOSTS: Final = ("127.0.0.1", "127.0.0.2")
"""A copy of a slow task is started on another host only."""
EVENTS: Final = "events"
WARM_UP: Final = "warm-up"
W10: Final = "w10"
W12: Final = "w12"
TASK_COUNT: Final = 3
POINT: Final = "task1.among"
MEMORY_MB: Final = 512


def main() -> None:
    """Run one query after the other."""
    servers, folder = sys.argv[1:]
    world = World(servers, Path(folder))
    spark = cluster_session(world.folder)
    world.run(spark, WARM_UP)
    run(world, spark, W10, "pause")
    resume(W10)
    # Only when all tasks of a stage are done may a copy be made of one: a copy of the task that
    # goes down with its executor could otherwise have what it needs, and save the stage.
    spark.sparkContext._jsc.sc().conf().set("spark.speculation.quantile", "1")
    run(world, spark, W12, "kill-driver")
    spark.stop()


def run(world: World, spark: "SparkSession", name: str, accident: str) -> None:
    """A query in whose second task something happens; say how it ended."""
    trouble = ""
    for _ in range(MAX_STARTS):
        reached = order(POINT, name, accident)
        try:
            finish(world.copy(spark, name, shape=shuffled if name == W12 else as_it_is))
        except PySparkException as error:
            trouble = str(error)
            if was_too_slow(error):
                continue
        else:
            trouble = ""
        break
    told = {
        "name": name,
        "trouble": trouble,
        "happened": reached.exists(),
        "open": [entry.transactional_id for entry in world.open_transactions()],
    }
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def as_it_is(frame: "DataFrame") -> "DataFrame":
    return frame


def shuffled(frame: "DataFrame") -> "DataFrame":
    """Tasks that write read what tasks of an earlier stage have left on their executors."""
    return frame.repartition(TASK_COUNT, "value")


def resume(name: str) -> None:
    folder = Path(os.environ[FOLDER_VARIABLE])
    for reached in folder.glob(f"*@{name}{REACHED}"):
        reached.with_name(reached.name.removesuffix(REACHED) + RESUME).touch()


def cluster_session(folder: Path) -> "SparkSession":
    """A session on a cluster of its own, whose executors have one core each."""
    from pyspark.sql import SparkSession

    prepare(os.environ)
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)  # executors are started from it
    logs = f"-Dlog4j2.configurationFile={logging_file(folder / 'spark.log').as_uri()}"
    java = f"{logs} {QUICK_START['spark.driver.extraJavaOptions']}"
    with (folder / "spark.out").open("wb") as out:
        _start_java({"spark.driver.memory": "768m", "spark.driver.extraJavaOptions": java}, out)
    (folder / EVENTS).mkdir()
    settings: dict[str, Any] = {
        "spark.cores.max": str(len(HOSTS)),
        "spark.driver.bindAddress": HOSTS[0],
        "spark.driver.host": HOSTS[0],
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / EVENTS).as_uri(),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.executor.extraJavaOptions": java,
        "spark.executor.memory": f"{MEMORY_MB}m",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
        "spark.scheduler.minRegisteredResourcesRatio": "1",  # no task before both are there
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.appName("windows").master(started_master(folder))
    return builder.config(map=settings).getOrCreate()


def started_master(folder: Path) -> str:
    """Start master and workers in the JVM that runs; where the master is to be found."""
    gateway: Any = SparkContext._gateway
    deploy, option = gateway.jvm.org.apache.spark.deploy, gateway.jvm.scala.Option
    conf = gateway.jvm.org.apache.spark.SparkConf(False)
    master = deploy.master.Master.startRpcEnvAndEndpoint(HOSTS[0], 0, 0, conf)
    url = f"spark://{HOSTS[0]}:{master._1().address().port()}"
    masters = gateway.new_array(gateway.jvm.java.lang.String, 1)
    masters[0] = url
    start = deploy.worker.Worker.startRpcEnvAndEndpoint
    for number, host in enumerate(HOSTS):
        work = str(folder / f"worker-{number}")
        start(
            host, 0, 0, 1, 2 * MEMORY_MB, masters, work, option.apply(number), conf, option.empty()
        )
    return url


if __name__ == "__main__":
    main()
