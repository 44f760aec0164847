"""Which leader epoch began at which offset.

Two replicas that disagree find out with this list where their logs part: the epoch is in each
batch, and epochs and start offsets only grow.  The list is truncated with its log on both ends.
It knows nothing of files; `is_changed` says when what is on disk is no longer what is here.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from ottla.values import NamedTuple

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """Up to where a log agrees with an epoch; both -1 where it cannot tell."""

    epoch: int
    end_offset: int


_UNKNOWN: Final = EpochEnd(NO_EPOCH, NO_OFFSET)


class LeaderEpochs:
    """The epochs of one log, oldest first."""

    __slots__ = ("_entries", "is_changed", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._entries = [EpochStart(*entry) for entry in entries]
        self.latest = self._entries[-1].epoch if self._entries else NO_EPOCH
        """The epoch of the last batch; -1 before the first one."""
        self.is_changed = False

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` begins at `start_offset`, unless it began already.

        Entries that contradict the new one are dropped: an epoch that wrote nothing starts where
        its successor does.
        """
        assert epoch >= 0, epoch
        assert start_offset >= 0, start_offset
        last = self._entries[-1] if self._entries else None
        if last is not None and last.epoch == epoch and last.start_offset <= start_offset:
            return
        while self._entries and (
            self._entries[-1].epoch >= epoch or self._entries[-1].start_offset >= start_offset
        ):
            self._entries.pop()
        self._entries.append(EpochStart(epoch, start_offset))
        self.latest = epoch
        self.is_changed = True

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that begin at or beyond `end_offset`."""
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
            self.latest = self._entries[-1].epoch if self._entries else NO_EPOCH
            self.is_changed = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that ended at or before `start_offset`; the next one begins there."""
        number = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if number:
            first = EpochStart(self._entries[number - 1].epoch, start_offset)
            self.is_changed = self.is_changed or self._entries[:number] != [first]
            self._entries[:number] = [first]

    def clear(self) -> None:
        self.is_changed = self.is_changed or bool(self._entries)
        self._entries.clear()
        self.latest = NO_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch at or below `epoch`, and where it ended in this log."""
        if epoch == NO_EPOCH or epoch > self.latest:
            return _UNKNOWN
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        number = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        end_offset = self._entries[number].start_offset
        # Older than all we know: its records are gone, and what we have begins here.
        return EpochEnd(self._entries[number - 1].epoch if number else epoch, end_offset)

    def epoch_for(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written; -1 where it is not known."""
        number = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[number - 1].epoch if number else NO_EPOCH
