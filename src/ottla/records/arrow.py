"""Batches to Arrow columns and back, without a Python object per record.

`pyarrow` is an extra: it is imported when a function here is called, and not before.  Columns are
copied out of the batches once, and keep nothing of them alive, unless the caller gives them up.
"""

from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from ottla.records.batch import COMPRESSION_BITS, MAX_DECOMPRESSED_BYTES, Batch
from ottla.records.builder import BatchOptions, build_columns
from ottla.records.kernel import kernel
from ottla.records.shapes import Binary, BinaryColumn, Columns, HeaderColumn, UnwrittenColumns
from ottla.values import NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

COLUMN_NAMES: Final = ("key", "value", "offset", "timestamp", "headers")
_PLAIN: Final = BatchOptions()


def pyarrow() -> ModuleType:
    """The library, or an error that says how to get it."""
    try:
        import pyarrow as module
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise ModuleNotFoundError(
            "Arrow columns need pyarrow: pip install 'ottla[arrow]'", name="pyarrow"
        ) from error
    library: ModuleType = module
    return library


class _Types(NamedTuple):
    """Making a type takes longer than looking at a column, so each is made once."""

    binary: "pa.DataType"
    text: "pa.DataType"
    integer: "pa.DataType"
    timestamp: "pa.DataType"
    header: "pa.DataType"
    headers: "pa.DataType"


@cache
def _types() -> _Types:
    pa = pyarrow()
    header = pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.binary())])
    timestamp = pa.timestamp("ms", tz="UTC")
    return _Types(pa.binary(), pa.string(), pa.int64(), timestamp, header, pa.list_(header))


@cache
def schema() -> "pa.Schema":
    """The columns of `to_arrow`: key, value, offset, timestamp, headers."""
    pa = pyarrow()
    types = _types()
    return pa.schema(
        [
            ("key", types.binary),
            ("value", types.binary),
            pa.field("offset", types.integer, nullable=False),
            pa.field("timestamp", types.timestamp, nullable=False),
            pa.field("headers", types.headers, nullable=False),
        ]
    )


def to_arrow(
    batches: Iterable[Batch],
    *,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
    may_overwrite: bool = False,
) -> "pa.RecordBatch":
    """The records of all `batches` as one Arrow record batch.

    Checksums are not checked here, and control batches are decoded like any other: whoever
    fetched the batches knows which of them are meant for users.

    Args:
        batches: Read to the end before anything is decoded.
        max_bytes: What all compressed batches together may grow to.
        may_overwrite: Whether nobody reads the batches afterwards.  Then the values of those that
            lie in one `bytearray`, one behind the other, stay there: they are moved together, and
            the column keeps the buffer alive.

    Raises:
        BatchError: A batch is broken, the bound was passed, or a column would exceed 2 GiB.
    """
    arrays = arrays_of(batches, max_bytes=max_bytes, may_overwrite=may_overwrite)
    return pyarrow().RecordBatch.from_arrays(arrays, schema=schema())


def arrays_of(
    batches: Iterable[Batch],
    *,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
    may_overwrite: bool = False,
) -> "list[pa.Array]":
    """The columns of `to_arrow`, for who puts them together in another way."""
    sections = []
    for batch in batches:
        section = batch.section(max_bytes)
        if batch.attributes & COMPRESSION_BITS:
            max_bytes -= len(section.body)
        sections.append(section)
    return _arrays(pyarrow(), kernel.columns(sections, may_overwrite))


def _arrays(pa: ModuleType, columns: Columns) -> "list[pa.Array]":
    types = _types()
    array, buffer = pa.Array.from_buffers, pa.py_buffer
    count, offset, timestamp_ms, key, value, headers = columns
    header_count = len(headers.keys.offsets) // 4 - 1
    entries = _header_array(pa, headers, header_count) if header_count else _no_headers()
    return [
        _binary_array(pa, types.binary, key, count),
        _binary_array(pa, types.binary, value, count),
        array(types.integer, count, [None, buffer(offset)]),
        array(types.timestamp, count, [None, buffer(timestamp_ms)]),
        array(types.headers, count, [None, buffer(headers.offsets)], children=[entries]),
    ]


def _header_array(pa: ModuleType, headers: HeaderColumn, count: int) -> "pa.StructArray":
    types = _types()
    children = [
        _binary_array(pa, types.text, headers.keys, count),
        _binary_array(pa, types.binary, headers.values, count),
    ]
    return pa.Array.from_buffers(types.header, count, [None], children=children)


@cache
def _no_headers() -> "pa.StructArray":
    """For the many batches without: arrays never change, so one is enough."""
    return pyarrow().array([], _types().header)


def _binary_array(
    pa: ModuleType, data_type: "pa.DataType", column: BinaryColumn, count: int
) -> "pa.Array":
    offsets, data, bits, _ = column
    validity = None if bits is None else pa.py_buffer(bits)
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(data_type, count, buffers)


def from_arrow(
    rows: "pa.RecordBatch | pa.Table", *, timestamp_ms: int, options: BatchOptions = _PLAIN
) -> bytearray:
    """The bytes of one batch with a record for each row.

    Columns are found by name, and those that are missing are null: `key` and `value` (binary or
    text), `timestamp` (a timestamp of any unit, or integer milliseconds), `headers` (lists of key
    and value, or maps).  `offset` is ignored, because the broker gives each record a new one.

    Args:
        rows: At least one row.
        timestamp_ms: For rows without a timestamp.
        options: What the batch says of itself.

    Raises:
        TypeError: A column has a type that cannot be written.
        ValueError: A column is not known, there are no rows, a header key is null, or a
            timestamp is below -1.
        BatchError: The rows are more than one batch can hold.
    """
    return build_columns(unwritten_columns(rows, timestamp_ms=timestamp_ms), options)


def whole_columns(
    rows: "pa.RecordBatch | pa.Table", *, timestamp_ms: int
) -> UnwrittenColumns | None:
    """As `unwritten_columns`, for who cuts them; None where that would copy more than a piece."""
    pa, types = pyarrow(), _types()
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if isinstance(column, pa.ChunkedArray) and column.num_chunks != 1:
            return None
        is_plain = column.type == types.binary or column.type == types.text
        if name not in ("key", "value") or not is_plain:
            return None
    return unwritten_columns(rows, timestamp_ms=timestamp_ms)


def cut(columns: UnwrittenColumns, start: int, count: int) -> UnwrittenColumns:
    """`count` rows from the one at `start` on, of `whole_columns`."""
    _, timestamp_ms, key, value, _ = columns
    return UnwrittenColumns(count, timestamp_ms, _from(key, start), _from(value, start))


def _from(column: BinaryColumn | None, start: int) -> BinaryColumn | None:
    if column is None:
        return None
    offsets, data, validity, first_row = column
    return BinaryColumn(offsets, data, validity, first_row + start)


def unwritten_columns(rows: "pa.RecordBatch | pa.Table", *, timestamp_ms: int) -> UnwrittenColumns:
    """The rows as `ottla.records.builder` takes them; see `from_arrow`, also for what it raises."""
    pa = pyarrow()
    names = rows.column_names
    if unknown := set(names) - set(COLUMN_NAMES):
        raise ValueError(f"columns {sorted(unknown)} are none of {', '.join(COLUMN_NAMES)}")

    def column(name: str) -> Any:
        if name not in names:
            return None
        found = rows.column(name)
        if not isinstance(found, pa.ChunkedArray):
            return found
        return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()  # which copies

    key, value, timestamp, headers = map(column, ("key", "value", "timestamp", "headers"))
    return UnwrittenColumns(
        rows.num_rows,
        timestamp_ms if timestamp is None else _timestamps_ms(pa, timestamp, timestamp_ms),
        None if key is None else _fields(_as_binary(pa, "key", key)),
        None if value is None else _fields(_as_binary(pa, "value", value)),
        None if headers is None else _header_column(pa, headers),
    )


def murmur2_of(keys: "pa.Array") -> "pa.Int32Array":
    """The murmur2 hash of each key, null where the key is null."""
    pa = pyarrow()
    column = _binary_column(_as_binary(pa, "key", keys))
    hashes = pa.py_buffer(kernel.murmur2_column(column, len(keys)))
    array = pa.Array.from_buffers(pa.int32(), len(keys), [None, hashes])
    if not keys.null_count:
        return array
    from pyarrow import compute

    return compute.if_else(keys.is_valid(), array, None)


def _as_binary(pa: ModuleType, name: str, array: Any) -> Any:
    if array.type == _types().binary or array.type == _types().text:
        return array
    types = pa.types
    if not (
        types.is_large_binary(array.type)
        or types.is_large_string(array.type)
        or types.is_fixed_size_binary(array.type)
        or types.is_null(array.type)
    ):
        raise TypeError(f"column {name} must be binary or text, not {array.type}")
    return array.cast(_types().binary)


def _timestamps_ms(pa: ModuleType, array: Any, default_ms: int) -> Binary:
    if array.type == _types().timestamp:
        pass
    elif pa.types.is_timestamp(array.type):
        # Not "safe": the protocol has no microseconds, so cutting them off is no loss to report.
        array = array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False)
    elif array.type != pa.int64() and not pa.types.is_null(array.type):
        raise TypeError(f"column timestamp must be a timestamp or int64, not {array.type}")
    if array.null_count:
        array = array.cast(pa.int64()).fill_null(default_ms)
    buffer = array.buffers()[1]
    return memoryview(buffer or b"")[8 * array.offset :]


def _fields(array: Any) -> BinaryColumn | None:
    # Where every row is null, the codec need not look at each of them.
    return None if array.null_count == len(array) else _binary_column(array)


def _binary_column(array: Any) -> BinaryColumn:
    validity, offsets, data = array.buffers()
    # Arrow may leave out what no row needs.
    return BinaryColumn(
        offsets or bytes(4), data or b"", validity if array.null_count else None, array.offset
    )


def with_plain_headers(rows: Any) -> Any:
    """The rows, with headers as `to_arrow` makes them: for who measures them, or cuts them.

    Other types say a key once that many headers have, or leave out how long each is.
    """
    names = rows.column_names
    if "headers" not in names or rows.schema.field("headers").type == _types().headers:
        return rows
    pa = pyarrow()
    columns = dict(zip(names, rows.columns, strict=True))
    column = columns["headers"]
    if isinstance(column, pa.ChunkedArray):
        chunks = [_plain_headers(pa, chunk) for chunk in column.chunks]
        columns["headers"] = pa.chunked_array(chunks, _types().headers)
    else:
        columns["headers"] = _plain_headers(pa, column)
    return type(rows).from_arrays(list(columns.values()), names=names)


def _plain_headers(pa: ModuleType, array: Any) -> "pa.ListArray":
    wanted, types = _types(), pa.types
    if array.type == wanted.headers:
        return array
    try:
        if types.is_map(array.type):
            parts = [array.keys, array.items]
            entries = pa.StructArray.from_arrays(parts, names=["key", "value"]).cast(wanted.header)
            buffers, offset = array.buffers()[:2], array.offset
            return pa.Array.from_buffers(
                wanted.headers, len(array), buffers, offset=offset, children=[entries]
            )
        if types.is_list(array.type) or types.is_large_list(array.type):
            return array.cast(wanted.headers)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise _not_headers(array.type) from error
    raise _not_headers(array.type)


def _not_headers(data_type: "pa.DataType") -> TypeError:
    return TypeError(f"column headers must be a list of key and value, not {data_type}")


def _header_column(pa: ModuleType, array: Any) -> HeaderColumn | None:
    array = _plain_headers(pa, array)
    entries = array.values
    if not len(entries):
        return None
    keys, values = entries.flatten()
    validity, offsets = array.buffers()[:2]
    return HeaderColumn(
        offsets or bytes(4),
        _binary_column(keys),
        _binary_column(values),
        validity if array.null_count else None,
        array.offset,
    )
