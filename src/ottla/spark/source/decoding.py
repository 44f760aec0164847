"""Values to columns: JSON, CSV and Avro, decoded many at a time; broken values found one by one.

A decoder turns values, none of them null, into a struct array of the same length, or raises
`ArrowInvalid` if only one of them is broken; it never shifts a value into another's row.  `decoded`
asks it for all values at once.  If that fails, what is broken at first sight is left out, and then
halves are tried, and halves of those, until each broken value stands alone.
"""

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import compute
from pyarrow import csv as arrow_csv
from pyarrow import json as arrow_json

from ottla.errors import ConfigError
from ottla.spark.options import SourceOptions

Decode = Callable[[pa.Array, pa.DataType], pa.StructArray]

_WRAPPED: Final = "v"
_BEFORE: Final = b'{"v":'
_BETWEEN: Final = b'}\n{"v":'
_AFTER: Final = b"}"
_ROW: Final = "\x00row"
"""No field of a user has this name."""


class Decoder(NamedTuple):
    """How values of one format are read."""

    decode: Decode
    """Many values, none of them null, to a struct array; `ArrowInvalid` if one is broken."""
    seems_whole: Callable[[bytes], bool] = lambda value: True
    """A quick look at one value, to leave out most broken ones before looking for the rest."""


class Decoded(NamedTuple):
    """Values with their fields, and which of them are broken."""

    fields: pa.StructArray
    """Null where the value is null or broken."""
    is_broken: pa.BooleanArray | None
    """None if no value is."""


def decoder_of(options: SourceOptions) -> Decoder:
    """The function for `valueFormat`."""
    match options.value_format:
        case "json":
            return Decoder(json_objects, is_json_object)
        case "csv":
            return Decoder(csv_rows(options.separator, options.quote, options.null_value))
        case "avro":
            # Not above: the module of Avro needs this one.
            from ottla.spark.source.avro import avro_records

            return avro_records(options.avro_schema, options.schema_registry)
        case _:
            raise AssertionError(f"{options.value_format} has no fields")


def check_types(value_format: str, value_type: pa.DataType) -> None:
    """Raise `ConfigError` for a field that values of this format cannot have."""
    if value_format == "json":
        _readable(value_type)
    for field in value_type:
        if value_format == "csv" and pa.types.is_nested(field.type):
            raise ConfigError(f"a field of CSV cannot be {field.type}, as {field.name} is")


def decoded(values: pa.BinaryArray, value_type: pa.DataType, decoder: Decoder) -> Decoded:
    """Decode all values; null ones have null fields."""
    present = values.drop_null() if values.null_count else values
    try:
        fields, broken = decoder.decode(present, value_type), set[int]()
    except pa.ArrowInvalid:
        fields, broken = _good_ones(present, value_type, decoder)
    if not broken and not values.null_count:
        return Decoded(fields, None)
    return _spread(values, fields, broken)


def trouble_of(value: pa.BinaryArray, value_type: pa.DataType, decoder: Decoder) -> str:
    """Why a single broken value is that, in one line."""
    try:
        decoder.decode(value, value_type)
    except pa.ArrowInvalid as error:
        return " ".join(str(error).split())
    raise AssertionError("the value is whole")


def _good_ones(
    values: pa.BinaryArray, value_type: pa.DataType, decoder: Decoder
) -> tuple[pa.StructArray, set[int]]:
    """Fields of the good values, in order; and the positions of the broken ones."""
    whole = [i for i, value in enumerate(values.to_pylist()) if decoder.seems_whole(value)]
    candidates = values.take(pa.array(whole, pa.int64()))
    broken = set(range(len(values))) - set(whole)
    pieces = [pa.array([], value_type)]
    waiting = [(0, len(candidates))]
    while waiting:
        start, end = waiting.pop()
        try:
            pieces.append(decoder.decode(candidates.slice(start, end - start), value_type))
        except pa.ArrowInvalid:
            if end - start == 1:
                broken.add(whole[start])
                continue
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]
    return pa.concat_arrays(pieces), broken


def _spread(values: pa.BinaryArray, fields: pa.StructArray, broken: set[int]) -> Decoded:
    """Put the fields of good values back to where their values stand."""
    is_present = values.is_valid()
    if not broken:
        places = compute.cumulative_sum(is_present.cast(pa.int64()))
        found = compute.if_else(is_present, compute.subtract(places, 1), None)
        return Decoded(fields.take(found), None)
    is_broken: list[bool] = []
    index: list[int | None] = []
    seen = taken = 0
    for present in is_present.to_pylist():
        bad = present and seen in broken
        seen += present
        is_broken.append(bad)
        index.append(taken if present and not bad else None)
        taken += present and not bad
    return Decoded(fields.take(pa.array(index, pa.int64())), pa.array(is_broken, pa.bool_()))


# JSON.


def json_objects(values: pa.BinaryArray, value_type: pa.DataType) -> pa.StructArray:
    """One JSON object each; fields that nobody asked for are left out, missing ones are null.

    Each value is wrapped into an object of its own, `{"v":` and `}`.  A value that is not whole
    makes the closing brace an error, so none can swallow its neighbor; then as many objects as
    values means one for each.
    """
    if not len(values):
        return pa.array([], value_type)
    readable = _readable(value_type)
    text = _joined(values, _BEFORE, _BETWEEN, _AFTER)
    options = arrow_json.ParseOptions(
        explicit_schema=pa.schema([(_WRAPPED, readable)]),
        newlines_in_values=True,
        unexpected_field_behavior="ignore",
    )
    read = arrow_json.ReadOptions(use_threads=False, block_size=text.size + 1)
    table = arrow_json.read_json(pa.BufferReader(text), read, options)
    if table.num_rows != len(values):
        raise pa.ArrowInvalid(f"{len(values)} values hold {table.num_rows} objects")
    column = table.column(_WRAPPED)
    objects = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if objects.null_count:
        raise pa.ArrowInvalid("null is no object")
    return objects if readable == value_type else _cast(objects, value_type)


def is_json_object(value: bytes) -> bool:
    """Whether a single value is one JSON object, by Python's own reader."""
    try:
        return isinstance(json.loads(value), dict)
    except ValueError:
        return False


@lru_cache(maxsize=16)
def _readable(data_type: pa.DataType) -> pa.DataType:
    """The type as Arrow's reader can read it: dates come as text."""
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_readable(field.type)) for field in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(data_type.value_field.with_type(_readable(data_type.value_type)))
    if pa.types.is_date(data_type):
        return pa.string()
    if pa.types.is_map(data_type) or pa.types.is_binary(data_type):
        raise ConfigError(
            f"valueFormat = json cannot make a {data_type}: read _value as string and use "
            "from_json of Spark"
        )
    return data_type


def _cast(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """As `array.cast`, into structs and lists, too."""
    if array.type == data_type:
        return array
    if pa.types.is_struct(data_type):
        children = [
            _cast(child, field.type)
            for child, field in zip(array.flatten(), data_type, strict=True)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(data_type), mask=mask)
    if pa.types.is_list(data_type):
        values = _cast(array.flatten(), data_type.value_type)
        mask = array.is_null() if array.null_count else None
        offsets = _list_offsets(array)
        return pa.ListArray.from_arrays(offsets, values, type=data_type, mask=mask)
    return array.cast(data_type)


def _list_offsets(array: pa.Array) -> pa.Array:
    """Where each list begins in `array.flatten()`, which leaves out what null lists hide."""
    lengths = compute.fill_null(compute.list_value_length(array), 0)
    sums = compute.cumulative_sum(lengths)
    return pa.concat_arrays([pa.array([0], pa.int32()), sums.cast(pa.int32())])


# CSV.


def csv_rows(separator: str, quote: str, null_text: str) -> Decode:
    """One row each, fields by position.

    Each row is read with its number before it: a row that swallows its neighbor, or falls into two,
    is noticed by the numbers.
    """
    parse = arrow_csv.ParseOptions(
        delimiter=separator, quote_char=quote or False, newlines_in_values=True
    )
    escaped_separator = separator.encode()

    def decode(values: pa.BinaryArray, value_type: pa.DataType) -> pa.StructArray:
        if not len(values):
            return pa.array([], value_type)
        if quote and _has_odd(compute.count_substring(values, quote)):
            raise pa.ArrowInvalid("a quote is not closed")  # Arrow closes one at the end itself
        numbers = pa.array(range(len(values)), pa.int32())
        prefixed = compute.binary_join_element_wise(
            numbers.cast(pa.string()).cast(pa.binary()), values, escaped_separator
        )
        text = _joined(prefixed, b"", b"\n", b"\n")
        names = [_ROW, *(field.name for field in value_type)]
        convert = arrow_csv.ConvertOptions(
            column_types={_ROW: pa.int32(), **{field.name: field.type for field in value_type}},
            null_values=[null_text],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        read = arrow_csv.ReadOptions(
            column_names=names, use_threads=False, block_size=text.size + 1
        )
        table = arrow_csv.read_csv(pa.BufferReader(text), read, parse, convert).combine_chunks()
        if not table.column(_ROW).combine_chunks().equals(numbers):
            raise pa.ArrowInvalid("a row is not one row")
        columns = [table.column(field.name).combine_chunks() for field in value_type]
        return pa.StructArray.from_arrays(
            [c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in columns],
            fields=list(value_type),
        )

    return decode


def _has_odd(counts: pa.Array) -> bool:
    return bool(compute.any(compute.equal(compute.bit_wise_and(counts, 1), 1)).as_py())


def _joined(values: pa.BinaryArray, before: bytes, between: bytes, after: bytes) -> pa.Buffer:
    """All values in one buffer, without a Python object for each."""
    offsets = pa.array([0, len(values)], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, _binary(values))
    (joined,) = compute.binary_join(lists, between)
    return pa.py_buffer(b"".join((before, joined.as_buffer(), after)))


def _binary(values: pa.Array) -> Any:
    return values if values.type == pa.binary() else values.cast(pa.binary())
