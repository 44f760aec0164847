"""A Spark source that reads nothing: it hands out Arrow batches that were built before.

What it gives has the columns and sizes of records, in batches that are as large as ours, so it is
the ceiling for any Python source: the rest is Spark's own work.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.spark.source.columns import RECORD_COLUMNS, arrow_schema
from ottla.spark.source.fetching import FETCH_BYTES

MAX_BATCH_ROWS = 10_000


@dataclass(frozen=True)
class Share(InputPartition):
    """How many rows one task gives."""

    rows: int
    record_bytes: int


class Prebuilt(DataSource):
    """Options: rows, recordBytes, tasks."""

    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> StructType:
        made = StructType()
        for name, data_type in RECORD_COLUMNS.items():
            if name != "headers":
                made = made.add(name, data_type)
        return made

    def reader(self, schema: StructType) -> DataSourceReader:
        return PrebuiltReader(dict(self.options))


class PrebuiltReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._rows = int(options["rows"])
        self._tasks = int(options["tasks"])
        self._record_bytes = int(options["recordbytes"])

    def partitions(self) -> list[InputPartition]:
        share = Share(self._rows // self._tasks, self._record_bytes)
        return [share] * self._tasks

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, Share)
        batch = built(partition.record_bytes)
        whole, rest = divmod(partition.rows, batch.num_rows)
        for _ in range(whole):
            yield batch
        if rest:
            yield batch.slice(0, rest)


@cache
def built(record_bytes: int) -> Any:
    """One batch, made before the first row is asked for."""
    schema = arrow_schema(Prebuilt({}).schema())
    rows = min(MAX_BATCH_ROWS, FETCH_BYTES // record_bytes)
    values = {
        "key": pa.nulls(rows, pa.binary()),
        "value": pa.array([b"v" * record_bytes] * rows, pa.binary()),
        "topic": pa.array(["read"] * rows),
        "partition": pa.array([0] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.array([0] * rows, pa.timestamp("us", tz="UTC")),
        "timestampType": pa.array([0] * rows, pa.int32()),
    }
    return pa.RecordBatch.from_arrays([values[name] for name in schema.names], schema=schema)
