"""Batches that must not get into a log: each is refused with the code that Kafka's clients expect.

After every refusal the log is as empty as before, and takes a good batch at offset 0.
"""

import struct
import time
import zlib
from pathlib import Path

import pytest

from ottla.broker.embedded import Broker
from ottla.errors import ErrorCode
from ottla.records.batch import CHECKED_FROM, CONTROL_BIT, CRC_AT
from ottla.records.builder import BatchOptions, build
from ottla.records.compression import Compression, compress
from ottla.records.control import Marker, build_marker
from ottla.records.kernel import kernel
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.broker.wire_client import PRODUCE_VERSION, WireClient, batch_of, produce_request

BASE_OFFSET_AT, LENGTH_AT, MAGIC_AT, ATTRIBUTES_AT = 0, 8, 16, 21
LAST_OFFSET_DELTA_AT, RECORD_COUNT_AT, RECORDS_AT = 23, 57, 61
MIB = 1024 * 1024
HOUR_MS = 3_600_000
MAX_TIMESTAMP = -3
"""The timestamp that asks ListOffsets for the youngest record."""

CLEAR_PEAK = Path("/proc/self/clear_refs")


def peak_resident_bytes() -> int:
    """The most memory that the process had since CLEAR_PEAK was written, native code included."""
    status = Path("/proc/self/status").read_text("utf-8").splitlines()
    (line,) = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def sealed(batch: bytearray) -> bytearray:
    """The batch with the checksum that its bytes ask for, however odd they are."""
    struct.pack_into(">I", batch, CRC_AT, kernel.crc32c(memoryview(batch)[CHECKED_FROM:]))
    return batch


def edited(batch: bytearray, position: int, form: str, value: int) -> bytearray:
    """The batch with one field of its header changed, and a checksum to match."""
    struct.pack_into(form, batch, position, value)
    return sealed(batch)


def with_body(body: bytes, *, record_count: int = 1, codec: Compression) -> bytearray:
    """A batch whose records are `body`, whatever that is."""
    batch = batch_of(*[b"v"] * record_count)[:RECORDS_AT] + bytearray(body)
    struct.pack_into(">i", batch, LENGTH_AT, len(batch) - 12)
    struct.pack_into(">h", batch, ATTRIBUTES_AT, codec)
    return sealed(batch)


def record(fields: bytes) -> bytes:
    """One record of less than 64 bytes, its length in front."""
    return bytes([len(fields) * 2]) + fields


def assert_refused(
    client: WireClient, topic: str, records: bytes | bytearray | None, *codes: ErrorCode
) -> str:
    """Produce it in vain; return what the broker says about it."""
    result = client.produce(topic, records)
    assert ErrorCode(result.error_code) in codes
    assert result.base_offset == -1
    assert client.values(topic) == []
    assert client.produce(topic, batch_of(b"good")).base_offset == 0
    return result.error_message or ""


@pytest.mark.parametrize("acks", [2, -2, 32_767])
def test_row_22_acks_that_do_not_exist_are_refused(
    client: WireClient, topic: str, acks: int
) -> None:
    result = client.produce(topic, batch_of(b"v"), acks=acks)

    assert result.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert client.values(topic) == []


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(None, id="null"),
        pytest.param(b"", id="empty"),
        pytest.param(batch_of(b"a") + batch_of(b"b"), id="two batches"),
        pytest.param(edited(batch_of(b"v"), MAGIC_AT, ">b", 0), id="magic 0"),
        pytest.param(edited(batch_of(b"v"), MAGIC_AT, ">b", 1), id="magic 1"),
    ],
)
def test_row_23_anything_but_one_batch_of_magic_2_is_an_invalid_record(
    client: WireClient, topic: str, records: bytes | bytearray | None
) -> None:
    assert_refused(client, topic, records, ErrorCode.INVALID_RECORD)


def test_row_24_a_wrong_checksum_is_a_corrupt_message(client: WireClient, topic: str) -> None:
    batch = batch_of(b"value")
    batch[-1] ^= 1

    message = assert_refused(client, topic, batch, ErrorCode.CORRUPT_MESSAGE)

    assert "checksum" in message


@pytest.mark.parametrize("length", [-1, 0, 48, 10_000, 2**31 - 1])
def test_row_25_a_batch_length_that_cannot_be_is_refused(
    client: WireClient, topic: str, length: int
) -> None:
    batch = edited(batch_of(b"value"), LENGTH_AT, ">i", length)

    assert_refused(client, topic, batch, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(edited(batch_of(b"a", b"b"), RECORD_COUNT_AT, ">i", 3), id="count too high"),
        pytest.param(edited(batch_of(b"a", b"b"), RECORD_COUNT_AT, ">i", 1), id="count too low"),
        pytest.param(edited(batch_of(b"a"), RECORD_COUNT_AT, ">i", 2**31 - 1), id="count absurd"),
        pytest.param(edited(batch_of(b"a"), RECORD_COUNT_AT, ">i", -1), id="count negative"),
        pytest.param(
            edited(
                edited(batch_of(b"a", b"b"), RECORD_COUNT_AT, ">i", 3),
                LAST_OFFSET_DELTA_AT,
                ">i",
                2,
            ),
            id="count and delta too high",
        ),
        pytest.param(edited(batch_of(b"a", b"b"), LAST_OFFSET_DELTA_AT, ">i", 5), id="delta"),
        pytest.param(edited(batch_of(b"a"), BASE_OFFSET_AT, ">q", 7), id="base offset"),
    ],
)
def test_row_26_a_header_that_contradicts_its_records_is_an_invalid_record(
    client: WireClient, topic: str, batch: bytearray
) -> None:
    assert_refused(client, topic, batch, ErrorCode.INVALID_RECORD)


# Attributes, timestamp delta, offset delta; then key, value and headers, as zigzag varints.
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(b"\0\0\0" + b"\x01\x01" + b"\x7e", id="more headers than bytes"),
        pytest.param(b"\0\0\0" + b"\x01\x01" + b"\x01", id="a negative header count"),
        pytest.param(b"\0\0\0" + b"\x03\x01" + b"\0", id="a key of length -2"),
        pytest.param(b"\0\0\0" + b"\x7ekey" + b"\x01\0", id="a key beyond the end"),
        pytest.param(b"\0\0\0" + b"\x01\x03" + b"\0", id="a value of length -2"),
        pytest.param(b"\0\0\0" + b"\x01\x01" + b"\x02\x01\x01", id="a header key of length -1"),
        pytest.param(b"\0\0\0" + b"\x01\x01" + b"\0" + b"more", id="bytes left over"),
        pytest.param(b"\0\0" + b"\xff" * 10, id="an offset of 70 bits"),
    ],
)
def test_row_27_a_record_that_cannot_be_read_is_an_invalid_record(
    client: WireClient, topic: str, fields: bytes
) -> None:
    batch = with_body(record(fields), codec=Compression.NONE)

    assert_refused(client, topic, batch, ErrorCode.INVALID_RECORD)


def test_row_28_a_batch_above_max_message_bytes_is_too_large(client: WireClient) -> None:
    assert client.create_topic("small-messages", max_message_bytes=1_000) == 0

    message = assert_refused(
        client, "small-messages", batch_of(bytes(1_000)), ErrorCode.MESSAGE_TOO_LARGE
    )

    assert "max.message.bytes is 1000" in message


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_row_29_a_codec_that_does_not_exist_is_unsupported(
    client: WireClient, topic: str, codec: int
) -> None:
    batch = edited(batch_of(b"v"), ATTRIBUTES_AT, ">h", codec)

    assert_refused(client, topic, batch, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def test_row_30_zstd_is_unsupported_before_produce_v7(client: WireClient, topic: str) -> None:
    batch = batch_of(b"v", compression=Compression.ZSTD)

    assert client.produce(topic, batch, version=6).error_code == (
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    )
    assert client.values(topic) == []
    assert client.produce(topic, batch, version=7).error_code == ErrorCode.NONE


@pytest.mark.skipif(not CLEAR_PEAK.exists(), reason="needs Linux, to ask for the peak of memory")
@pytest.mark.parametrize("codec", [Compression.ZSTD, Compression.GZIP, Compression.LZ4])
def test_row_31_a_batch_that_decompresses_to_256_mib_is_too_large_and_takes_no_memory(
    codec: Compression,
) -> None:
    bomb = with_body(compress(codec, bytes(256 * MIB), None), codec=codec)
    assert len(bomb) < 2 * MIB
    with (
        Broker(config={"ottla.max.decompressed.bytes": 8 * MIB}) as broker,
        WireClient(broker.bootstrap_servers) as client,
    ):
        assert client.create_topic("bombs", max_message_bytes=2 * MIB) == 0
        CLEAR_PEAK.write_text("5")
        before_bytes = peak_resident_bytes()

        assert_refused(client, "bombs", bomb, ErrorCode.MESSAGE_TOO_LARGE)

        assert peak_resident_bytes() - before_bytes < 48 * MIB


def test_row_31_a_batch_that_was_accepted_can_be_searched_by_time(client: WireClient) -> None:
    large = batch_of(*[bytes(20 * MIB)] * 4, compression=Compression.ZSTD)
    assert client.create_topic("swelling") == 0
    assert client.produce("swelling", large).error_code == ErrorCode.NONE

    for timestamp_ms in (0, MAX_TIMESTAMP):
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp_ms)
        request = ListOffsetsRequest(
            replica_id=-1, topics=(ListOffsetsTopic(name="swelling", partitions=(asked,)),)
        )
        (found,) = client.ask(request, 7).topics[0].partitions
        assert (found.error_code, found.offset) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize(
    "codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
)
def test_row_32_a_compressed_stream_that_is_cut_off_is_refused(
    client: WireClient, topic: str, codec: Compression
) -> None:
    whole = batch_of(bytes(range(256)) * 20, compression=codec)
    cut = whole[: len(whole) - 20]
    struct.pack_into(">i", cut, LENGTH_AT, len(cut) - 12)

    assert_refused(client, topic, sealed(cut), ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


def test_row_32_noise_instead_of_a_compressed_stream_is_refused(
    client: WireClient, topic: str
) -> None:
    noise = zlib.compress(b"a zlib stream is no gzip stream")

    assert_refused(
        client,
        topic,
        with_body(noise, codec=Compression.GZIP),
        ErrorCode.INVALID_RECORD,
        ErrorCode.CORRUPT_MESSAGE,
    )


def test_row_33_a_control_batch_from_a_client_is_an_invalid_record(
    client: WireClient, topic: str
) -> None:
    control = edited(batch_of(b"v"), ATTRIBUTES_AT, ">h", CONTROL_BIT)

    message = assert_refused(client, topic, control, ErrorCode.INVALID_RECORD)

    assert "control batches" in message


def test_row_33_a_marker_is_refused_already_because_it_belongs_to_no_transaction(
    client: WireClient, topic: str
) -> None:
    assert_refused(
        client, topic, end_of_transaction(), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )


def end_of_transaction() -> bytearray:
    """What coordinators write, and nobody else may."""
    return build_marker(
        Marker(is_commit=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0)
    )


def test_row_34_a_record_without_key_in_a_compacted_topic_is_named(client: WireClient) -> None:
    assert client.create_topic("compacted", cleanup_policy="compact") == 0
    records = [(0, b"k", b"v", ()), (0, None, b"v", ()), (0, b"k", b"v", ())]

    result = client.produce("compacted", build(records))

    assert result.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in result.record_errors] == [1]
    assert client.values("compacted") == []


def test_row_35_timestamps_outside_the_allowed_range_are_named(client: WireClient) -> None:
    now_ms = time.time_ns() // 1_000_000
    assert (
        client.create_topic("punctual", message_timestamp_before_max_ms=HOUR_MS) == ErrorCode.NONE
    )
    records = [
        (now_ms, None, b"now", ()),
        (now_ms - 2 * HOUR_MS, None, b"too old", ()),
        (now_ms + 2 * HOUR_MS, None, b"too new", ()),
    ]

    result = client.produce("punctual", build(records))

    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in result.record_errors] == [1, 2]
    assert client.values("punctual") == []


def test_a_client_that_claims_log_append_time_is_refused(client: WireClient, topic: str) -> None:
    batch = build([(0, None, b"v", ())], BatchOptions(append_time_ms=1))

    assert_refused(client, topic, batch, ErrorCode.INVALID_TIMESTAMP)


@pytest.mark.parametrize("partition", [-1, 1, 2**31 - 1])
def test_row_37_a_partition_that_does_not_exist_is_unknown(
    client: WireClient, topic: str, partition: int
) -> None:
    result = client.produce(topic, batch_of(b"v"), partition=partition)

    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    fetched = client.fetch(topic, partition=partition)
    assert fetched.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = ListOffsetsPartition(partition_index=partition, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(asked,)),)
    )
    (listed,) = client.ask(request, 4).topics[0].partitions
    assert listed.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_row_38_an_internal_topic_is_written_by_the_broker_only(
    client: WireClient, name: str
) -> None:
    client.create_topic(name)

    result = client.produce(name, batch_of(b"v"))

    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert client.values(name) == []


def test_a_bad_partition_does_not_spoil_its_neighbors(client: WireClient) -> None:
    assert client.create_topic("neighbors", partition_count=2) == 0
    bad, good = batch_of(b"bad"), batch_of(b"good")
    bad[-1] ^= 1
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=(
            TopicProduceData(
                name="neighbors",
                partition_data=(
                    PartitionProduceData(index=0, records=bad),
                    PartitionProduceData(index=1, records=good),
                ),
            ),
        ),
    )

    results = client.ask(request, PRODUCE_VERSION).responses[0].partition_responses

    assert [result.error_code for result in results] == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]
    assert client.values("neighbors", partition=1) == [b"good"]


def test_a_refused_batch_without_acks_closes_the_connection(broker: Broker, topic: str) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        client.send(produce_request(topic, b"no batch at all", acks=0), 9)

        assert client.is_closed_by_peer()
