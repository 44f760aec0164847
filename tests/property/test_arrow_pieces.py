"""For every table: its pieces are the table again, and each of them fits into a batch."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.producer.pieces import pieces
from ottla.records.arrow import from_arrow, with_plain_headers
from ottla.records.shapes import BATCH_HEADER_BYTES

NOW_MS = 1_700_000_000_000

# Around the lengths at which a varint grows by a byte.
LENGTHS = st.sampled_from([0, 1, 62, 63, 64, 65, 8190, 8191, 8192, 8193]) | st.integers(0, 300)
FIELDS = st.none() | LENGTHS.map(bytes)
TIMES_MS = st.none() | st.sampled_from([-1, 0, NOW_MS, 2**62])
KINDS = st.sampled_from([pa.binary(), pa.large_binary()])
HEADERS = st.lists(st.tuples(st.text("ab", max_size=70), st.none() | st.binary(max_size=70)))
SAME_KEYS = st.lists(st.tuples(st.just("a" * 70), st.none()))
HEADER_KINDS = st.sampled_from(
    [
        (HEADERS, pa.map_(pa.string(), pa.binary())),
        (SAME_KEYS, pa.map_(pa.dictionary(pa.int8(), pa.string()), pa.binary())),
        (SAME_KEYS, pa.map_(pa.binary(70), pa.null())),
    ]
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A slice of a table with any of the columns."""
    count = draw(st.integers(1, 40))

    def column(cells: st.SearchStrategy[object], kind: pa.DataType) -> pa.Array:
        return pa.array(draw(st.lists(cells, min_size=count + 2, max_size=count + 2)), kind)

    columns = {"value": column(FIELDS, pa.binary()).cast(draw(KINDS))}
    if draw(st.booleans()):
        columns["key"] = column(FIELDS, pa.binary())
    if draw(st.booleans()):
        columns["timestamp"] = column(TIMES_MS, pa.int64())
    if draw(st.booleans()):
        columns["headers"] = column(*draw(HEADER_KINDS))
    table = pa.table(columns)
    if draw(st.booleans()):  # its rows do not lie together
        cut = draw(st.integers(0, count))
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    return table.slice(draw(st.integers(0, 2)), count)


@given(tables(), st.sampled_from([-61, 0, 1, 100, 1000, 8192, 10_000, 1 << 20, 1 << 28]))
def test_pieces_of_a_table_fit_into_batches_of_any_limit(table: pa.Table, limit: int) -> None:
    table = with_plain_headers(table)
    cut = list(pieces(table, limit))
    assert pa.concat_tables(cut).equals(table)
    for piece in cut:
        body_bytes = len(from_arrow(piece, timestamp_ms=NOW_MS)) - BATCH_HEADER_BYTES
        assert body_bytes <= limit or piece.num_rows == 1


@pytest.mark.parametrize("chunk_count", [1, 3])
def test_a_large_table_takes_hardly_more_batches_than_it_has_bytes_for(chunk_count: int) -> None:
    chunks = [pa.array([bytes(100)] * (90_000 // chunk_count), pa.binary())] * chunk_count
    rows = pa.table({"value": pa.chunked_array(chunks)})
    limit = (1 << 20) - BATCH_HEADER_BYTES
    sizes = [len(from_arrow(piece, timestamp_ms=NOW_MS)) for piece in pieces(rows, limit)]
    assert len(sizes) == -(-sum(sizes) // limit)
    assert max(sizes) - min(sizes) < 1000
