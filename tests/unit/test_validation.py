"""What a produced batch must be, and what a topic's settings make of it."""

from typing import Any

import pytest

from ottla.broker.validation import RejectedBatchError, Rules
from ottla.errors import BatchError, ErrorCode
from ottla.log.config import LogConfig
from ottla.records.batch import Batch, TimestampType
from ottla.records.builder import BatchOptions, build
from ottla.records.compression import Compression

NOW_MS = 1_700_000_000_000
HOUR_MS = 60 * 60 * 1000
BOUND_BYTES = 1 << 20
PLAIN = LogConfig()


def records(count: int = 3, *, key: bytes | None = b"k", at_ms: int = NOW_MS) -> list[Any]:
    return [(at_ms + n, key, b"value %d" % n * 20, (("h", b"x"),)) for n in range(count)]


def accepted(data: bytes | bytearray, config: LogConfig = PLAIN) -> Batch:
    rules = Rules(config, max_decompressed_bytes=BOUND_BYTES)
    return rules.accept(bytearray(data), now_ms=NOW_MS)


def refusal(data: bytes | bytearray, config: LogConfig = PLAIN) -> ErrorCode:
    with pytest.raises(BatchError) as caught:
        accepted(data, config)
    return caught.value.code


@pytest.mark.parametrize("compression", Compression)
def test_a_good_batch_is_accepted_as_it_is(compression: Compression) -> None:
    data = build(records(), BatchOptions(compression=compression))
    batch = accepted(data)
    assert bytes(batch.data) == bytes(data)


@pytest.mark.parametrize("wanted", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
@pytest.mark.parametrize("given", Compression)
def test_a_topic_can_ask_for_another_compression(given: Compression, wanted: str) -> None:
    sent = records()
    data = build(
        sent,
        BatchOptions(compression=given, producer_id=7, producer_epoch=2, base_sequence=40),
    )
    batch = accepted(data, LogConfig(compression_type=wanted))
    batch.check_crc()
    expected = Compression.NONE if wanted == "uncompressed" else Compression.named(wanted)
    assert batch.compression is expected
    assert [tuple(record[1:4]) for record in batch.records()] == [r[:3] for r in sent]
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 2, 40)


def test_a_recompressed_batch_stays_transactional() -> None:
    options = BatchOptions(is_transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    batch = accepted(build(records(), options), LogConfig(compression_type="zstd"))
    assert batch.is_transactional


@pytest.mark.parametrize("compression", ["producer", "lz4"])
def test_with_log_append_time_the_broker_sets_the_time(compression: str) -> None:
    config = LogConfig(message_timestamp_type="LogAppendTime", compression_type=compression)
    batch = accepted(build(records(at_ms=5)), config)
    batch.check_crc()
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record[1] for record in batch.records()} == {NOW_MS}


def test_a_client_may_not_claim_the_brokers_time() -> None:
    data = build(records(), BatchOptions(append_time_ms=NOW_MS))
    assert refusal(data) is ErrorCode.INVALID_TIMESTAMP


def test_every_record_of_a_compacted_topic_needs_a_key() -> None:
    mixed = records(2) + records(1, key=None) + records(1)
    with pytest.raises(RejectedBatchError) as caught:
        accepted(build(mixed), LogConfig(cleanup_policy=("compact",)))
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [record.index for record in caught.value.records] == [2]


@pytest.mark.parametrize(
    ("limits", "at_ms", "is_refused"),
    [
        ({"message_timestamp_before_max_ms": HOUR_MS}, NOW_MS - HOUR_MS, False),
        ({"message_timestamp_before_max_ms": HOUR_MS}, NOW_MS - HOUR_MS - 5, True),
        ({"message_timestamp_after_max_ms": HOUR_MS}, NOW_MS + HOUR_MS - 5, False),
        ({"message_timestamp_after_max_ms": HOUR_MS}, NOW_MS + HOUR_MS, True),
        ({}, 1, False),
    ],
)
def test_timestamps_must_lie_in_the_range_of_the_topic(
    limits: dict[str, int], at_ms: int, is_refused: bool
) -> None:
    data, config = build(records(2, at_ms=at_ms)), LogConfig(**limits)  # type: ignore[arg-type]
    if is_refused:
        assert refusal(data, config) is ErrorCode.INVALID_TIMESTAMP
    else:
        accepted(data, config)


def test_a_batch_above_the_limit_is_refused() -> None:
    data = build(records(50))
    accepted(data, LogConfig(max_message_bytes=len(data)))
    assert refusal(data, LogConfig(max_message_bytes=len(data) - 1)) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_that_recompression_makes_too_large_is_refused() -> None:
    data = build(records(500), BatchOptions(compression=Compression.ZSTD))
    config = LogConfig(compression_type="uncompressed", max_message_bytes=2 * len(data))
    assert refusal(data, config) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    data = build(records(50))
    config = LogConfig(segment_bytes=len(data) - 1)
    assert refusal(data, config) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_records_that_grow_beyond_the_bound_are_refused() -> None:
    bomb = [(NOW_MS, None, bytes(2 * BOUND_BYTES), ())]
    data = build(bomb, BatchOptions(compression=Compression.ZSTD))
    assert refusal(data) is ErrorCode.MESSAGE_TOO_LARGE


def test_there_must_be_exactly_one_batch() -> None:
    data = build(records())
    assert refusal(data + data) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "options",
    [
        BatchOptions(is_control=True),
        BatchOptions(base_offset=1),
        BatchOptions(producer_id=7, producer_epoch=0),
    ],
    ids=["control", "base offset", "no sequence number"],
)
def test_what_only_a_broker_may_say_is_refused(options: BatchOptions) -> None:
    assert refusal(build(records(), options)) is ErrorCode.INVALID_RECORD


def test_a_damaged_batch_is_refused() -> None:
    data = build(records())
    data[-1] ^= 1
    assert refusal(data) is ErrorCode.CORRUPT_MESSAGE
