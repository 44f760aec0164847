"""What is in the files beside a segment: indexes, snapshots, checkpoints.

Kafka reserves room in its index files and fills it with zeros: an entry of zeros ends the index.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Final

from ottla.cli.formats import date_text
from ottla.cli.log.tables import Report, Table
from ottla.errors import BatchError, StorageError, WireError
from ottla.log import files
from ottla.log.producer_state import ProducerStates
from ottla.records.batch import Batch, size_of_batch
from ottla.wire.stored.log_files import AbortedTxn, ProducerSnapshot
from ottla.wire.stored.versioned import decode_versioned

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_ABORTED_BYTES: Final = 34
_CHECKPOINT_VERSION: Final = "0"


def offset_index(data: bytes, base_offset: int, log: memoryview | None, report: Report) -> Table:
    """Offset -> position; with the log at hand, each entry is compared with its batch."""

    def rows() -> Iterator[Sequence[object]]:
        last = -1
        for relative, position in _entries(_OFFSET_ENTRY, data, report):
            offset = base_offset + relative
            if offset <= last:
                report(f"offset {offset} comes after offset {last}")
            if log is not None and _last_offset_at(log, position) != offset:
                report(f"no batch that ends at offset {offset} lies at byte {position}")
            last = offset
            yield offset, position

    return Table(("last_offset", "position"), rows())


def time_index(data: bytes, base_offset: int, report: Report) -> Table:
    """Timestamp -> the offset up to which no record is younger."""

    def rows() -> Iterator[Sequence[object]]:
        last_ms = -1
        for timestamp_ms, relative in _entries(_TIME_ENTRY, data, report):
            if timestamp_ms < last_ms:
                report(f"timestamp {timestamp_ms} comes after {last_ms}")
            last_ms = timestamp_ms
            yield date_text(timestamp_ms), timestamp_ms, base_offset + relative

    return Table(("timestamp", "timestamp_ms", "offset"), rows())


def _entries(entry: Struct, data: bytes, report: Report) -> Iterator[tuple[int, int]]:
    if len(data) % entry.size:
        report(f"{len(data)} bytes are no multiple of {entry.size}, the size of an entry")
    whole = len(data) // entry.size * entry.size
    for first, second in entry.iter_unpack(data[:whole]):
        if first == second == 0:
            return
        yield first, second


def _last_offset_at(log: memoryview, position: int) -> int | None:
    rest = log[position:] if 0 <= position < len(log) else memoryview(b"")
    try:
        return Batch(rest[: size_of_batch(rest)]).last_offset
    except BatchError:
        return None


def aborted_transactions(data: bytes, report: Report) -> Table:
    """The transactions whose abort marker is in the segment."""

    def rows() -> Iterator[Sequence[object]]:
        for start in range(0, len(data), _ABORTED_BYTES):
            try:
                entry = decode_versioned(AbortedTxn, data[start : start + _ABORTED_BYTES])
            except WireError as error:
                report(f"the entry at byte {start} cannot be read: {error}")
                return
            yield entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset

    return Table(("producer_id", "first_offset", "last_offset", "last_stable_offset"), rows())


def producer_snapshot(data: bytes, report: Report) -> Table:
    """What was known of each producer."""
    columns = (
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_offset",
        "offset_delta",
        "timestamp",
        "coordinator_epoch",
        "open_since_offset",
    )

    def rows() -> Iterator[Sequence[object]]:
        try:
            ProducerStates().load(data)
            entries = decode_versioned(ProducerSnapshot, data).producer_entries
        except (StorageError, WireError) as error:
            report(str(error))
            return
        for e in entries:
            first_offset = e.current_txn_first_offset
            yield (
                e.producer_id,
                e.epoch,
                e.last_sequence,
                e.last_offset,
                e.offset_delta,
                date_text(e.timestamp),
                e.coordinator_epoch,
                None if first_offset < 0 else first_offset,
            )

    return Table(columns, rows())


def checkpoint(data: bytes, columns: Sequence[str], report: Report) -> Table:
    """A file of version, number of lines, lines: one row for each line."""

    def rows() -> Iterator[Sequence[object]]:
        found = data.decode("utf-8", "replace").splitlines()
        if not found:
            return  # written when there was nothing to say yet
        version, count, *lines = found if len(found) > 1 else (*found, "0")
        if version != _CHECKPOINT_VERSION or count != str(len(lines)):
            report(f"version {version!r} with {count!r} lines announced, {len(lines)} are there")
        for line in lines:
            cells = line.split()
            if len(cells) != len(columns):
                report(f"{line!r} is not {' and '.join(columns)}")
                return
            yield [int(cell) if cell.isdigit() else cell for cell in cells]

    return Table(columns, rows())


def properties(data: bytes, report: Report) -> Table:
    """A file of names and values, with `=` or `:` between them."""

    def rows() -> Iterator[Sequence[object]]:
        for line in data.decode("utf-8", "replace").splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            separator = "=" if "=" in line else ":"
            name, found, value = line.partition(separator)
            if not found:
                report(f"{line!r} is neither a name and a value nor a comment")
                return
            yield name.strip(), value.strip()

    return Table(("name", "value"), rows())


def text(data: bytes, _report: Report) -> Table:
    """A file that is shown as it is."""
    return Table(("content",), iter([(data.decode("utf-8", "replace"),)] if data else []))


def _offsets(data: bytes, report: Report) -> Table:
    return checkpoint(data, ("topic", "partition", "offset"), report)


def _epochs(data: bytes, report: Report) -> Table:
    return checkpoint(data, ("epoch", "start_offset"), report)


BY_NAME: Final[Mapping[str, Callable[[bytes, Report], Table]]] = {
    files.LEADER_EPOCHS: _epochs,
    files.RECOVERY_POINTS: _offsets,
    files.START_OFFSETS: _offsets,
    files.PARTITION_METADATA: properties,
    files.META_PROPERTIES: properties,
    files.CLEAN_SHUTDOWN: text,
}
"""Files whose name says what is in them."""
