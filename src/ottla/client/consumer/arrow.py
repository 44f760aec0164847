"""Batches as Arrow: columns of topic, partition, offset, timestamp, key, headers and value.

With a schema, values are read as JSON objects, and its fields take the place of the value column.
No Python object is made for a record.  The spans of the batch travel in the metadata of its schema.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from ottla.client.arrow_offsets import spans_text
from ottla.client.consumer.chunks import Part
from ottla.client.consumer.shelf import TakenBatches
from ottla.client.records import ARROW_SPANS
from ottla.errors import SerializationError
from ottla.model import TopicPartition
from ottla.records.arrow import arrays_of, pyarrow
from ottla.records.arrow import schema as schema_of_records

if TYPE_CHECKING:
    import pyarrow as pa

_ORDER = ("topic", "partition", "offset", "timestamp", "key", "headers")


def arrow_batch(taken: TakenBatches, schema: "pa.Schema | None") -> "pa.RecordBatch":
    """What an Arrow poll returns.

    Raises:
        BatchError: A batch is broken.
        SerializationError: With a schema: a value is no JSON object of it.
    """
    pa = pyarrow()
    made = [_partition_batch(pa, tp, parts) for tp, parts in taken.parts]
    rows = made[0] if len(made) == 1 else pa.Table.from_batches(made).combine_chunks()
    if len(made) != 1:
        (rows,) = rows.to_batches() or [made[0]]
    if schema is not None:
        rows = _with_values(pa, rows, schema)
    return rows.replace_schema_metadata({ARROW_SPANS: spans_text(taken.spans)})


def _partition_batch(pa: Any, tp: TopicPartition, parts: Sequence[Part]) -> Any:
    key, value, offset, timestamp, headers = _cut(arrays_of(part.batch for part in parts), parts)
    count = len(offset)
    topic, partition = _repeated(tp, 1 << (count - 1).bit_length() if count else 0)
    topic, partition = topic.slice(0, count), partition.slice(0, count)
    columns = [topic, partition, offset, timestamp, key, headers, value]
    return pa.RecordBatch.from_arrays(columns, schema=_schema())


@cache
def _schema() -> Any:
    """Made once: to make it takes longer than to put all columns together."""
    pa = pyarrow()
    types = {"topic": pa.string(), "partition": pa.int32()}
    types |= {field.name: field.type for field in schema_of_records()}
    return pa.schema([(name, types[name]) for name in (*_ORDER, "value")])


@lru_cache(maxsize=64)
def _repeated(tp: TopicPartition, count: int) -> tuple[Any, Any]:
    """The columns of topic and partition: made once, and cut to length; arrays never change."""
    pa = pyarrow()
    return (
        pa.repeat(pa.scalar(tp.topic, pa.string()), count),
        pa.repeat(pa.scalar(tp.partition, pa.int32()), count),
    )


def _cut(columns: list[Any], parts: Sequence[Part]) -> list[Any]:
    """Without what lies before the first part's beginning and after the last one's end."""
    _, _, offset, _, _ = columns
    offsets = memoryview(offset.buffers()[1]).cast("q")[: len(offset)]
    first = bisect_left(offsets, parts[0].from_offset)
    last = bisect_left(offsets, parts[-1].to_offset)
    if first == 0 and last == len(offset):
        return columns
    return [column.slice(first, last - first) for column in columns]


def _with_values(pa: Any, rows: Any, schema: "pa.Schema") -> Any:
    from pyarrow import json

    if rows.num_rows == 0:
        values = pa.Table.from_batches([], schema=schema)
    else:
        lines = b"\n".join(v if v is not None else b"{}" for v in rows.column("value").to_pylist())
        options = json.ParseOptions(
            explicit_schema=schema, newlines_in_values=True, unexpected_field_behavior="ignore"
        )
        try:
            values = json.read_json(pa.BufferReader(lines), parse_options=options)
        except pa.ArrowInvalid as error:
            first = rows.column("offset")[0].as_py()
            raise SerializationError(
                f"values from offset {first} on are not JSON objects of the schema: {error}"
            ) from error
    if values.num_rows != rows.num_rows:
        raise SerializationError(
            f"{rows.num_rows} values hold {values.num_rows} JSON objects; each must hold one"
        )
    values = values.combine_chunks()
    arrays = [rows.column(name) for name in _ORDER]
    arrays += [_one(pa, values.column(name)) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, names=[*_ORDER, *schema.names])


def _one(pa: Any, column: Any) -> Any:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
