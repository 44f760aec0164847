"""Between records and rows: what parses and what does not, and how rows become records again.

A source with a schema has the columns of its values, and beside them the record's own, with an
underscore: `_key`, `_topic`, `_partition`, `_offset`, `_timestamp`.  Columns that begin with an
underscore are for the step to look at; they are not written.

Rows and dead letters of a step are one DataFrame in the end, and so one query, whose batches are
written as a whole: a record is either in the result or among the dead letters, never in both.
"""

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final, cast

from ottla.errors import ConfigError
from ottla.pipeline.progress import COUNT, ROWS_BAD, ROWS_IN, ROWS_OUT
from ottla.pipeline.spec import Sink, Step, Topic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

CORRUPT: Final = "_corrupt_record"
OWN_COLUMNS: Final = (
    "_key binary, _value binary, _topic string, _partition int, _offset long, _timestamp timestamp"
)
HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"

ERROR_HEADER: Final = "ottla.error"
STEP_HEADER: Final = "ottla.step"
ORIGIN_HEADER: Final = "ottla.origin"


def value_schema(topic: Topic) -> "StructType":
    """The columns that a source with a schema is asked for; all may be null, as data is."""
    from pyspark.sql.types import StructField, StructType

    declared = _declared(topic)
    own = _struct(f"{CORRUPT} string, {OWN_COLUMNS}")
    taken = {field.name for field in own.fields}
    for column in declared.fields:
        if column.name in taken:
            raise ConfigError(f"topic {topic.name!r}: {column.name} is a column of the record")
    return StructType(
        [StructField(f.name, f.dataType, nullable=True) for f in (*declared.fields, *own.fields)]
    )


def required_columns(topic: Topic) -> list[str]:
    """The columns of a schema that a value must have."""
    return [field.name for field in _declared(topic).fields if not field.nullable]


def _declared(topic: Topic) -> "StructType":
    from pyspark.errors import ParseException

    assert topic.schema is not None, topic
    try:
        return _struct(topic.schema)
    except ParseException as error:
        trouble = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"topic {topic.name!r}: {topic.schema!r} is no schema of Spark: {trouble}"
        ) from None


def _struct(columns: str) -> "StructType":
    from pyspark.sql.types import StructType

    return cast("StructType", StructType.fromDDL(columns))


def parsed(frame: "DataFrame", topic: Topic, number: int, *, fails: bool) -> "DataFrame":
    """The rows that parse, counted; with `fails`, one that does not fails the query."""
    from pyspark.sql.functions import coalesce, col, concat_ws, lit, raise_error, when

    why = complaint(required_columns(topic))
    if fails:
        place = concat_ws("", col("_topic"), lit("-"), col("_partition"), lit("@"), col("_offset"))
        advice = "; give the step a dead_letter topic for such records"
        told = concat_ws("", lit("the record "), place, lit(" does not parse: "), why, lit(advice))
        good = coalesce(when(why.isNotNull(), raise_error(told).cast("boolean")), lit(True))
    else:
        good = why.isNull()
    rows = counted(frame.where(good).drop(CORRUPT, "_value"), f"{ROWS_IN}_{number}")
    return rows if topic.watermark is None else rows.withWatermark(*topic.watermark)


def dead_letters(frame: "DataFrame", topic: Topic, step: Step) -> "DataFrame":
    """The records that do not parse, as they are, with headers that say why and from where."""
    from pyspark.sql.functions import array, col, concat_ws, lit

    assert step.dead_letter is not None, step
    why = complaint(required_columns(topic))
    origin = concat_ws("", col("_topic"), lit("-"), col("_partition"), lit("@"), col("_offset"))
    headers = array(
        _header(ERROR_HEADER, why),
        _header(STEP_HEADER, lit(step.name)),
        _header(ORIGIN_HEADER, origin),
    )
    return frame.where(why.isNotNull()).select(
        col("_key").alias("key"),
        col("_value").alias("value"),
        headers.cast(HEADERS_TYPE).alias("headers"),
        lit(step.dead_letter).alias("topic"),
    )


def complaint(required: Sequence[str]) -> "Column":
    """Why a row is not what the schema says, in words; null if it is."""
    from pyspark.sql.functions import col, lit, when

    said = when(col("_value").isNull(), lit("the value is null"))
    said = said.when(col(CORRUPT).isNotNull(), lit("the value does not have the schema"))
    for name in required:
        said = said.when(col(name).isNull(), lit(f"{name} is missing"))
    return said.otherwise(lit(None).cast("string"))


def records(frame: "DataFrame", step: Step) -> "DataFrame":
    """The rows of a result as records: key, value, headers, topic and partition.

    A result with a column `value` says itself what its records are.  Of any other, the columns
    become fields of a JSON object.

    Raises:
        ConfigError: A column is missing that the sink needs.
    """
    from pyspark.sql.functions import col

    sink = step.sink
    if sink.key is not None and sink.key not in frame.columns:
        raise _lacks(step, sink.key, frame, "the key")
    key = sink.key or ("key" if _has(frame, "key") else None)
    columns = [] if key is None else [_bytes(frame, key).alias("key")]
    columns.append(_value(frame, sink).alias("value"))
    if _has(frame, "headers"):
        columns.append(col("headers").cast(HEADERS_TYPE).alias("headers"))
    if _has(frame, "partition"):
        columns.append(col("partition").cast("int").alias("partition"))
    if says_topic(step):
        columns.append(_topic(frame, step).alias("topic"))
    return frame.select(*columns)


def says_topic(step: Step) -> bool:
    """Whether each row of a step says where it goes; otherwise all go to the same topic."""
    return len(step.outputs) > 1


def joined(results: "DataFrame", letters: "Sequence[DataFrame]") -> "DataFrame":
    """Everything a step writes, counted."""
    rows = counted(results, ROWS_OUT)
    if not letters:
        return rows
    bad = reduce(lambda one, other: one.unionByName(other), letters)
    return rows.unionByName(counted(bad, ROWS_BAD), allowMissingColumns=True)


def counted(frame: "DataFrame", name: str) -> "DataFrame":
    """Let Spark tell, with each batch, how many rows came by here."""
    from pyspark.sql.functions import count, lit

    return frame.observe(name, count(lit(1)).alias(COUNT))


def _value(frame: "DataFrame", sink: Sink) -> "Column":
    from pyspark.sql.functions import col, struct, to_json

    if _is_raw(frame):
        return _bytes(frame, "value")
    routed = {"topic"} if len(sink.topics) > 1 else set()
    shown = [name for name in frame.columns if not name.startswith("_") and name not in routed]
    if not shown:
        raise ConfigError("a result needs a column to write; those with an underscore are not")
    columns = [col(f"`{name}`") for name in shown]
    return to_json(struct(*columns), {"ignoreNullFields": "false"}).cast("binary")


def _topic(frame: "DataFrame", step: Step) -> "Column":
    """Which topic a row goes to; one that is not declared fails the query, not the broker."""
    from pyspark.sql.functions import coalesce, col, concat_ws, lit, raise_error, when

    names = step.sink.topics
    if len(names) == 1:
        return lit(names[0])
    if "topic" not in frame.columns:
        raise _lacks(step, "topic", frame, f"which of {', '.join(names)} a row goes to")
    told = concat_ws(
        "",
        lit(f"step {step.name}: a row for topic "),
        coalesce(col("topic"), lit("null")),
        lit(f", and sink= names {', '.join(names)}"),
    )
    return when(col("topic").isin(*names), col("topic")).otherwise(raise_error(told))


def _is_raw(frame: "DataFrame") -> bool:
    return "value" in frame.columns and dict(frame.dtypes)["value"] in ("binary", "string")


def _has(frame: "DataFrame", name: str) -> bool:
    """Whether a column of a raw result means the record's own."""
    return _is_raw(frame) and name in frame.columns


def _bytes(frame: "DataFrame", name: str) -> "Column":
    """Binary stays; anything else as Spark writes it in text."""
    from pyspark.sql.functions import col
    from pyspark.sql.types import BinaryType

    if isinstance(frame.schema[name].dataType, BinaryType):
        return col(f"`{name}`")
    return col(f"`{name}`").cast("string").cast("binary")


def _header(name: str, value: "Column") -> "Column":
    from pyspark.sql.functions import lit, struct

    return struct(lit(name).alias("key"), value.cast("binary").alias("value"))


def _lacks(step: Step, column: str, frame: "DataFrame", what: str) -> ConfigError:
    return ConfigError(
        f"step {step.name!r}: its result has no column {column!r}, which says {what}; it has "
        f"{', '.join(frame.columns)}"
    )
