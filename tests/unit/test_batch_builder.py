"""Building batches: the same bytes as other clients build, and every option in its place."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from ottla.errors import BatchError, ErrorCode
from ottla.records.batch import CRC_AT, Batch, TimestampType
from ottla.records.builder import (
    BatchOptions,
    build,
    build_columns,
    crc_of_body,
    record_size_bound,
    seal,
)
from ottla.records.compression import Compression
from ottla.records.shapes import BATCH_HEADER_BYTES, UnwrittenColumns
from tests.record_peers import PEERS, peer_batch, read_by_peer

NOW_MS = 1_700_000_000_000

Records = list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]
SAMPLES: dict[str, Records] = {
    "one value": [(NOW_MS, None, b"value", [])],
    "keys and nulls": [(NOW_MS, b"k", None, []), (NOW_MS, b"", b"", []), (NOW_MS, None, b"v", [])],
    "headers": [(NOW_MS, b"k", b"v", [("a", b"1"), ("ä€😀", None), ("", b"")])],
    "times that jump": [
        (NOW_MS, None, b"v", []),
        (0, None, b"v", []),
        (NOW_MS + 2**33, None, b"", []),
    ],
    "many": [(NOW_MS + i, b"%d" % i, b"v" * i, []) for i in range(300)],
    "sizes around a varint's": [(NOW_MS, b"k" * n, b"v" * n, []) for n in (62, 63, 64, 8191, 8192)],
}


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_batch_has_the_same_bytes_as_a_peers(peer: str, sample: str) -> None:
    theirs = peer_batch(PEERS[peer], SAMPLES[sample], producer=(4000, 7, 12), is_transactional=True)
    options = BatchOptions(
        partition_leader_epoch=Batch.parse(theirs).partition_leader_epoch,
        producer_id=4000,
        producer_epoch=7,
        base_sequence=12,
        is_transactional=True,
    )

    assert build(SAMPLES[sample], options) == theirs


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("peer", PEERS)
def test_peers_read_what_we_compress_and_we_what_they_do(
    peer: str, compression: Compression
) -> None:
    if (peer, compression) == ("kafka-python", Compression.SNAPPY) and not find_spec("snappy"):
        pytest.skip("kafka-python needs python-snappy for this")
    records = SAMPLES["many"]
    ours = build(records, BatchOptions(compression=compression))
    theirs = Batch.parse(peer_batch(PEERS[peer], records, compression=compression))

    assert read_by_peer(PEERS[peer], bytes(ours)) == Batch.parse(ours).record_list()
    theirs.check_crc()
    assert theirs.record_list() == Batch.parse(ours).record_list()


@pytest.mark.parametrize(
    ("options", "attributes"),
    [
        ({}, 0x00),
        ({"compression": Compression.GZIP}, 0x01),
        ({"compression": Compression.ZSTD}, 0x04),
        ({"append_time_ms": 0}, 0x08),
        ({"is_transactional": True}, 0x10),
        ({"is_control": True}, 0x20),
        ({"delete_horizon_ms": 0}, 0x40),
        ({"is_control": True, "is_transactional": True, "compression": Compression.LZ4}, 0x33),
    ],
)
def test_each_option_sets_its_attribute_bit(options: dict[str, Any], attributes: int) -> None:
    batch = Batch.parse(build(SAMPLES["one value"], BatchOptions(**options)))

    batch.check_crc()
    assert batch.attributes == attributes


def test_with_append_time_every_record_has_it() -> None:
    batch = Batch.parse(build(SAMPLES["many"], BatchOptions(append_time_ms=NOW_MS - 500)))

    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert batch.max_timestamp_ms == NOW_MS - 500
    assert {record[1] for record in batch.records()} == {NOW_MS - 500}


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp_and_moves_no_record() -> None:
    horizon_ms = NOW_MS + 86_400_000
    batch = Batch.parse(build(SAMPLES["many"], BatchOptions(delete_horizon_ms=horizon_ms)))

    assert batch.delete_horizon_ms == batch.base_timestamp_ms == horizon_ms
    assert batch.max_timestamp_ms == NOW_MS + 299
    assert [record[1] for record in batch.records()] == [NOW_MS + i for i in range(300)]


@pytest.mark.parametrize("name", ["append_time_ms", "delete_horizon_ms"])
def test_times_before_1970_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} = -1 must not be negative"):
        BatchOptions(**{name: -1})  # type: ignore[arg-type]


def test_a_level_is_handed_to_the_codec() -> None:
    def size_at(level: int) -> int:
        options = BatchOptions(compression=Compression.GZIP, compression_level=level)
        return len(build(SAMPLES["many"], options))

    assert size_at(9) < size_at(1)


def test_a_batch_without_records_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build([])
    with pytest.raises(ValueError, match="at least one record"):
        build_columns(UnwrittenColumns(0, NOW_MS))


def test_rows_of_columns_make_the_same_batch_as_records() -> None:
    options = BatchOptions(base_offset=9, compression=Compression.GZIP)

    from_columns = build_columns(UnwrittenColumns(2, NOW_MS), options)

    assert from_columns == build([(NOW_MS, None, None, ())] * 2, options)


def test_records_that_no_batch_can_hold_are_refused() -> None:
    with pytest.raises(BatchError) as caught:
        build([(NOW_MS, None, bytes(2**31), ())])

    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("sample", SAMPLES)
def test_no_record_is_larger_than_its_bound(sample: str) -> None:
    bound = BATCH_HEADER_BYTES
    for _timestamp_ms, key, value, headers in SAMPLES[sample]:
        bound += record_size_bound(key, value, headers)

    assert len(build(SAMPLES[sample])) <= bound


def test_the_bound_counts_the_bytes_of_wide_views_and_characters() -> None:
    wide = memoryview(bytes(400)).cast("i")

    assert record_size_bound(None, wide) - record_size_bound(None, b"") == 400
    assert (
        record_size_bound(None, None, [("€", b"")]) - record_size_bound(None, None, [("e", b"")])
        == 2
    )


@pytest.mark.parametrize("count", [63, 64, 65, 66, 500, 5_000])
@pytest.mark.parametrize("value_bytes", [1, 200, 3_000])
@pytest.mark.parametrize("headers", [(), (("h", b"x"),)], ids=["plain", "headers"])
def test_an_iterable_of_any_length_gives_the_bytes_of_a_list(
    count: int, value_bytes: int, headers: tuple[tuple[str, bytes], ...]
) -> None:
    records = [(NOW_MS + n, b"%d" % n, bytes(value_bytes), headers) for n in range(count)]
    assert build(iter(records)) == build(records)


def test_an_iterable_may_grow_while_it_is_read() -> None:
    records = [(NOW_MS, None, b"first", ())]

    def growing() -> Iterator[tuple[int, bytes | None, bytes, tuple[()]]]:
        for record in records:
            if len(records) < 2_000:
                records.append((NOW_MS, None, bytes(len(records)), ()))
            yield record

    assert build(growing()) == build(records)


def test_a_batch_can_be_sealed_with_the_checksum_of_its_body() -> None:
    plain = build([(NOW_MS, b"key", b"value" * 100, ())])
    again = bytearray(plain)
    again[CRC_AT : CRC_AT + 4] = bytes(4)
    seal(again, crc_of_body(again))
    assert again == plain
