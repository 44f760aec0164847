"""Arrow columns: what comes out is valid Arrow, and what goes in may look many ways."""

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from ottla.errors import BatchError, ErrorCode
from ottla.records.arrow import (
    cut,
    from_arrow,
    murmur2_of,
    schema,
    to_arrow,
    unwritten_columns,
    whole_columns,
)
from ottla.records.batch import Batch
from ottla.records.builder import BatchOptions, build, build_columns
from ottla.records.compression import Compression
from ottla.records.kernel import kernel

NOW_MS = 1_700_000_000_000
RECORDS = [
    (NOW_MS, b"k", None, ()),
    (NOW_MS + 1, None, b"value", [("h", b"1"), ("ä", None)]),
    (NOW_MS + 2, b"", b"", [("j", b"")]),
]


def columns(records: Any = RECORDS, **options: Any) -> pa.RecordBatch:
    return to_arrow([Batch.parse(build(records, BatchOptions(**options)))])


def written(rows: pa.RecordBatch | pa.Table) -> list[tuple[Any, ...]]:
    """Timestamp, key, value and headers of each record that `rows` become."""
    records = Batch.parse(from_arrow(rows, timestamp_ms=NOW_MS)).record_list()
    return [record[1:] for record in records]


def test_columns_are_valid_arrow_and_say_what_the_records_say() -> None:
    rows = columns(base_offset=70)

    rows.validate(full=True)
    assert rows.schema == schema()
    assert rows.to_pylist()[1] == {
        "key": None,
        "value": b"value",
        "offset": 71,
        "timestamp": datetime.fromtimestamp(NOW_MS / 1000, UTC).replace(microsecond=1000),
        "headers": [{"key": "h", "value": b"1"}, {"key": "ä", "value": None}],
    }
    assert rows.column("key").to_pylist() == [b"k", None, b""]
    assert rows.column("value").to_pylist() == [None, b"value", b""]


def test_several_batches_become_one_table() -> None:
    batches = [Batch.parse(build(RECORDS, BatchOptions(base_offset=at))) for at in (0, 3, 9)]

    rows = to_arrow(batches)

    rows.validate(full=True)
    assert rows.column("offset").to_pylist() == [0, 1, 2, 3, 4, 5, 9, 10, 11]
    assert rows.column("headers").to_pylist() == columns().column("headers").to_pylist() * 3


def test_no_batches_become_no_rows() -> None:
    rows = to_arrow([])

    rows.validate(full=True)
    assert rows.num_rows == 0


def test_a_header_key_that_is_not_utf_8_still_gives_valid_arrow() -> None:
    body = bytes.fromhex("16000000010102" + "06" + "61ff62" + "01")
    data = build([(NOW_MS, None, None, ())])[:61] + body
    data[8:12] = (len(data) - 12).to_bytes(4)

    rows = to_arrow([Batch.parse(data)])

    rows.validate(full=True)
    assert rows.column("headers").to_pylist() == [[{"key": "a\ufffdb", "value": None}]]


def test_the_bound_is_for_all_batches_together() -> None:
    data = build([(NOW_MS, None, bytes(6000), ())], BatchOptions(compression=Compression.GZIP))
    batch = Batch.parse(data)

    assert to_arrow([batch], max_bytes=10_000).num_rows == 1
    with pytest.raises(BatchError) as caught:
        to_arrow([batch, batch], max_bytes=10_000)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_columns_beyond_2_gib_are_refused() -> None:
    if "_codec" not in kernel.__name__:
        pytest.skip("the Python twin would first hold the 2 GiB as objects")
    data = build([(NOW_MS, None, bytes(2**25), ())])
    with pytest.raises(BatchError, match="column value exceeds 2 GiB"):
        to_arrow([Batch.parse(data)] * 65)


def test_what_was_read_can_be_written() -> None:
    assert from_arrow(columns(), timestamp_ms=0) == build(RECORDS)


@pytest.mark.parametrize("first", range(3))
def test_slices_write_their_own_rows(first: int) -> None:
    assert from_arrow(columns().slice(first), timestamp_ms=0) == build(RECORDS[first:])
    assert from_arrow(columns().slice(first, 1), timestamp_ms=0) == build(
        RECORDS[first : first + 1]
    )


def keyed_rows() -> pa.RecordBatch:
    keys = pa.array([b"a", None, b"", b"dd", None, b"f"], pa.binary())
    values = pa.array(["one", "two", None, "", "five", "six"], pa.string())
    return pa.record_batch({"key": keys, "value": values})


@pytest.mark.parametrize(
    "rows", [keyed_rows(), keyed_rows()[1:], pa.table(keyed_rows().columns, ["key", "value"])]
)
@pytest.mark.parametrize("start", [0, 1, 3])
@pytest.mark.parametrize("count", [1, 2])
def test_a_cut_of_open_columns_writes_what_a_slice_would(
    rows: pa.RecordBatch | pa.Table, start: int, count: int
) -> None:
    whole = whole_columns(rows, timestamp_ms=NOW_MS)
    assert whole is not None

    piece = build_columns(cut(whole, start, count))

    assert piece == from_arrow(rows.slice(start, count), timestamp_ms=NOW_MS)


def test_columns_that_would_be_copied_are_not_opened_as_a_whole() -> None:
    rows = pa.Table.from_batches([keyed_rows()])
    large = rows.set_column(1, "value", rows["value"].cast(pa.large_string()))
    assert whole_columns(rows, timestamp_ms=NOW_MS) is not None
    assert whole_columns(pa.concat_tables([rows, rows]), timestamp_ms=NOW_MS) is None
    assert whole_columns(large, timestamp_ms=NOW_MS) is None
    assert whole_columns(columns(), timestamp_ms=NOW_MS) is None


def test_a_table_of_one_chunk_is_opened_without_a_copy() -> None:
    rows = pa.Table.from_batches([keyed_rows()])
    opened = unwritten_columns(rows, timestamp_ms=NOW_MS).value
    assert opened is not None
    data: Any = opened.data
    assert data.address == rows["value"].chunk(0).buffers()[2].address


def test_a_table_of_several_chunks_is_written_whole() -> None:
    table = pa.Table.from_batches([columns(), columns().slice(1)])

    assert from_arrow(table, timestamp_ms=0) == build(RECORDS + RECORDS[1:])


@pytest.mark.parametrize(
    "data_type",
    [pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.binary(2)],
)
def test_keys_and_values_may_be_any_binary_or_text(data_type: pa.DataType) -> None:
    data = pa.array([b"ab", None, b"cd"] if "binary" in str(data_type) else ["ab", None, "cd"])
    rows = pa.record_batch({"key": data.cast(data_type), "value": data.cast(data_type)})

    assert [record[1:3] for record in written(rows)] == [
        (b"ab", b"ab"),
        (None, None),
        (b"cd", b"cd"),
    ]
    assert [record[1] for record in written(rows.slice(1))] == [None, b"cd"]


def test_columns_that_are_missing_or_null_are_null() -> None:
    rows = pa.record_batch({"value": pa.nulls(2)})

    assert written(rows) == [(NOW_MS, None, None, ())] * 2


@pytest.mark.parametrize(
    ("unit", "number"), [("s", 1_600_000_000), ("ms", 1_600_000_000_000), ("ns", 16 * 10**17 + 5)]
)
@pytest.mark.parametrize("tz", [None, "UTC", "Europe/Prague"])
def test_timestamps_of_any_unit_become_milliseconds(unit: str, number: int, tz: str | None) -> None:
    times = pa.array([number, None], pa.timestamp(unit, tz=tz))

    assert [record[0] for record in written(pa.record_batch({"timestamp": times}))] == [
        1_600_000_000_000,
        NOW_MS,
    ]


def test_integer_timestamps_are_milliseconds() -> None:
    rows = pa.record_batch({"timestamp": pa.array([1, None, 3], pa.int64())})

    assert [record[0] for record in written(rows.slice(1))] == [NOW_MS, 3]


@pytest.mark.parametrize(
    "data_type",
    [
        pa.map_(pa.string(), pa.binary()),
        pa.map_(pa.large_string(), pa.large_binary()),
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])),
        pa.list_(
            pa.struct([("key", pa.dictionary(pa.int8(), pa.string())), ("value", pa.binary(1))])
        ),
    ],
)
def test_headers_may_be_lists_or_maps(data_type: pa.DataType) -> None:
    some: list[Any] = [[("a", b"1")], None, [], [("b", None), ("c", b"3")]]
    if not pa.types.is_map(data_type):
        some = [row and [{"key": key, "value": value} for key, value in row] for row in some]
    rows = pa.record_batch({"headers": pa.array(some, data_type)})

    expected: list[Any] = [(("a", b"1"),), (), (), (("b", None), ("c", b"3"))]
    assert [record[3] for record in written(rows)] == expected
    assert [record[3] for record in written(rows.slice(2))] == expected[2:]


@pytest.mark.parametrize(
    "data_type",
    [
        pa.map_(pa.string(), pa.null()),
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.null())])),
        pa.large_list(pa.struct([("key", pa.string()), ("value", pa.null())])),
    ],
)
def test_headers_may_all_be_without_values(data_type: pa.DataType) -> None:
    some: list[Any] = [[("a", None), ("b", None)], None, [("c", None)]]
    if not pa.types.is_map(data_type):
        some = [row and [{"key": key, "value": value} for key, value in row] for row in some]
    rows = pa.record_batch({"headers": pa.array(some, data_type)})

    expected: list[Any] = [(("a", None), ("b", None)), (), (("c", None),)]
    assert [record[3] for record in written(rows)] == expected
    assert [record[3] for record in written(rows.slice(1))] == expected[1:]


@pytest.mark.parametrize(
    "rows",
    [
        {"key": pa.array([1, 2])},
        {"value": pa.array([["a"], None])},
        {"timestamp": pa.array(["now", "then"])},
        {"timestamp": pa.array([1.5, 2.5])},
        {"headers": pa.array(["a", "b"])},
        {"headers": pa.array([["a"], ["b"]])},
        {"headers": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))},
        {"headers": pa.array([[{"name": "a", "value": b""}]])},
    ],
)
def test_columns_of_another_type_are_refused(rows: dict[str, pa.Array]) -> None:
    with pytest.raises(TypeError, match=r"column .* must be"):
        written(pa.record_batch(rows))


def test_a_null_header_key_is_refused() -> None:
    entry = pa.struct([("key", pa.string()), ("value", pa.binary())])
    headers = pa.array([[{"key": None, "value": b""}]], pa.list_(entry))

    with pytest.raises(ValueError, match="null"):
        written(pa.record_batch({"headers": headers}))


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(ValueError, match=r"columns \['vlaue'\] are none of key, value"):
        written(pa.record_batch({"vlaue": pa.array([b"x"])}))


def test_no_rows_are_no_batch() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        written(columns().slice(3))


def test_the_hash_of_a_null_key_is_null() -> None:
    hashes = murmur2_of(pa.array(["21", None, "foobar"]))

    assert hashes.type == pa.int32()
    assert hashes.to_pylist() == [-973932308, None, -790332482]
    assert murmur2_of(pa.array([b"21"])).to_pylist() == [-973932308]
    assert murmur2_of(pa.array(["21", None, "foobar"]).slice(2)).to_pylist() == [-790332482]


def test_without_pyarrow_the_error_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from ottla.records.arrow import to_arrow\n"
        "try: to_arrow([])\n"
        "except ModuleNotFoundError as error: assert \"pip install 'ottla[arrow]'\" in str(error)\n"
        "else: raise AssertionError('no error')\n"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_importing_the_package_does_not_import_pyarrow() -> None:
    program = "import ottla.records.arrow, sys; sys.exit('pyarrow' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
