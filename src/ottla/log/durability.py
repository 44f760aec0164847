"""What of a log would survive power loss, and which files must be synced for the rest.

A sync takes a while, and the log goes on meanwhile.  So the files of a sync are set apart when it
begins, and what is written to them afterwards counts as not synced.  One sync is under way at a
time: begin, wait, finish.

After a roll, the indexes and the producer snapshot of the old segment are among them, although an
answer needs no more than the batches.  Recovery believes what it finds below the recovery point:
retention goes by the last entry of a time index, and a transaction index cannot be made anew from
its segment.  So they must be durable before the recovery point passes them, and `synced_offset` is
both: what answers wait for, and the recovery point.  To tell the two apart would spare the answers
of one sync in a segment, a gigabyte by default, the sync of three small files in the same group.
"""

from ottla.ports import File


class SyncLedger:
    """The unsynced files of one log, oldest first, and the offset below which all is durable."""

    __slots__ = ("_ceiling_offset", "_syncing", "_unsynced", "synced_offset")

    def __init__(self, synced_offset: int) -> None:
        self.synced_offset = synced_offset
        self._unsynced: dict[File, bool] = {}
        self._syncing: dict[File, bool] = {}
        self._ceiling_offset = synced_offset

    def note(self, file: File, *, close_after: bool = False) -> None:
        """Something was written to `file`.  With `close_after`, for the last time."""
        self._unsynced[file] = close_after

    def forget(self, file: File) -> None:
        """The content of `file` does not matter anymore."""
        self._unsynced.pop(file, None)
        self._syncing.pop(file, None)

    def begin(self, next_offset: int) -> list[File]:
        """The files to sync, so that everything below `next_offset` becomes durable.

        After a sync that was given up, its files are among those of the next one.
        """
        for file, close_after in self._unsynced.items():
            self._syncing[file] = close_after
        self._unsynced.clear()
        self._ceiling_offset = next_offset
        return list(self._syncing)

    def finish(self, up_to_offset: int) -> None:
        """The files that `begin` named are durable now."""
        for file, close_after in self._syncing.items():
            if close_after and file not in self._unsynced:
                file.close()
        self._syncing.clear()
        self.synced_offset = max(self.synced_offset, min(up_to_offset, self._ceiling_offset))

    def truncate_to(self, next_offset: int) -> None:
        """The log ends at `next_offset` now; what comes after it will be other records.

        A sync that is under way saves none of those.
        """
        self.synced_offset = min(self.synced_offset, next_offset)
        self._ceiling_offset = min(self._ceiling_offset, next_offset)

    def start_at(self, next_offset: int) -> None:
        """Everything below `next_offset` is durable; whatever was said before does not count."""
        self.synced_offset = self._ceiling_offset = next_offset
