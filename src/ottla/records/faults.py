"""What can be wrong with the records inside a batch, and the error that says so.

Both codec twins name a fault by its number, so that they refuse the same bytes in the same words.
"""

from enum import IntEnum

from ottla.errors import BatchError, ErrorCode
from ottla.records.shapes import MAX_BODY_BYTES, MIN_RECORD_BYTES


class Fault(IntEnum):
    """The part of a record that is broken; `src/native/record.h` has the same numbers."""

    LENGTH = 1
    TIMESTAMP = 2
    OFFSET = 3
    KEY = 4
    VALUE = 5
    HEADER_COUNT = 6
    HEADER_KEY = 7
    HEADER_VALUE = 8
    SURPLUS = 9
    CHANGED = 10


_WORDS = {
    Fault.LENGTH: "its length is no number, or more than the bytes that are left",
    Fault.TIMESTAMP: "its timestamp is no number, or does not fit 64 bits",
    Fault.OFFSET: "its offset is no number, or does not fit 64 bits",
    Fault.KEY: "the length of its key is no number, or more than the bytes that are left",
    Fault.VALUE: "the length of its value is no number, or more than the bytes that are left",
    Fault.HEADER_COUNT: "its header count is no number, or more than the bytes that are left",
    Fault.HEADER_KEY: "the length of a header key is no number, or more than the bytes left",
    Fault.HEADER_VALUE: "the length of a header value is no number, or more than the bytes left",
    Fault.SURPLUS: "bytes are left over after its last field",
    Fault.CHANGED: "its bytes changed while they were read",
}


def broken_record(record_index: int, fault: int) -> BatchError:
    """The error for a record that cannot be read."""
    return BatchError(
        ErrorCode.INVALID_RECORD, f"record {record_index} of the batch: {_WORDS[Fault(fault)]}"
    )


def wrong_count(record_count: int, body_bytes: int) -> BatchError:
    """The error for a record count that the bytes at hand cannot hold."""
    return BatchError(
        ErrorCode.INVALID_RECORD,
        f"the batch says it has {record_count} records, but its {body_bytes} bytes "
        f"hold {body_bytes // MIN_RECORD_BYTES} at the most",
    )


def trailing_bytes(record_count: int, surplus_bytes: int) -> BatchError:
    """The error for bytes after the last of the records that the batch announced."""
    return BatchError(
        ErrorCode.INVALID_RECORD,
        f"{surplus_bytes} bytes are left over after the {record_count} records of the batch",
    )


def body_too_large() -> BatchError:
    """The error for records that no single batch can hold."""
    return BatchError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the records exceed {MAX_BODY_BYTES} bytes, more than one batch can hold",
    )


def column_too_large(column: str) -> BatchError:
    """The error for a column whose bytes outgrow 32-bit offsets."""
    return BatchError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"column {column} exceeds 2 GiB, the limit of 32-bit offsets; decode fewer batches at once",
    )
