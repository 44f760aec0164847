"""The aborted transactions of a segment: what a read_committed consumer must leave out.

A transaction is listed in the segment that holds the marker which aborted it; it may have begun in
an earlier one.  Entries are in the order of their markers, and so are their last stable offsets.

The index is small, lives in memory and is written out when its segment is sealed, in Kafka's
format: no file where nothing was aborted.  Recovery makes it anew from the batches it reads.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, Self

from ottla.errors import StorageError, WireError
from ottla.log.producer_state import CompletedTransaction
from ottla.values import NamedTuple
from ottla.wire.stored.log_files import AbortedTxn
from ottla.wire.stored.versioned import decode_versioned, encode_versioned

_VERSION: Final = 0
ENTRY_BYTES: Final = 34


class Aborted(NamedTuple):
    """The aborted transactions that overlap a range, as far as one index knows."""

    entries: list[AbortedTxn]
    is_complete: bool
    """Whether the indexes of later segments have none to add."""


class TransactionIndex:
    """The transactions that were aborted by markers in one segment."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[AbortedTxn] = []

    @classmethod
    def parse(cls, data: bytes, *, base_offset: int) -> Self:
        """Read what `to_bytes` wrote for the segment that begins at `base_offset`.

        Raises:
            StorageError: These are not the bytes of such an index.
        """
        if len(data) % ENTRY_BYTES:
            raise StorageError(
                f"a transaction index has {len(data)} bytes, no multiple of {ENTRY_BYTES}"
            )
        index = cls()
        last_offset = base_offset - 1
        for position in range(0, len(data), ENTRY_BYTES):
            entry = _decode(data[position : position + ENTRY_BYTES])
            if entry.last_offset <= last_offset or entry.first_offset > entry.last_offset:
                raise StorageError(
                    f"a transaction index of the segment at {base_offset} has {entry} after "
                    f"offset {last_offset}"
                )
            last_offset = entry.last_offset
            index._entries.append(entry)
        return index

    def to_bytes(self) -> bytes:
        """The index as it is on disk: for each entry, a version and four numbers, big-endian."""
        return b"".join(encode_versioned(entry, _VERSION) for entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[AbortedTxn]:
        return iter(self._entries)

    def note(self, completed: CompletedTransaction | None) -> None:
        """Take in what the last batch of the segment ended."""
        if completed is not None and completed.is_aborted:
            self.append(
                AbortedTxn(
                    producer_id=completed.producer_id,
                    first_offset=completed.first_offset,
                    last_offset=completed.last_offset,
                    last_stable_offset=completed.last_stable_offset,
                )
            )

    def append(self, entry: AbortedTxn) -> None:
        """Add a transaction whose marker is the last so far."""
        assert not self._entries or entry.last_offset > self._entries[-1].last_offset, entry
        self._entries.append(entry)

    def overlapping(self, from_offset: int, to_offset: int) -> Aborted:
        """The transactions with offsets in the range from `from_offset` up to `to_offset`."""
        found = []
        for number in range(self._first_at(from_offset), len(self._entries)):
            entry = self._entries[number]
            if entry.first_offset < to_offset:
                found.append(entry)
            if entry.last_stable_offset >= to_offset:
                # Everything below was decided by then: later ones begin above.
                return Aborted(found, is_complete=True)
        return Aborted(found, is_complete=False)

    def truncate_to(self, offset: int) -> None:
        """Forget the transactions whose marker lies at or above `offset`."""
        del self._entries[self._first_at(offset) :]

    def _first_at(self, offset: int) -> int:
        """The number of the first entry whose marker lies at or above `offset`."""
        return bisect_left(self._entries, offset, key=lambda entry: entry.last_offset)


def aborted_in(
    indexes: Iterable[TransactionIndex], from_offset: int, to_offset: int
) -> list[AbortedTxn]:
    """The aborted transactions that overlap a range, those that began first at first.

    `indexes` are those of the segment where `from_offset` belongs, and of the ones after it; no
    more of them are asked for than needed.
    """
    found: list[AbortedTxn] = []
    for index in indexes:
        entries, is_complete = index.overlapping(from_offset, to_offset)
        found += entries
        if is_complete:
            break
    return sorted(found, key=lambda entry: entry.first_offset)


def _decode(data: bytes) -> AbortedTxn:
    try:
        return decode_versioned(AbortedTxn, data)
    except WireError as error:
        raise StorageError(f"an aborted transaction cannot be read: {error}") from error
