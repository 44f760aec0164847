"""The reader of a stream: what Spark calls for `spark.readStream`.

Spark makes two of these in different processes.  One lives on the driver for as long as the query
runs, and plans.  The other is pickled for the tasks, whose only call is `read`.
"""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ottla.spark.options import SourceOptions
from ottla.spark.source.columns import layout_of
from ottla.spark.source.partition import RangePartition
from ottla.spark.source.reading import read_range
from ottla.spark.source.tracking import Tracker

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.source.brokers import Brokers


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Methods have Spark's names, and do what its documentation says."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        options.check_for_stream()
        layout_of(options, schema)  # complains now, not in a task
        self._options = options
        self._schema = schema
        self._brokers: Brokers | None = None
        self._tracker: Tracker | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        return self._tracked.initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        """What `latestOffset` gets, except for a trigger that wants everything at once."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(  # noqa: N802 - Spark's
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        return self._tracked.latest(start, is_limited=not isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's
        return self._tracked.newest()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        self._tracked.stop_at_present()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [RangePartition(one, topic_id) for one, topic_id in self._tracked.plan(start, end)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, RangePartition), partition
        return read_range(self._options, self._schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: `latestOffset` is told of every finished batch, the last one included."""

    def stop(self) -> None:
        if self._brokers is not None:
            self._brokers.close()

    @property
    def _tracked(self) -> Tracker:
        if self._tracker is None:
            from ottla.spark.source.brokers import Brokers

            self._brokers = Brokers(self._options)
            self._tracker = Tracker(self._options, self._brokers, _now_ms)
        return self._tracker


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
