"""What of a log would survive power loss, and which files must be synced for the rest.

A sync takes a while, and the log goes on meanwhile.  So the files of a sync are set apart when it
begins, and what is written to them afterwards counts as not synced.  Several syncs may be under
way; they are finished in the order in which they began.

After a roll, the indexes and the producer snapshot of the old segment are among them, although an
answer needs no more than the batches.  Recovery believes what it finds below the recovery point:
retention goes by the last entry of a time index, and a transaction index cannot be made anew from
its segment.  So they must be durable before the recovery point passes them, and `synced_offset` is
both: what answers wait for, and the recovery point.  To tell the two apart would spare the answers
of one sync in a segment, a gigabyte by default, the sync of three small files in the same group.
"""

from collections import deque

from ottla.ports import File, Folder


class _Begun:
    """A sync that is under way."""

    __slots__ = ("ceiling_offset", "files", "noted", "up_to_offset")

    def __init__(
        self,
        up_to_offset: int,
        files: dict[File | Folder, bool],
        noted: dict[File | Folder, bool],
    ) -> None:
        self.up_to_offset = up_to_offset
        """Where the log ended when it began."""
        self.ceiling_offset = up_to_offset
        """What it covers: less than that, where the log was truncated since."""
        self.files = files
        self.noted = noted
        """Those of the files that no earlier sync was told of, or not of all that is in them."""


class SyncLedger:
    """The unsynced files of one log, oldest first, and the offset below which all is durable."""

    __slots__ = ("_begun", "_unsynced", "synced_offset")

    def __init__(self, synced_offset: int) -> None:
        self.synced_offset = synced_offset
        self._unsynced: dict[File | Folder, bool] = {}
        self._begun: deque[_Begun] = deque()

    def note(self, file: File | Folder, *, close_after: bool = False) -> None:
        """Something was written to it, or made in it.  With `close_after`, for the last time."""
        self._unsynced[file] = close_after

    def owes(self, file: File | Folder) -> bool:
        """Whether it has to be synced, and no sync of it is finished."""
        return file in self._unsynced or any(file in begun.noted for begun in self._begun)

    def forget(self, file: File) -> None:
        """The content of `file` does not matter anymore."""
        self._unsynced.pop(file, None)
        for begun in self._begun:
            begun.files.pop(file, None)
            begun.noted.pop(file, None)

    def abandon(self) -> None:
        """Nobody syncs any more: let go of the files that only waited for that."""
        for file, close_after in self._unsynced.items():
            if close_after:
                file.close()
        self._unsynced.clear()

    def begin(self, next_offset: int) -> list[File | Folder]:
        """The files to sync, so that everything below `next_offset` becomes durable.

        Those of a sync that is not finished are among them, and come first: it may have been given
        up, and whatever else happens, no file may become durable before an older one.  What it has
        from one that is finished by now is not: where syncs overlap all the time, nothing would
        ever be done with.
        """
        files: dict[File | Folder, bool] = {}
        for begun in self._begun:
            files |= begun.noted
        files |= self._unsynced
        self._begun.append(_Begun(next_offset, files, self._unsynced))
        self._unsynced = {}
        return list(files)

    def finish(self, up_to_offset: int) -> None:
        """The files that the `begin` at `up_to_offset` named are durable now."""
        ended: dict[File | Folder, bool] = {}
        while self._begun:
            begun = self._begun.popleft()
            ended |= begun.files
            if begun.up_to_offset == up_to_offset:
                self.synced_offset = max(self.synced_offset, begun.ceiling_offset)
                break
        else:
            return
        for file, close_after in ended.items():
            is_needed = file in self._unsynced or any(file in begun.files for begun in self._begun)
            if close_after and not is_needed:
                file.close()

    def truncate_to(self, next_offset: int) -> None:
        """The log ends at `next_offset` now; what comes after it will be other records.

        A sync that is under way saves none of those.
        """
        self.synced_offset = min(self.synced_offset, next_offset)
        for begun in self._begun:
            begun.ceiling_offset = min(begun.ceiling_offset, next_offset)

    def start_at(self, next_offset: int) -> None:
        """Everything below `next_offset` is durable; whatever was said before does not count."""
        self.synced_offset = next_offset
        for begun in self._begun:
            begun.ceiling_offset = next_offset
