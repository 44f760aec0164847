"""Which columns a source gives, and how Arrow columns of records become them.

Without `valueFormat` the columns are those of Spark's Kafka source, and `.schema()` chooses among
them; key and value may be text there.  With json, csv or avro, the columns of `.schema()` are
fields of the value; a record's own columns then have an underscore before their names.

Spark takes a batch only if its types are exactly those of the schema, so everything here is made
from one Arrow schema, which Spark itself derives.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.config import unknown_setting
from ottla.errors import ConfigError
from ottla.model import TopicPartition
from ottla.spark.options import SourceOptions
from ottla.spark.source.decoding import check_types

HEADER_LIST: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
RECORD_COLUMNS: Final[Mapping[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADER_LIST,
}
"""In the order in which Spark's Kafka source has them."""

MAY_BE_TEXT: Final = ("key", "value")
DECODED_FORMATS: Final = ("json", "csv", "avro")
"""Formats whose values have fields."""

_UTC: Final = "UTC"


def default_schema(options: SourceOptions) -> StructType:
    """The columns if the user chooses none."""
    if options.value_format in DECODED_FORMATS:
        if options.value_format == "avro" and options.avro_schema is not None:
            from ottla.spark.source.avro import spark_schema

            return spark_schema(options.avro_schema)
        raise ConfigError(
            f"valueFormat = {options.value_format} needs .schema(…), the fields of the values"
        )
    is_text = options.value_format == "string"
    return StructType(
        [
            StructField(name, StringType() if is_text and name == "value" else data_type)
            for name, data_type in RECORD_COLUMNS.items()
            if name != "headers" or options.include_headers
        ]
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """What is to be made: the columns of records, and the fields of values, by output column."""

    schema: pa.Schema
    """What Spark expects, exactly."""
    record_columns: Mapping[str, str]
    """Output column -> the record's column that it shows."""
    value_fields: tuple[str, ...]
    """Output columns that are fields of the value."""
    corrupt_column: str | None
    """The output column for values that cannot be decoded."""

    @property
    def value_type(self) -> pa.DataType:
        """The fields of the value, as one struct."""
        return pa.struct([self.schema.field(name) for name in self.value_fields])


def layout_of(options: SourceOptions, schema: StructType) -> Layout:
    """Check the schema that the user chose, or that `default_schema` gave.

    Raises:
        ConfigError: A column is not known, or cannot have its type.
    """
    names = [field.name for field in schema]
    if len(set(names)) != len(names):
        raise ConfigError(f"the schema names a column twice: {', '.join(names)}")
    if options.value_format is None or options.value_format not in DECODED_FORMATS:
        for field in schema:
            _check_record_column(field.name, field.name, field.dataType)
        return Layout(arrow_schema(schema), {name: name for name in names}, (), None)
    own = {f"_{name}": name for name in RECORD_COLUMNS}
    corrupt = options.corrupt_record_column
    for field in schema:
        if field.name in own:
            _check_record_column(field.name, own[field.name], field.dataType)
        elif field.name == corrupt and field.dataType not in (StringType(), BinaryType()):
            raise ConfigError(f"column {corrupt} holds values that are broken: string or binary")
        elif not field.nullable:
            raise ConfigError(f"field {field.name!r} may be null in values: leave NOT NULL out")
    layout = Layout(
        arrow_schema(schema),
        {name: own[name] for name in names if name in own},
        tuple(name for name in names if name not in own and name != corrupt),
        corrupt if corrupt in names else None,
    )
    check_types(options.value_format, layout.value_type)
    return layout


def arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark compares our batches with."""
    from pyspark.sql.pandas import types

    convert: Any = types.to_arrow_schema
    if "timezone" in inspect.signature(convert).parameters:
        return convert(schema, timezone=_UTC)
    return convert(schema)  # PySpark before 4.3, which knows no other time zone


def _check_record_column(name: str, column: str, data_type: DataType) -> None:
    if (expected := RECORD_COLUMNS.get(column)) is None:
        close = str(unknown_setting(column, RECORD_COLUMNS)).partition("; ")[2]
        raise ConfigError(
            f"records have no column {name!r}{'; ' + close if close else ''}  There are "
            f"{', '.join(RECORD_COLUMNS)}; for fields of values, set valueFormat"
        )
    if data_type == expected or (column in MAY_BE_TEXT and isinstance(data_type, StringType)):
        return
    allowed = expected.simpleString() + (" or string" if column in MAY_BE_TEXT else "")
    raise ConfigError(f"column {name!r} is {allowed}, not {data_type.simpleString()}")


def record_column(
    column: str,
    data_type: pa.DataType,
    rows: pa.RecordBatch,
    tp: TopicPartition,
    timestamp_type: int,
) -> pa.Array:
    """One column of `rows`, which `ottla.records.arrow` has decoded, as Spark wants it."""
    match column:
        case "key" | "value":
            return (
                _as_text(rows.column(column)) if data_type == pa.string() else rows.column(column)
            )
        case "timestamp" | "headers":
            return rows.column(column).cast(data_type)
        case "offset":
            return rows.column(column)
        case "topic":
            return _repeated(tp.topic, data_type, rows.num_rows)
        case "partition":
            return _repeated(tp.partition, data_type, rows.num_rows)
        case "timestampType":
            return _repeated(timestamp_type, data_type, rows.num_rows)
        case _:
            raise AssertionError(f"no record has a column {column!r}")


def _as_text(column: pa.Array) -> pa.Array:
    """The same bytes, called text: what they mean is for Spark to say, as after a CAST."""
    return pa.Array.from_buffers(
        pa.string(), len(column), column.buffers(), column.null_count, column.offset
    )


def _repeated(value: str | int, data_type: pa.DataType, count: int) -> pa.Array:
    room = 1 << (count - 1).bit_length() if count else 0
    return _constant(value, data_type, room).slice(0, count)


@lru_cache(maxsize=64)
def _constant(value: str | int, data_type: pa.DataType, count: int) -> pa.Array:
    """Made once, and cut to length: arrays never change."""
    return pa.repeat(pa.scalar(value, data_type), count)
