"""How tests read topics: with Spark, or with the reader that Spark would call."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from ottla.spark.options import SourceOptions
from ottla.spark.source.batch import BatchReader
from ottla.spark.source.columns import default_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.testing import TestBroker

RUN_TIMEOUT_S = 200


def batch_reader(
    broker: "TestBroker", schema: StructType | None = None, **given: str
) -> BatchReader:
    """What Spark makes for `spark.read`; two underscores stand for a dot."""
    options = SourceOptions.of(
        {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            **{name.replace("__", "."): value for name, value in given.items()},
        }
    )
    return BatchReader(options, schema or default_schema(options))


def read_all(reader: BatchReader) -> list[pa.RecordBatch]:
    """Every task in turn, in this process."""
    return [batch for task in reader.partitions() for batch in reader.read(task)]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def values_of(batches: Iterable[pa.RecordBatch]) -> list[bytes | None]:
    return [row["value"] for row in rows_of(batches)]


def frame(spark: "SparkSession", broker: "TestBroker", **given: str) -> "DataFrame":
    """`spark.read` of a topic."""
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    for name, value in given.items():
        if name != "schema":
            reader = reader.option(name.replace("__", "."), value)
    return (reader.schema(given["schema"]) if "schema" in given else reader).load()


def stream(spark: "SparkSession", broker: "TestBroker", **given: str) -> "DataFrame":
    """`spark.readStream` of a topic, with values as text."""
    reader = spark.readStream.format("ottla").option(
        "kafka.bootstrap.servers", broker.bootstrap_servers
    )
    for name, value in given.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader.schema("topic string, partition int, offset long, value string").load()


class Sink:
    """Takes rows of micro-batches, and remembers them; raises once if told to."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Row]] = {}
        self.fails = False

    def __call__(self, rows: "DataFrame", batch_id: int) -> None:
        found = rows.collect()
        if self.fails:
            raise RuntimeError("the sink was told to fail")
        self.batches[batch_id] = found

    @property
    def values(self) -> list[str]:
        return [row.value for found in self.batches.values() for row in found]


def start(
    frame: "DataFrame", sink: Callable[["DataFrame", int], None], checkpoint: Path, **trigger: Any
) -> "StreamingQuery":
    """Begin a query, or go on with it."""
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    if trigger:
        writer = writer.trigger(**trigger)
    return writer.start()


def run_available(
    frame: "DataFrame", sink: Callable[["DataFrame", int], None], checkpoint: Path
) -> "StreamingQuery":
    """Read what is there now, to the end; raises what ended the query."""
    query = start(frame, sink, checkpoint, availableNow=True)
    if not query.awaitTermination(RUN_TIMEOUT_S):
        query.stop()
        raise AssertionError(f"the query still runs after {RUN_TIMEOUT_S} s")
    return query
