"""The reader of a batch: what Spark calls for `spark.read`.

Spark plans a batch once for each `load()`, and keeps the plan: what comes later is seen by the next
`load()`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.spark.options import SourceOptions
from ottla.spark.source.columns import layout_of
from ottla.spark.source.partition import RangePartition
from ottla.spark.source.planning import divided, ranges_between
from ottla.spark.source.reading import read_range
from ottla.spark.source.starting import ending_positions, starting_positions

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Methods have Spark's names, and do what its documentation says."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        options.check_for_batch()
        layout_of(options, schema)  # complains now, not in a task
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        from ottla.spark.source.brokers import Brokers

        options = self._options
        with Brokers(options) as brokers:
            topics = brokers.settled_topics()
            start = starting_positions(options, brokers, topics.partitions, default="earliest")
            end = ending_positions(options, brokers, topics.partitions)
        ranges = divided(
            ranges_between(start, end),
            min_count=options.min_partitions,
            max_size=options.max_records_per_partition,
        )
        return [RangePartition(one, topics.ids[one.tp.topic]) for one in ranges]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        if not isinstance(partition, RangePartition):
            return iter(())  # Spark's own, where there is nothing to read
        return read_range(self._options, self._schema, partition)
