"""What the tests of the sink have in common: topics with rows, queries, and what came out."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

import ottla
from ottla.client.admin.transactions import TransactionInfo
from ottla.model import TopicPartition
from ottla.spark.sink.faults import FOLDER_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PATIENCE_S = 300
MAX_STARTS = 20
"""Of a query that Spark gave up because a process was too slow; each takes ten seconds then."""


@dataclass(frozen=True, slots=True)
class World:
    """A broker, and where things are kept."""

    servers: str
    folder: Path

    def fill(self, topic: str, *, partitions: int, rows: range) -> list[str]:
        """Make a topic if there is none, put rows into all of its partitions, and tell which."""
        with ottla.Admin(self.servers) as admin:
            admin.create_topic(topic, partitions=partitions, exists_ok=True)
        values = []
        with ottla.Producer(self.servers) as producer:
            for partition in range(partitions):
                for row in rows:
                    values.append(f"{partition}:{row}")
                    producer.send(topic, values[-1].encode(), partition=partition)
        return sorted(values)

    def make(self, topic: str, partitions: int = 1) -> None:
        with ottla.Admin(self.servers) as admin:
            admin.create_topic(topic, partitions=partitions, exists_ok=True)

    def committed(self, topic: str) -> list[str]:
        """The values of a topic that readers of committed records see, sorted."""
        return sorted((value or b"").decode() for value in self.records(topic))

    def records(self, topic: str) -> list[bytes | None]:
        """All that readers of committed records see."""
        found: list[bytes | None] = []
        with ottla.Consumer(
            topic,
            bootstrap_servers=self.servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            with ottla.Admin(self.servers) as admin:
                settle(admin)
                indexes = admin.describe_topic(topic).partitions
                partitions = [TopicPartition(topic, p.id) for p in indexes]
                # With read_committed, the end is where the first open transaction begins.
                ends = admin.list_offsets(partitions, isolation_level="read_committed")
            consumer.assign(partitions)
            while any(consumer.position(tp) < (ends[tp] or 0) for tp in partitions):
                found += [record.value for record in consumer.poll(1)]
        return found

    def open_transactions(self, name: str = "") -> list[TransactionInfo]:
        """Those that write to topics with this in their names.

        Others may have been left by a job that Spark gave up, as `was_too_slow` says.
        """
        with ottla.Admin(self.servers) as admin:
            settle(admin)
            listed = admin.list_transactions(states=["Ongoing"])
            found = [admin.describe_transaction(one.transactional_id) for one in listed]
        return [one for one in found if any(name in tp.topic for tp in one.partitions)]

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        with ottla.Admin(self.servers) as admin:
            found = admin.list_group_offsets(group)
        return {tp: at.offset for tp, at in found.items()}

    # Queries.

    def source(self, spark: "SparkSession", topic: str, options: Mapping[str, Any]) -> "DataFrame":
        given = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }
        return spark.readStream.format("ottla").options(**{**given, **options}).load()

    def copy(
        self,
        spark: "SparkSession",
        name: str,
        *,
        source: Mapping[str, Any] | None = None,
        sink: Mapping[str, Any] | None = None,
        ends: bool = True,
        shape: "Callable[[DataFrame], DataFrame]" = lambda frame: frame,
    ) -> "StreamingQuery":
        """Begin a query that copies what is in topic `<name>-in` to `<name>-out`."""
        frame = self.source(
            spark, f"{name}-in", {"kafka.group.id": f"{name}-group", **(source or {})}
        )
        given = {
            "kafka.bootstrap.servers": self.servers,
            "topic": f"{name}-out",
            "transactionalIdPrefix": name,
            "checkpointLocation": str(self.checkpoint(name)),
        }
        writer = shape(frame.select("key", "value")).writeStream.format("ottla")
        writer = writer.options(**{**given, **(sink or {})})
        return (writer.trigger(availableNow=True) if ends else writer).start()

    def copy_until(
        self, spark: "SparkSession", name: str, reached: Path, **options: Any
    ) -> "StreamingQuery":
        """As `copy`, until there is the file that says that it stands where it shall stop."""
        for _ in range(MAX_STARTS):
            query = self.copy(spark, name, **options)
            wait_until(partial(_is_there_or_over, reached, query))
            if reached.exists():
                return query
            error = query.exception()
            assert error is not None, "it came to its end"
            if not was_too_slow(error):
                raise error
        raise AssertionError("Spark does not get it started")

    def run(self, spark: "SparkSession", name: str, **options: Any) -> None:
        """As `copy`, to the end; raise what made it fail."""
        for attempts_left in reversed(range(MAX_STARTS)):
            try:
                finish(self.copy(spark, name, **options))
            except PySparkException as error:
                if not was_too_slow(error) or not attempts_left:
                    raise
            else:
                return

    def checkpoint(self, name: str) -> Path:
        return self.folder / name


def _is_there_or_over(reached: Path, query: "StreamingQuery") -> bool:
    return reached.exists() or not query.isActive


def was_too_slow(error: PySparkException) -> bool:
    """Whether Spark gave up on a Python process that took more than ten seconds to start.

    It has no setting for that.  On a loaded machine it happens, and the query is started again.
    """
    return "failed to connect back" in str(error)


def settle(admin: ottla.Admin) -> None:
    """Wait for marks: a commit is acknowledged when it is decided, a moment before they are there.

    A transaction that is prepared and waits for its decision is still open, and not waited for.
    """
    wait_until(lambda: not admin.list_transactions(states=["PrepareCommit", "PrepareAbort"]))


def wait_until(is_so: Callable[[], bool]) -> None:
    """Look again and again, for as long as patience lasts."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, "it does not happen"
        time.sleep(0.05)


def finish(query: "StreamingQuery") -> None:
    """Wait until a query has done all there is to do; raise what made it fail."""
    try:
        if not query.awaitTermination(PATIENCE_S):
            raise AssertionError(f"the query takes longer than {PATIENCE_S} s")
    finally:
        query.stop()


def order(point: str, sink_id: str, what: str) -> Path:
    """Order an accident; return the file that will be there when it happens."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    path = folder / f"{point}@{sink_id}"
    hidden = folder / f".{point}@{sink_id}"
    hidden.write_text(what, "utf-8")
    hidden.rename(path)
    return path.with_name(path.name + ".reached")
