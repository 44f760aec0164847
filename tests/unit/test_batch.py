"""The view on a batch: header fields, flags, offsets set in place, and what is refused."""

import struct

import pytest

from ottla.errors import BatchError, ErrorCode
from ottla.records.batch import Batch, TimestampType, batches
from ottla.records.builder import BatchOptions, build
from ottla.records.compression import Compression

NOW_MS = 1_700_000_000_000
RECORDS = [(NOW_MS, b"k1", b"v1", ()), (NOW_MS + 9, None, b"v2", [("h", b"x")])]


def one_batch(**options: object) -> bytearray:
    return build(RECORDS, BatchOptions(**options))  # type: ignore[arg-type]


def refused(data: bytearray) -> BatchError:
    with pytest.raises(BatchError) as caught:
        Batch.parse(data)
    return caught.value


def test_every_header_field_is_read() -> None:
    options = BatchOptions(
        base_offset=1234,
        partition_leader_epoch=7,
        producer_id=2**40,
        producer_epoch=3,
        base_sequence=55,
        is_transactional=True,
    )
    batch = Batch.parse(build(RECORDS, options))

    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (1234, 1235, 1236)
    assert batch.partition_leader_epoch == 7
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (NOW_MS, NOW_MS + 9)
    assert (batch.producer_id, batch.producer_epoch) == (2**40, 3)
    assert (batch.base_sequence, batch.last_sequence) == (55, 56)
    assert (batch.record_count, batch.last_offset_delta) == (2, 1)
    assert batch.is_transactional
    assert not batch.is_control
    assert batch.delete_horizon_ms is None
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert batch.compression is Compression.NONE


def test_the_batch_is_a_view_and_not_a_copy() -> None:
    data = one_batch()
    batch = Batch.parse(data)

    data[7] = 9

    assert batch.data[7] == 9
    assert batch.size_bytes == len(data)


@pytest.mark.parametrize(
    ("attributes", "name", "expected"),
    [
        (0x08, "timestamp_type", TimestampType.LOG_APPEND_TIME),
        (0x10, "is_transactional", True),
        (0x20, "is_control", True),
        (0x40, "delete_horizon_ms", NOW_MS),
        (0x01, "compression", Compression.GZIP),
        (0x04, "compression", Compression.ZSTD),
    ],
)
def test_each_attribute_bit_has_its_meaning(attributes: int, name: str, expected: object) -> None:
    data = one_batch()
    struct.pack_into(">h", data, 21, attributes)
    batch, plain = Batch.parse(data), Batch.parse(one_batch())

    assert getattr(batch, name) == expected
    names = {"timestamp_type", "is_transactional", "is_control", "delete_horizon_ms", "compression"}
    for other in names - {name}:
        assert getattr(batch, other) == getattr(plain, other)


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_an_unknown_compression_is_refused_when_asked_for(codec_id: int) -> None:
    data = one_batch()
    struct.pack_into(">h", data, 21, codec_id)
    batch = Batch.parse(data)

    for read in (lambda: batch.compression, batch.records, batch.record_list, batch.survey):
        with pytest.raises(BatchError) as caught:
            read()
        assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_offset_and_leader_epoch_are_set_in_place_and_keep_the_checksum() -> None:
    data = one_batch()
    batch = Batch.parse(data)

    batch.place(2**40, 17)

    again = Batch.parse(data)
    again.check_crc()
    assert (again.base_offset, again.partition_leader_epoch) == (2**40, 17)
    assert batch.partition_leader_epoch == 17
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (
        2**40,
        2**40 + 1,
        2**40 + 2,
    )
    assert [record[0] for record in batch.records()] == [2**40, 2**40 + 1]


def test_read_only_bytes_cannot_be_given_an_offset() -> None:
    batch = Batch.parse(bytes(one_batch()))

    with pytest.raises(TypeError, match="read-write"):
        batch.place(5, 0)

    assert batch.base_offset == 0


def test_append_time_is_stamped_on_every_record() -> None:
    data = one_batch()

    Batch.parse(data).stamp_append_time(NOW_MS + 1000)

    batch = Batch.parse(data)
    batch.check_crc()
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record[1] for record in batch.records()] == [NOW_MS + 1000] * 2


def test_sequence_numbers_start_again_after_the_largest() -> None:
    batch = Batch.parse(one_batch(producer_id=1, producer_epoch=0, base_sequence=2**31 - 1))

    assert batch.last_sequence == 0
    assert Batch.parse(one_batch()).last_sequence == -1


def test_every_flipped_bit_behind_the_checksum_is_noticed() -> None:
    data = one_batch()
    for position in range(17, len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        try:
            batch = Batch.parse(damaged)
        except BatchError:
            continue  # the header made no sense any more
        with pytest.raises(BatchError, match="has checksum") as caught:
            batch.check_crc()
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused_with_advice(magic: int) -> None:
    data = one_batch()
    data[16] = magic

    error = refused(data)

    assert error.code is ErrorCode.INVALID_RECORD
    assert f"magic {magic}" in str(error)
    assert "use a client that sends magic 2" in str(error)


def test_an_unknown_magic_is_corruption() -> None:
    data = one_batch()
    data[16] = 3

    assert refused(data).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size", [0, 1, 11, 12, 16, 17, 60, 61, 84])
def test_a_batch_cut_short_is_corrupt(size: int) -> None:
    assert refused(one_batch()[:size]).code is ErrorCode.CORRUPT_MESSAGE


def test_bytes_after_the_batch_are_refused() -> None:
    error = refused(one_batch() + b"x")

    assert error.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 2**31 - 1])
def test_a_length_that_lies_is_corrupt(length: int) -> None:
    data = one_batch()
    struct.pack_into(">i", data, 8, length)

    assert refused(data).code is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(BatchError):
        list(batches(data, partial_tail=False))


@pytest.mark.parametrize("position", [23, 57])
def test_negative_counts_are_refused(position: int) -> None:
    data = one_batch()
    struct.pack_into(">i", data, position, -1)

    assert refused(data).code is ErrorCode.INVALID_RECORD


def test_text_is_not_a_batch() -> None:
    with pytest.raises(TypeError):
        Batch.parse("text")  # type: ignore[arg-type]


def test_all_batches_of_a_blob_are_walked() -> None:
    data = one_batch() + one_batch(base_offset=2) + one_batch(base_offset=4)

    for partial_tail in (True, False):
        found = [batch.base_offset for batch in batches(data, partial_tail=partial_tail)]
        assert found == [0, 2, 4]


def test_no_bytes_are_no_batches() -> None:
    assert list(batches(b"", partial_tail=False)) == []
    assert list(batches(b"", partial_tail=True)) == []


def test_a_partial_last_batch_ends_the_walk_where_that_is_allowed() -> None:
    data = one_batch()
    for size in range(1, len(data)):
        cut = data + one_batch(base_offset=2)[:size]

        assert [batch.base_offset for batch in batches(cut, partial_tail=True)] == [0]
        with pytest.raises(BatchError) as caught:
            list(batches(cut, partial_tail=False))
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_broken_batch_is_not_mistaken_for_a_partial_one() -> None:
    short_length = one_batch()
    struct.pack_into(">i", short_length, 8, 20)
    old_magic = one_batch()
    old_magic[16] = 1

    for broken in (short_length, old_magic, bytes(100)):
        with pytest.raises(BatchError):
            list(batches(one_batch() + broken, partial_tail=True))


def test_records_are_read_lazily_and_in_bulk() -> None:
    batch = Batch.parse(one_batch(base_offset=5))
    expected = [(5, NOW_MS, b"k1", b"v1", ()), (6, NOW_MS + 9, None, b"v2", (("h", b"x"),))]

    assert list(batch.records()) == expected
    assert batch.record_list() == expected
    assert batch.survey().null_key_count == 1


@pytest.mark.parametrize("compression", list(Compression))
def test_compressed_records_are_read_within_a_bound(compression: Compression) -> None:
    records = [(NOW_MS, None, bytes(1000), ())] * 50
    batch = Batch.parse(build(records, BatchOptions(compression=compression)))

    assert batch.record_list() == [(i, NOW_MS, None, bytes(1000), ()) for i in range(50)]
    if compression is not Compression.NONE:
        for read in (batch.records, batch.record_list, batch.survey, batch.section):
            with pytest.raises(BatchError) as caught:
                read(max_bytes=10_000)
            assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_that_compaction_emptied_has_no_records() -> None:
    data = one_batch(compression=Compression.LZ4)[:61]
    struct.pack_into(">i", data, 8, 49)
    struct.pack_into(">i", data, 57, 0)

    batch = Batch.parse(data)

    assert batch.record_list() == []
    assert batch.next_offset == 2


def test_a_batch_says_what_it_is() -> None:
    text = repr(Batch.parse(one_batch(base_offset=5)))

    assert text == f"<Batch 5..6, 2 records, {len(one_batch())} bytes, attributes 0x00>"
