"""Stored records: bytes as Kafka writes them into its internal topics."""

import pytest

from ottla.errors import WireError
from ottla.wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from ottla.wire.stored.control_records import ControlRecordTypeSchema, EndTxnMarker
from ottla.wire.stored.group_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from ottla.wire.stored.versioned import (
    decode_key,
    decode_lenient,
    decode_versioned,
    encode_key,
    encode_versioned,
    record_type_of,
)

KEY = OffsetCommitKey(group="g", topic="t", partition=3)


def test_a_key_begins_with_its_record_type() -> None:
    assert encode_key(KEY) == b"\x00\x01" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x03"
    assert record_type_of(encode_key(KEY)) == 1
    assert decode_key(OffsetCommitKey, encode_key(KEY)) == KEY


def test_a_key_of_another_type_is_refused() -> None:
    with pytest.raises(WireError, match="record type 1 is not that of GroupMetadataKey"):
        decode_key(GroupMetadataKey, encode_key(KEY))


def test_a_value_begins_with_its_version() -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9)
    data = encode_versioned(value, 3)
    assert data == (
        b"\x00\x03" + (5).to_bytes(8) + (2).to_bytes(4) + b"\x00\x01m" + (9).to_bytes(8)
    )
    assert decode_versioned(OffsetCommitValue, data) == value


def test_a_value_of_a_newer_version_is_refused() -> None:
    with pytest.raises(WireError, match="versions 0-4, not 9"):
        decode_versioned(OffsetCommitValue, b"\x00\x09rest")


@pytest.mark.parametrize("data", [b"", b"\x00"])
def test_data_without_room_for_a_version_is_refused(data: bytes) -> None:
    with pytest.raises(WireError, match="too short"):
        decode_versioned(OffsetCommitValue, data)


def test_a_newer_subscription_is_read_as_far_as_we_know_it() -> None:
    mine = ConsumerProtocolSubscription(topics=("orders",), generation_id=4, rack_id="r1")
    newer = b"\x00\x09" + encode_versioned(mine, 3)[2:] + b"fields of version 9"
    assert decode_lenient(ConsumerProtocolSubscription, newer) == mine


def test_an_assignment_is_encoded_as_javas_client_does() -> None:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=(TopicPartition(topic="t", partitions=(0, 2)),)
    )
    assert encode_versioned(assignment, 0) == bytes.fromhex(
        "0000 00000001 0001 74 00000002 00000000 00000002 ffffffff"
    )


def test_markers_have_the_bytes_of_kafkas_control_records() -> None:
    assert encode_versioned(ControlRecordTypeSchema(type=1), 0) == bytes.fromhex("0000 0001")
    assert encode_versioned(EndTxnMarker(coordinator_epoch=7), 0) == bytes.fromhex("0000 00000007")
