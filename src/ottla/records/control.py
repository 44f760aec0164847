"""Control batches: the broker's own records among those of the users.

A control record's key is a version and a type.  Two types end transactions; the others belong to
KRaft's own log.  Readers skip what they do not know, so that brokers can add types.
"""

from enum import IntEnum
from struct import Struct
from typing import Final

from ottla.errors import BatchError, ErrorCode
from ottla.records.batch import NO_LEADER_EPOCH, Batch
from ottla.records.builder import BatchOptions, build
from ottla.values import dataclass

_KEY: Final = Struct(">hh")
_MARKER: Final = Struct(">hi")
_VERSION: Final = 0

MAX_MARKER_BYTES: Final = 4096
"""A marker is 17 bytes before compression, and ours are never compressed."""


class ControlType(IntEnum):
    """What a control record says."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def control_key(control_type: ControlType) -> bytes:
    """The key of a control record of this type."""
    return _KEY.pack(_VERSION, control_type)


def control_type_of(key: bytes | None) -> ControlType | None:
    """The type that a control record's key states, or `None` if we do not know it.

    Raises:
        BatchError: The key is none of a control record.
    """
    if key is None or len(key) < _KEY.size:
        raise BatchError(
            ErrorCode.INVALID_RECORD, f"a control record's key has {_KEY.size} bytes, not {key!r}"
        )
    version, number = _KEY.unpack_from(key)
    _check_version("control record key", version)
    try:
        return ControlType(number)
    except ValueError:
        return None


def _check_version(what: str, version: int) -> None:
    """Later versions only add fields, so they are read as if they were ours."""
    if version < _VERSION:
        raise BatchError(ErrorCode.INVALID_RECORD, f"version {version} of a {what} is negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The end of a transaction in one partition: one marker ends what its producer had open."""

    is_commit: bool
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """Epoch of the coordinator that decided; a marker from an older one comes too late."""
    timestamp_ms: int


def build_marker(
    marker: Marker, *, base_offset: int = 0, partition_leader_epoch: int = NO_LEADER_EPOCH
) -> bytearray:
    """The batch that ends a transaction: one control record, transactional, without sequence."""
    options = BatchOptions(
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        is_transactional=True,
        is_control=True,
    )
    key = control_key(ControlType.COMMIT if marker.is_commit else ControlType.ABORT)
    value = _MARKER.pack(_VERSION, marker.coordinator_epoch)
    return build([(marker.timestamp_ms, key, value, ())], options)


def read_marker(batch: Batch) -> Marker | None:
    """The marker in a control batch, or `None` where it holds something else, or nothing more.

    Compaction can empty a control batch and keep its header.

    Raises:
        BatchError: The batch is not a control batch, or its record is broken.
    """
    if not batch.is_control:
        raise BatchError(ErrorCode.INVALID_RECORD, f"{batch!r} is not a control batch")
    first = next(batch.records(MAX_MARKER_BYTES), None)
    if first is None:
        return None
    _, timestamp_ms, key, value, _ = first
    control_type = control_type_of(key)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if value is None or len(value) < _MARKER.size:
        raise BatchError(
            ErrorCode.INVALID_RECORD, f"a marker's value has {_MARKER.size} bytes, not {value!r}"
        )
    version, coordinator_epoch = _MARKER.unpack_from(value)
    _check_version("transaction marker", version)
    return Marker(
        is_commit=control_type is ControlType.COMMIT,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=timestamp_ms,
    )
