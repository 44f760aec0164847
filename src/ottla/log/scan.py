"""Walking over the batches of a log file, from one header to the next.

`headers` reads no more than the headers and is for files that are known to be good: it raises
`StorageError` at the first that is not.  `whole_batches` reads everything, checks each checksum,
and is for files that a crash may have left in any state: it reports where the good part ends.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from ottla.errors import BatchError, StorageError
from ottla.ports import File
from ottla.records.batch import LOG_OVERHEAD_BYTES, MAGIC, Batch
from ottla.records.shapes import BATCH_HEADER_BYTES
from ottla.values import NamedTuple

# Base offset, batch length, magic, last offset delta, largest timestamp.
_HEADER: Final = Struct(">qi4xb6xi8xq")

WINDOW_BYTES: Final = 4096
"""What one read of headers brings: with small batches, many of them."""

CHUNK_BYTES: Final = 1024 * 1024
"""What one read of whole batches brings at the least."""


class Spot(NamedTuple):
    """One batch of a file: where it lies, and what a search asks about it."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int

    @property
    def end_position(self) -> int:
        return self.position + self.size_bytes


def headers(file: File, position: int, end_position: int) -> Iterator[Spot]:
    """The batches from `position` up to `end_position`, which both lie between batches.

    Raises:
        StorageError: There is something else between them.
    """
    window, window_at = b"", position
    while position < end_position:
        if position + _HEADER.size > window_at + len(window):
            size_bytes = min(WINDOW_BYTES, end_position - position)
            window, window_at = file.read(position, size_bytes), position
            if len(window) < BATCH_HEADER_BYTES:
                raise damaged(file, position, f"only {len(window)} bytes are left")
        base_offset, length_bytes, magic, last_delta, max_timestamp_ms = _HEADER.unpack_from(
            window, position - window_at
        )
        size_bytes = LOG_OVERHEAD_BYTES + length_bytes
        if magic != MAGIC or last_delta < 0 or size_bytes < BATCH_HEADER_BYTES:
            raise damaged(file, position, f"magic {magic} and {size_bytes} bytes are no batch")
        if size_bytes > end_position - position:
            left_bytes = end_position - position
            raise damaged(file, position, f"a batch of {size_bytes} bytes, {left_bytes} are left")
        yield Spot(position, size_bytes, base_offset, base_offset + last_delta, max_timestamp_ms)
        position += size_bytes


def read_batch(file: File, spot: Spot) -> Batch:
    """The batch at `spot`, its checksum checked.

    Raises:
        StorageError: The bytes were damaged on disk.
    """
    try:
        batch = Batch.parse(file.read(spot.position, spot.size_bytes))
        batch.check_crc()
    except BatchError as error:
        raise damaged(file, spot.position, error.detail) from error
    return batch


class Fault(NamedTuple):
    """Where the good part of a file ends, and what comes after it."""

    position: int
    reason: str


def whole_batches(
    file: File, end_position: int, position: int = 0
) -> Iterator[tuple[int, Batch] | Fault]:
    """Each batch from `position` on with its own; where one is bad, a `Fault`, and no more.

    Zeros, as they fill room that was reserved but not used, are such a fault too.  A batch is a
    view on a larger buffer: take what you need before you ask for the next one.
    """
    buffer = memoryview(b"")
    while position < end_position:
        left_bytes = end_position - position
        if len(buffer) < BATCH_HEADER_BYTES:
            buffer = memoryview(file.read(position, min(CHUNK_BYTES, left_bytes)))
        size_bytes = _claimed_size(buffer)
        if not BATCH_HEADER_BYTES <= size_bytes <= left_bytes:
            yield Fault(position, f"no batch: it claims {size_bytes} of {left_bytes} bytes")
            return
        if size_bytes > len(buffer):
            buffer = memoryview(file.read(position, min(max(size_bytes, CHUNK_BYTES), left_bytes)))
        try:
            batch = Batch.parse(buffer[:size_bytes])
            batch.check_crc()
        except BatchError as error:
            yield Fault(position, error.detail)
            return
        yield position, batch
        position += size_bytes
        buffer = buffer[size_bytes:]


def _claimed_size(buffer: memoryview) -> int:
    """How many bytes the batch at the start of `buffer` says it has; 0 where none can be."""
    if len(buffer) < BATCH_HEADER_BYTES:
        return 0
    return LOG_OVERHEAD_BYTES + int.from_bytes(buffer[8:12], "big", signed=True)


def damaged(file: File, position: int, what: str) -> StorageError:
    """The error for bytes that must be good and are not."""
    return StorageError(
        f"{file.path} is damaged at byte {position}: {what}. Restore the file from a copy or a "
        "replica, or remove the partition's folder to give its records up"
    )
