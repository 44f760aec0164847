"""A task: reads one range of offsets, and yields Arrow batches of Spark's schema.

While rows are decoded in the task's thread, the next fetch is under way on the client's own.  The
client, with its connections, stays for the tasks that this process runs later.

A range is finished when the position has reached its end, however few records there were.  No
Python object is made for a record, and values that are not compressed stay in the buffer that they
were received into: Spark's writer reads them from there.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute
from pyspark.sql.types import StructType

from ottla.client.consumer.chunks import Chunk, Part
from ottla.errors import SerializationError
from ottla.records.arrow import to_arrow
from ottla.records.batch import MAX_DECOMPRESSED_BYTES
from ottla.spark import tracing
from ottla.spark.options import SourceOptions
from ottla.spark.source.columns import Layout, layout_of, record_column
from ottla.spark.source.decoding import Decoder, decoded, decoder_of, trouble_of
from ottla.spark.source.fetching import fetched
from ottla.spark.source.partition import RangePartition
from ottla.spark.source.planning import OffsetRange

MAX_GROUP_BYTES: Final = 16 * 1024 * 1024
"""How much is decoded into one batch, as stored, unless a single batch of the log has more."""
MAX_COMPRESSED_GROUP_BYTES: Final = 4 * 1024 * 1024
"""The same where it grows when it is decoded."""
_ALL: Final = 2**62


def read_range(
    options: SourceOptions, schema: StructType, partition: RangePartition
) -> Iterator[pa.RecordBatch]:
    """The rows of a range, in the order of their offsets.

    Raises:
        DataLossError: Some are gone, and failOnDataLoss is true.
        SerializationError: A value cannot be decoded, with mode = FAILFAST.
        DeadlineError: They did not come within kafkaConsumer.pollTimeoutMs.
    """
    with tracing.reading(partition.range) as seen:
        rows = Rows(options, layout_of(options, schema), partition.range, seen)
        for chunk in fetched(options, partition.range, partition.topic_id):
            for group in _groups(chunk, options.batch_rows):
                yield from rows.of(group)


def _groups(chunk: Chunk, max_rows: int) -> Iterator[list[Part]]:
    """Parts that go together: not too many, and with one type of timestamps."""
    group: list[Part] = []
    rows = size_bytes = 0
    for part in chunk.take_batches(_ALL):
        batch = part.batch
        weight = MAX_GROUP_BYTES // MAX_COMPRESSED_GROUP_BYTES if batch.compression else 1
        if group and (
            rows + batch.record_count > max_rows
            or size_bytes + batch.size_bytes * weight > MAX_GROUP_BYTES
            or batch.timestamp_type is not group[-1].batch.timestamp_type
        ):
            yield group
            group, rows, size_bytes = [], 0, 0
        group.append(part)
        rows += batch.record_count
        size_bytes += batch.size_bytes * weight
    if group:
        yield group


class Rows:
    """Makes rows of a range from batches of the log."""

    def __init__(
        self,
        options: SourceOptions,
        layout: Layout,
        of: OffsetRange,
        seen: tracing.Seen | None = None,
    ) -> None:
        self._options = options
        self._seen = seen or tracing.Seen()
        self._layout = layout
        self._range = of
        self._decoder: Decoder | None = None
        if layout.value_fields or layout.corrupt_column is not None:
            self._decoder = decoder_of(options)
        self._value_type = layout.value_type

    def of(self, parts: list[Part]) -> Iterator[pa.RecordBatch]:
        """The rows of these parts that lie in the range, in batches that are not too large."""
        limit_bytes = MAX_DECOMPRESSED_BYTES * len(parts)
        # Nobody but us reads these batches, and once is enough.
        rows = to_arrow((part.batch for part in parts), max_bytes=limit_bytes, may_overwrite=True)
        rows = self._cut(rows, parts[0].from_offset)
        self._seen.rows(rows)
        timestamp_type = int(parts[0].batch.timestamp_type)
        for first in range(0, rows.num_rows, self._options.batch_rows):
            piece = self._shown(rows.slice(first, self._options.batch_rows), timestamp_type)
            if piece.num_rows:
                yield piece

    def _cut(self, rows: pa.RecordBatch, from_offset: int) -> pa.RecordBatch:
        """Without what lies before the position, or behind the range: batches come whole."""
        offsets = memoryview(rows.column("offset").buffers()[1]).cast("q")[: rows.num_rows]
        first = bisect_left(offsets, from_offset)
        last = bisect_left(offsets, self._range.end_offset)
        return rows if (first, last) == (0, rows.num_rows) else rows.slice(first, last - first)

    def _shown(self, rows: pa.RecordBatch, timestamp_type: int) -> pa.RecordBatch:
        layout = self._layout
        is_good: Any = None
        columns: dict[str, pa.Array] = {}
        if self._decoder is not None:
            columns, is_good = self._decoded(rows, self._decoder)
        for name, column in layout.record_columns.items():
            data_type = layout.schema.field(name).type
            columns[name] = record_column(column, data_type, rows, self._range.tp, timestamp_type)
        shown = pa.RecordBatch.from_arrays(
            [columns[name] for name in layout.schema.names], schema=layout.schema
        )
        return shown if is_good is None else shown.filter(is_good)

    def _decoded(
        self, rows: pa.RecordBatch, decoder: Decoder
    ) -> tuple[dict[str, pa.Array], pa.BooleanArray | None]:
        """Columns of fields of the values; and which rows are shown, if not all."""
        layout, values = self._layout, rows.column("value")
        found = decoded(values, self._value_type, decoder)
        columns = dict(zip(layout.value_fields, found.fields.flatten(), strict=True))
        if layout.corrupt_column is not None:
            columns[layout.corrupt_column] = self._corrupt(values, found.is_broken)
        if found.is_broken is None or self._options.mode == "PERMISSIVE":
            return columns, None
        if self._options.mode == "FAILFAST":
            index = compute.index(found.is_broken, True).as_py()
            why = trouble_of(values.slice(index, 1), self._value_type, decoder)
            raise SerializationError(
                f"the value at offset {rows.column('offset')[index]} of {self._range.tp} is not "
                f"{self._options.value_format} of the schema ({why}); mode = PERMISSIVE puts it "
                f"into {self._options.corrupt_record_column}, DROPMALFORMED leaves it out"
            )
        return columns, compute.invert(found.is_broken)

    def _corrupt(self, values: pa.Array, is_broken: pa.BooleanArray | None) -> pa.Array:
        assert self._layout.corrupt_column is not None
        data_type = self._layout.schema.field(self._layout.corrupt_column).type
        if is_broken is None:
            return pa.nulls(len(values), data_type)
        broken = compute.if_else(is_broken, values, None)
        if data_type == pa.binary():
            return broken
        return pa.Array.from_buffers(data_type, len(broken), broken.buffers(), offset=broken.offset)
