"""A driver program that copies topics, several queries at a time: what the tests kill.

    python -m tests.spark.windows.program SERVERS FOLDER COUNT NAME...

Each name is a query from topic `<name>-in` to topic `<name>-out`; up to COUNT run at a time.  When
one is over, a line of JSON says how it ended.  FOLDER has the checkpoints.  A query in whose name
there is `idle` does not end, when it is first started: it waits for more.
"""

import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from ottla.spark.session import QUICK_START, session
from ottla.spark.sink.faults import FOLDER_VARIABLE, REACHED
from tests.spark.sink_world import MAX_STARTS, PATIENCE_S, World, wait_until, was_too_slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROWS_PER_BATCH = 6


def main() -> None:
    """Run the queries until all of them are over."""
    servers, folder, count, *names = sys.argv[1:]
    world = World(servers, Path(folder))
    spark = session(
        "windows",
        master="local[4,3]",  # of the queries that stop, at most one does so in a task
        config={
            **QUICK_START,
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
        },
        log_file=Path(folder) / f"{names[0]}.log",
    )
    left = list(names)
    starts_left = dict.fromkeys(names, MAX_STARTS)
    running: dict[str, StreamingQuery] = {}
    while left or running:
        while left and len(running) < int(count):
            name = left.pop(0)
            running[name] = started(world, spark, name)
            starts_left[name] -= 1
        name, query = next(iter(running.items()))
        del running[name]
        trouble = ended(query)
        if trouble is not None and was_too_slow(trouble) and starts_left[name]:
            left.insert(0, name)  # in a later batch, too, a process may be
        else:
            tell(name, "" if trouble is None else str(trouble))
    spark.stop()


def started(world: World, spark: "SparkSession", name: str) -> "StreamingQuery":
    """Begin a query, and wait until it works: so one after the other starts its processes."""
    for _ in range(MAX_STARTS):
        begun_s = time.time()
        query = world.copy(
            spark,
            name,
            source={"maxOffsetsPerTrigger": 2 if "one-phase" in name else ROWS_PER_BATCH},
            ends="idle" not in name or world.checkpoint(name).exists(),
        )
        wait_until(partial(is_at_work, name, query, begun_s))
        error = query.exception()
        if error is None or not was_too_slow(error):
            break
    return query


def is_at_work(name: str, query: "StreamingQuery", begun_s: float) -> bool:
    """Whether it is over, has finished a batch, or stands where it was told to stop."""
    reached = Path(os.environ[FOLDER_VARIABLE]).glob(f"*@{name}{REACHED}")
    has_stopped = any(path.stat().st_ctime > begun_s for path in reached)
    return not query.isActive or query.lastProgress is not None or has_stopped


def ended(query: "StreamingQuery") -> PySparkException | None:
    """Wait for the end of a query; why it failed, if it did."""
    try:
        assert query.awaitTermination(2 * PATIENCE_S), "it takes too long"
    except PySparkException as error:
        return error
    return None


def tell(name: str, trouble: str) -> None:
    sys.stdout.write(json.dumps({"name": name, "trouble": trouble}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
