"""A Spark source and sink that do nothing: each micro-batch has a thousand rows, and drops them.

What such a query takes is Spark's own: planning, its two Python workers for each task, its Python
processes on the driver, and its checkpoint.  No source and sink in Python can be faster.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from bench.prebuilt import built

COLUMNS = ["key", "value"]


class Idle(DataSource):
    """Options: rows and recordBytes of a batch, and batches, after which it is at its end."""

    @classmethod
    def name(cls) -> str:
        return "idle"

    def schema(self) -> StructType:
        return StructType().add("key", "binary").add("value", "binary")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        return IdleReader(dict(self.options))

    def streamWriter(  # noqa: N802 - Spark's
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        return IdleWriter()


class IdleReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Its offset is the number of the batch."""

    def __init__(self, options: dict[str, str]) -> None:
        self._rows = int(options["rows"])
        self._record_bytes = int(options["recordbytes"])
        self._batches = int(options["batches"])

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        return {"batch": 0}

    def latestOffset(  # noqa: N802 - Spark's
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        return {"batch": min(start["batch"] + 1, self._batches)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Nothing: it has an end."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(start["batch"])]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        yield built(self._record_bytes).select(COLUMNS).slice(0, self._rows)


class IdleWriter(DataSourceStreamArrowWriter):
    """Takes rows, and forgets them."""

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to do."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to do."""
