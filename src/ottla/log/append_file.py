"""A file that grows at its end, in room that was reserved before.

Reserved room makes appends and syncs cheaper.  It is filled with zeros, so that the file is longer
than its content; nothing beyond `size_bytes` is ever read.  Room is an offer: where the disk is too
full to reserve any, the write itself decides.
"""

from typing import Final

from ottla.errors import StorageError
from ottla.ports import NO_ROOM, Buffer, File

FIRST_ROOM_BYTES: Final = 16 * 1024
MAX_ROOM_STEP_BYTES: Final = 16 * 1024 * 1024
"""Room doubles from the first to the largest step: a small log reserves little disk."""

_UNKNOWN: Final = -1


class AppendFile:
    """The first `size_bytes` of `file`, and what is appended to them."""

    __slots__ = ("_room_bytes", "file", "size_bytes")

    def __init__(self, file: File, size_bytes: int) -> None:
        """What lies beyond `size_bytes` may be anything."""
        self.file = file
        self.size_bytes = size_bytes
        self._room_bytes = _UNKNOWN

    def append(self, data: Buffer, max_size_bytes: int, *, reserve_all: bool) -> None:
        """Write `data` at the end.  After an error the content is what it was before.

        Room is reserved up to `max_size_bytes`: step by step, or all at once.
        """
        end_position = self.size_bytes + len(data)
        if end_position > self._room_bytes:
            self._make_room(end_position, max_size_bytes, reserve_all=reserve_all)
        try:
            self.file.write(self.size_bytes, data)
        except OSError:
            self._room_bytes = _UNKNOWN
            raise
        self.size_bytes = end_position

    def _make_room(self, needed_bytes: int, max_size_bytes: int, *, reserve_all: bool) -> None:
        if self._room_bytes == _UNKNOWN and self.file.size_bytes() > self.size_bytes:
            # Half a batch may lie here, and inside it whatever its sender liked: were a shorter
            # batch written over its start, recovery could take the rest for batches of ours.
            self.trim()
        step_bytes = min(max(self.size_bytes, FIRST_ROOM_BYTES), MAX_ROOM_STEP_BYTES)
        wanted_bytes = max_size_bytes if reserve_all else self.size_bytes + step_bytes
        self._room_bytes = max(min(wanted_bytes, max_size_bytes), needed_bytes)
        try:
            self.file.allocate(self._room_bytes)
        except OSError as error:
            self._room_bytes = needed_bytes
            if error.errno not in NO_ROOM:
                raise

    def trim(self) -> None:
        """Give back what lies beyond the content."""
        self.file.truncate(self.size_bytes)
        self._room_bytes = self.size_bytes

    def cut(self, size_bytes: int) -> None:
        """Keep the first `size_bytes` and drop the rest, durably."""
        assert size_bytes <= self.size_bytes, (size_bytes, self.size_bytes)
        self.size_bytes = size_bytes
        self.trim()
        # Before anything else is written: otherwise power loss could keep what is appended next,
        # but not the cut, and old content would follow it.
        self.file.sync()

    def read(self, position: int, end_position: int) -> bytes:
        """The content between two positions.

        Raises:
            StorageError: The file is shorter than it was.
        """
        assert end_position <= self.size_bytes, (end_position, self.size_bytes)
        data = self.file.read(position, end_position - position)
        if len(data) < end_position - position:
            raise StorageError(
                f"{self.file.path} ends at byte {position + len(data)}, but it had "
                f"{self.size_bytes}: somebody else has cut it"
            )
        return data
