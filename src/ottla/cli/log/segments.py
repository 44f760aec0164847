"""What is in a segment file: its batches, or the records in them.

A segment may end in zeros: room that the broker reserved and has not used yet.  Anything else that
is not a batch is damage, and the walk ends there, since nobody knows where the next one begins.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ottla.cli.formats import date_text
from ottla.cli.log.tables import Report, Table, bytes_fact
from ottla.errors import BatchError
from ottla.records.batch import COMPRESSION_BITS, Batch, size_of_batch
from ottla.records.control import control_type_of
from ottla.records.shapes import BATCH_HEADER_BYTES

BATCH_COLUMNS: Final = (
    "position",
    "base_offset",
    "last_offset",
    "records",
    "bytes",
    "compression",
    "timestamp",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "flags",
    "crc",
)
_ZERO_CHECK_BYTES: Final = 65_536
RECORD_COLUMNS: Final = ("offset", "timestamp", "type", "key", "value", "headers")


def batch_table(data: memoryview, report: Report, *, verify: bool) -> Table:
    """One row for each batch."""

    def rows() -> Iterator[Sequence[object]]:
        for position, batch in walk(data, report):
            state = _check(position, batch, report) if verify else "not checked"
            yield (
                position,
                batch.base_offset,
                batch.last_offset,
                batch.record_count,
                batch.size_bytes,
                _codec_name(batch),
                date_text(batch.max_timestamp_ms),
                batch.partition_leader_epoch,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                _flags(batch),
                state,
            )

    return Table(BATCH_COLUMNS, rows())


def record_table(data: memoryview, report: Report, *, verify: bool) -> Table:
    """One row for each record."""

    def rows() -> Iterator[Sequence[object]]:
        for position, batch in walk(data, report):
            if verify and _check(position, batch, report) != "ok":
                continue
            try:
                records = batch.record_list()
            except BatchError as error:
                report(f"the batch at byte {position} cannot be read: {error.detail}")
                continue
            for offset, timestamp_ms, key, value, headers in records:
                kind = _control_name(key) if batch.is_control else "data"
                shown = [[name, bytes_fact(data)] for name, data in headers]
                moment = date_text(timestamp_ms)
                yield offset, moment, kind, bytes_fact(key), bytes_fact(value), shown

    return Table(RECORD_COLUMNS, rows())


def walk(data: memoryview, report: Report) -> Iterator[tuple[int, Batch]]:
    """Each batch with its position; where something else comes, say so and end."""
    position, next_offset = 0, -1
    while position < len(data):
        rest = data[position:]
        if is_zero(rest):
            return
        try:
            batch = Batch(rest[: size_of_batch(rest)])
        except BatchError as error:
            report(f"no batch at byte {position}: {error.detail}")
            return
        if batch.base_offset < next_offset:
            report(
                f"the batch at byte {position} begins at offset {batch.base_offset}, but the one "
                f"before it ended at {next_offset - 1}"
            )
        yield position, batch
        position += batch.size_bytes
        next_offset = batch.next_offset


def is_zero(data: memoryview) -> bool:
    """Whether nothing but zeros is left.  Most often the first bytes tell."""
    if data[:BATCH_HEADER_BYTES].tobytes().strip(b"\0"):
        return False
    parts = range(0, len(data), _ZERO_CHECK_BYTES)
    return not any(data[p : p + _ZERO_CHECK_BYTES].tobytes().strip(b"\0") for p in parts)


def _check(position: int, batch: Batch, report: Report) -> str:
    """Compare the checksum and read the records."""
    try:
        batch.check_crc()
        batch.survey()
    except BatchError as error:
        report(f"the batch at byte {position} is damaged: {error.detail}")
        return "bad"
    return "ok"


def _codec_name(batch: Batch) -> str:
    try:
        return batch.compression.label
    except BatchError:
        return f"unknown ({batch.attributes & COMPRESSION_BITS})"


def _flags(batch: Batch) -> str:
    tests: tuple[tuple[str, Callable[[Batch], bool]], ...] = (
        ("transactional", lambda b: b.is_transactional),
        ("control", lambda b: b.is_control),
        ("append-time", lambda b: bool(b.timestamp_type)),
        ("delete-horizon", lambda b: b.delete_horizon_ms is not None),
    )
    return ",".join(name for name, is_set in tests if is_set(batch)) or "-"


def _control_name(key: bytes | None) -> str:
    try:
        kind = control_type_of(key)
    except BatchError:
        return "broken control record"
    return "control" if kind is None else kind.name.lower()
