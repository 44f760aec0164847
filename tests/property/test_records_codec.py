"""For every record and every noise: both twins do the same, and noise is only ever refused."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.errors import BatchError
from ottla.records import codec
from ottla.records.batch import Batch, batches
from ottla.records.builder import BatchOptions, build, record_size_bound
from ottla.records.compression import Compression
from ottla.records.shapes import (
    BATCH_HEADER_BYTES,
    MAX_INT64,
    BinaryColumn,
    Columns,
    Common,
    Section,
    UnwrittenColumns,
)
from tests.record_peers import kafka_python_murmur2, kafka_python_records, peer_batch, read_by_peer
from tests.record_twins import BOTH, compiled_twin

SIZES_THAT_MATTER = st.sampled_from([0, 1, 62, 63, 64, 65, 127, 128, 8191, 8192])
FIELDS = st.none() | st.binary(max_size=40) | SIZES_THAT_MATTER.map(bytes)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
HEADERS = st.lists(st.tuples(TEXTS, st.none() | st.binary(max_size=12)), max_size=4)
TIMES_MS = st.integers(-1, 2**41) | st.integers(-1, 2**62)
RECORDS = st.lists(st.tuples(TIMES_MS, FIELDS, FIELDS, HEADERS), max_size=8)
SOME_RECORDS = st.lists(st.tuples(TIMES_MS, FIELDS, FIELDS, HEADERS), min_size=1, max_size=8)
INT64S = st.integers(-MAX_INT64 - 1, MAX_INT64)

COMMON = Common(tuple, "orders", 0, 0, 0, (), lambda headers: headers)

Record = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


@pytest.fixture(params=BOTH, scope="module")
def twin(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


@pytest.fixture(scope="module")
def compiled() -> ModuleType:
    return compiled_twin()


def read(records: list[Record], base_offset: int = 0) -> list[tuple[Any, ...]]:
    """What reading `records` must give."""
    return [
        (base_offset + index, timestamp_ms, key, value, tuple(headers))
        for index, (timestamp_ms, key, value, headers) in enumerate(records)
    ]


def outcome(act: Callable[[], Any]) -> Any:
    """What `act` returns, or how it refuses.  Every other exception fails the test."""
    try:
        return act()
    except BatchError as error:
        return type(error), error.code, str(error)


@given(records=RECORDS, base_offset=st.integers(0, 2**62))
def test_decoding_undoes_encoding(
    twin: ModuleType, records: list[Record], base_offset: int
) -> None:
    encoded = twin.encode(records)
    section = Section(encoded.data, len(records), base_offset, encoded.base_timestamp_ms)

    assert encoded.record_count == len(records)
    assert encoded.max_timestamp_ms == max((record[0] for record in records), default=-1)
    assert twin.decode(section) == read(records, base_offset)
    assert list(twin.iterate(section)) == read(records, base_offset)


@given(records=RECORDS, base_ms=st.none() | st.integers(0, 2**42), headroom=st.integers(0, 99))
def test_twins_write_the_same_bytes(
    compiled: ModuleType, records: list[Record], base_ms: int | None, headroom: int
) -> None:
    expected = codec.encode(records, base_ms, headroom)

    assert compiled.encode(records, base_ms, headroom) == expected
    assert compiled.encode(iter(records), base_ms, headroom) == expected


@st.composite
def damaged_sections(draw: st.DrawFn) -> Section:
    """The records of a good batch, then cut, grown or changed, with a count that may lie."""
    records = draw(SOME_RECORDS)
    encoded = codec.encode(records)
    body = encoded.data
    for _ in range(draw(st.integers(0, 3))):
        if body:
            body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    body = body[: draw(st.just(len(body)) | st.integers(0, len(body)))]
    body += draw(st.just(b"") | st.binary(max_size=9))
    count = draw(st.just(len(records)) | st.integers(-2, 12))
    append_time_ms = draw(st.none() | INT64S)
    return Section(bytes(body), count, draw(INT64S), draw(INT64S), append_time_ms)


NOISE = st.builds(
    Section, st.binary(max_size=80), st.integers(-1, 9), INT64S, INT64S, st.none() | INT64S
)


@given(section=damaged_sections() | NOISE)
def test_twins_agree_on_every_damage(compiled: ModuleType, section: Section) -> None:
    expected = outcome(lambda: codec.decode(section))

    assert outcome(lambda: compiled.decode(section)) == expected
    assert outcome(lambda: list(compiled.iterate(section))) == expected
    assert outcome(lambda: compiled.decode_as(section, COMMON)) == outcome(
        lambda: codec.decode_as(section, COMMON)
    )
    assert outcome(lambda: compiled.survey(section)) == outcome(lambda: codec.survey(section))
    assert outcome(lambda: compiled.columns([section])) == outcome(lambda: codec.columns([section]))


@given(section=damaged_sections() | NOISE)
def test_damage_never_gives_more_than_the_bytes_hold(twin: ModuleType, section: Section) -> None:
    try:
        records = twin.decode(section)
    except BatchError:
        return

    assert len(records) == section.record_count
    read_bytes = sum(len(field) for record in records for field in record[2:4] if field)
    assert read_bytes + 7 * len(records) <= len(section.body)


@given(
    records=SOME_RECORDS,
    position=st.integers(0, 200),
    damage=st.integers(1, 255),
    size=st.none() | st.integers(0, 200),
    compression=st.sampled_from(Compression),
)
def test_a_damaged_batch_is_refused_or_fails_its_checksum(
    records: list[Record],
    position: int,
    damage: int,
    size: int | None,
    compression: Compression,
) -> None:
    good = build(records, BatchOptions(compression=compression))
    bad = bytearray(good)
    bad[position % len(bad)] ^= damage
    bad = bad[:size]

    for batch in _whole_batches(bad):
        if bytes(batch.data[17:]) != bytes(good[17:]):
            with pytest.raises(BatchError):
                batch.check_crc()
        outcome(lambda batch=batch: batch.record_list(1 << 20))  # type: ignore[misc]
        outcome(lambda batch=batch: list(batch.records(1 << 20)))  # type: ignore[misc]
        outcome(lambda batch=batch: batch.survey(1 << 20))  # type: ignore[misc]


def _whole_batches(data: bytearray) -> list[Batch]:
    found: list[Batch] = []
    for partial_tail in (True, False):
        try:
            found += batches(data, partial_tail=partial_tail)
        except BatchError:
            continue
    return found


@given(data=st.binary(max_size=200), partial_tail=st.booleans())
@example(data=bytes(16) + b"\2" + bytes(60), partial_tail=True)
def test_noise_is_no_batch(data: bytes, partial_tail: bool) -> None:
    result = outcome(lambda: list(batches(data, partial_tail=partial_tail)))

    assert result == [] or isinstance(result, tuple)


@given(records=SOME_RECORDS, compression=st.sampled_from(Compression))
def test_every_batch_survives_every_codec(records: list[Record], compression: Compression) -> None:
    batch = Batch.parse(build(records, BatchOptions(base_offset=7, compression=compression)))

    batch.check_crc()
    assert batch.record_list() == read(records, 7)
    assert batch.max_timestamp_ms == max(record[0] for record in records)


@given(records=SOME_RECORDS)
def test_a_peer_builds_the_same_bytes_and_reads_the_same_records(records: list[Record]) -> None:
    ours = build(records, BatchOptions(partition_leader_epoch=0))
    theirs = bytearray(peer_batch(kafka_python_records, records))
    theirs[12:16] = bytes(4)  # the leader epoch is the broker's to set, and peers differ

    assert ours == theirs
    assert read_by_peer(kafka_python_records, bytes(ours)) == read(records)


@given(records=SOME_RECORDS)
def test_no_batch_outgrows_the_bound_of_its_records(records: list[Record]) -> None:
    bound = sum(record_size_bound(key, value, headers) for _, key, value, headers in records)

    assert len(build(records)) <= BATCH_HEADER_BYTES + bound


@given(records=SOME_RECORDS)
def test_columns_hold_the_same_records(twin: ModuleType, records: list[Record]) -> None:
    encoded = twin.encode(records)
    section = Section(encoded.data, len(records), 0, encoded.base_timestamp_ms)

    columns: Columns = twin.columns([section, section])

    assert columns == codec.columns([section, section])
    received = section._replace(body=memoryview(bytearray(section.body)))
    assert twin.columns([received], True) == codec.columns([section])
    unwritten = UnwrittenColumns(
        columns.record_count, columns.timestamp_ms, columns.key, columns.value, columns.headers
    )
    again = twin.encode_columns(unwritten, headroom_bytes=5)
    assert again == twin.encode(records + records, headroom_bytes=5)


@given(records=SOME_RECORDS, data=st.data())
def test_slices_of_columns_are_slices_of_records(
    twin: ModuleType, records: list[Record], data: st.DataObject
) -> None:
    columns = codec.columns([_section(records)])
    first = data.draw(st.integers(0, len(records) - 1))
    count = data.draw(st.integers(0, len(records) - first))

    sliced = UnwrittenColumns(
        count,
        columns.timestamp_ms[8 * first :],
        columns.key._replace(first_row=first),
        columns.value._replace(first_row=first),
        columns.headers._replace(first_row=first),
    )

    assert twin.encode_columns(sliced) == codec.encode(records[first : first + count])


def _section(records: list[Record]) -> Section:
    encoded = codec.encode(records)
    return Section(encoded.data, len(records), 0, encoded.base_timestamp_ms)


@given(records=SOME_RECORDS, data=st.data())
def test_twins_agree_on_columns_that_contradict_themselves(
    compiled: ModuleType, records: list[Record], data: st.DataObject
) -> None:
    columns = codec.columns([_section(records)])

    def damaged(buffer: Any) -> bytes | None:
        if buffer is None:
            return None
        changed = bytearray(buffer)
        if changed and data.draw(st.booleans()):
            position = data.draw(st.integers(0, len(changed) - 1))
            changed[position] = data.draw(st.integers(0, 255))
        return bytes(changed[: data.draw(st.just(len(changed)) | st.integers(0, len(changed)))])

    def damaged_column(column: BinaryColumn) -> BinaryColumn:
        return BinaryColumn(
            damaged(column.offsets) or b"",
            damaged(column.data) or b"",
            damaged(column.validity),
            data.draw(st.integers(0, 2)),
        )

    headers = columns.headers._replace(
        offsets=damaged(columns.headers.offsets) or b"",
        keys=damaged_column(columns.headers.keys),
        values=damaged_column(columns.headers.values),
    )
    unwritten = UnwrittenColumns(
        len(records),
        damaged(columns.timestamp_ms) or b"",
        damaged_column(columns.key),
        damaged_column(columns.value),
        headers,
    )

    def attempt(twin: Any) -> Any:
        try:
            return twin.encode_columns(unwritten)
        except ValueError:
            return ValueError

    assert attempt(compiled) == attempt(codec)


@given(key=st.binary(max_size=40))
def test_murmur2_is_the_peers(twin: ModuleType, key: bytes) -> None:
    assert twin.murmur2(key) & 0xFFFFFFFF == kafka_python_murmur2(key) & 0xFFFFFFFF


@given(keys=st.lists(st.none() | st.binary(max_size=12), max_size=20))
def test_the_hashes_of_a_column_are_those_of_its_keys(
    twin: ModuleType, keys: list[bytes | None]
) -> None:
    column = codec.columns([_section([(0, key, None, []) for key in keys])]).key
    hashes = memoryview(twin.murmur2_column(column, len(keys))).cast("i").tolist()

    assert hashes == [0 if key is None else twin.murmur2(key) for key in keys]


@given(data=st.binary(max_size=5000), cut=st.integers(0, 5000), start=st.integers(0, 9))
def test_twins_compute_the_same_checksum(
    compiled: ModuleType, data: bytes, cut: int, start: int
) -> None:
    data = data * 3
    view = memoryview(data)[start:]

    assert compiled.crc32c(view) == codec.crc32c(view)
    assert compiled.crc32c(data[cut:], compiled.crc32c(data[:cut])) == codec.crc32c(data)
