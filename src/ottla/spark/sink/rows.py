"""Rows of a DataFrame as records: which columns count, what they may be, and which topic is theirs.

The columns are those of Spark's own Kafka sink: value (needed), key, headers, topic and partition.
Others are left out, as there.  No Python object is made for a row.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from ottla.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.producer.producer import Producer, Transaction

PARTITION: Final = "partition"
_TOPIC: Final = "topic"
_RECORD_COLUMNS: Final = ("key", "value", "headers", PARTITION)
_HEADERS: Final = "array<struct<key: string, value: binary>>"


class RowError(ConfigError):
    """The rows of a DataFrame cannot be written as they are."""


class Rows:
    """How the rows of one DataFrame become records."""

    def __init__(self, schema: StructType, topic: str | None) -> None:
        """Check the columns.

        Raises:
            RowError: One is missing, or of a type that cannot be written.
        """
        self._topic = topic
        self._columns = [name for name in _RECORD_COLUMNS if name in schema.fieldNames()]
        types = {field.name: field.dataType for field in schema.fields}
        if "value" not in types:
            raise RowError(
                f"there is no column value, only {', '.join(types)}: select one, for example "
                "to_json(struct('*')) as value"
            )
        for name, is_right, wanted in _CHECKS:
            if name in types and not is_right(types[name]):
                raise RowError(
                    f"column {name} is {types[name].simpleString()}, and must be {wanted}: cast it"
                )
        if topic is None and _TOPIC not in types:
            raise RowError('which topic? .option("topic", ...) says it, or a column topic')

    def send(
        self, batch: "pa.RecordBatch", to: "Producer[Any, Any] | Transaction[Any, Any]"
    ) -> None:
        """Send the rows of a batch; failures are told by whoever flushes."""
        for topic, part in self._by_topic(batch):
            partition = PARTITION if PARTITION in self._columns else None
            try:
                to.send_arrow(topic, part, partition=partition)
            except ValueError as error:
                raise RowError(f"rows for topic {topic!r}: {error}") from error

    def _by_topic(self, batch: "pa.RecordBatch") -> "Iterator[tuple[str, pa.RecordBatch]]":
        """The rows of each topic, in their order."""
        import pyarrow as pa
        from pyarrow import compute

        rows = batch.select(self._columns)
        if self._topic is not None:
            yield self._topic, rows
            return
        topics = batch.column(batch.schema.get_field_index(_TOPIC))
        if topics.null_count:
            raise RowError(
                f"{topics.null_count} of {batch.num_rows} rows have null in the column topic: "
                'fill it, or set .option("topic", ...)'
            )
        for topic in compute.unique(topics).to_pylist():
            yield topic, rows.filter(compute.equal(topics, pa.scalar(topic, topics.type)))


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, StringType | BinaryType)


def _is_integer(kind: DataType) -> bool:
    return isinstance(kind, IntegerType | LongType | ShortType)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    found: Mapping[str, DataType] = {f.name: f.dataType for f in kind.elementType.fields}
    return (
        list(found) == ["key", "value"]
        and isinstance(found["key"], StringType)
        and isinstance(found["value"], BinaryType)
    )


_CHECKS: Final = (
    ("value", _is_bytes, "string or binary"),
    ("key", _is_bytes, "string or binary"),
    ("headers", _is_headers, _HEADERS),
    (PARTITION, _is_integer, "int"),
    (_TOPIC, lambda kind: isinstance(kind, StringType), "string"),
)
