"""Control records: transaction markers as Kafka writes them, and what is not one."""

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord

from ottla.errors import BatchError, ErrorCode
from ottla.records.batch import Batch
from ottla.records.builder import BatchOptions, build
from ottla.records.control import (
    ControlType,
    Marker,
    build_marker,
    control_key,
    control_type_of,
    read_marker,
)

NOW_MS = 1_700_000_000_000


def marker(*, is_commit: bool = True) -> Marker:
    return Marker(
        is_commit=is_commit,
        producer_id=4000,
        producer_epoch=7,
        coordinator_epoch=21,
        timestamp_ms=NOW_MS,
    )


def control_batch(key: bytes | None, value: bytes | None) -> Batch:
    return Batch.parse(build([(NOW_MS, key, value, ())], BatchOptions(is_control=True)))


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_is_read_as_it_was_built(is_commit: bool) -> None:
    batch = Batch.parse(build_marker(marker(is_commit=is_commit), base_offset=88))

    batch.check_crc()
    assert read_marker(batch) == marker(is_commit=is_commit)
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.base_offset, batch.base_sequence, batch.record_count) == (88, -1, 1)


def test_a_marker_has_the_bytes_that_kafka_writes() -> None:
    [(_, _, key, value, headers)] = Batch.parse(build_marker(marker())).record_list()

    assert (key, value, headers) == (b"\0\0\0\1", b"\0\0\0\0\0\x15", ())


@pytest.mark.parametrize(("is_commit", "expected"), [(True, COMMIT_MARKER), (False, ABORT_MARKER)])
def test_a_peer_reads_our_markers(is_commit: bool, expected: ControlRecord) -> None:
    [record] = Batch.parse(build_marker(marker(is_commit=is_commit))).record_list()

    assert ControlRecord.parse(record[2]) == expected


@pytest.mark.parametrize("control_type", list(ControlType))
def test_a_control_key_names_its_type(control_type: ControlType) -> None:
    assert control_type_of(control_key(control_type)) is control_type


def test_types_and_versions_of_the_future_are_skipped_or_read_as_ours() -> None:
    assert control_type_of(b"\0\0\0\x63") is None
    assert control_type_of(b"\0\x05\0\x01more") is ControlType.COMMIT


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_what_is_not_a_control_key_is_refused(key: bytes | None) -> None:
    with pytest.raises(BatchError) as caught:
        control_type_of(key)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0", b"\xff\xff\0\0\0\0"])
def test_a_marker_with_a_broken_value_is_refused(value: bytes | None) -> None:
    with pytest.raises(BatchError) as caught:
        read_marker(control_batch(control_key(ControlType.ABORT), value))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_control_batch_of_another_type_holds_no_marker() -> None:
    assert read_marker(control_batch(control_key(ControlType.LEADER_CHANGE), b"")) is None
    assert read_marker(control_batch(b"\0\0\0\x63", b"")) is None


def test_a_control_batch_that_compaction_emptied_holds_no_marker() -> None:
    data = build_marker(marker())[:61]
    data[8:12] = (49).to_bytes(4)
    data[57:61] = bytes(4)

    assert read_marker(Batch.parse(data)) is None


def test_a_batch_of_users_records_holds_no_marker() -> None:
    batch = Batch.parse(build([(NOW_MS, control_key(ControlType.COMMIT), b"", ())]))

    with pytest.raises(BatchError, match="is not a control batch"):
        read_marker(batch)
