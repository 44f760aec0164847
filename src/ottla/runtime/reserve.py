"""Room on a disk that is kept for the day when it is full.

Whoever frees room has to write a little first: a shorter retention, the end of a topic.  On a disk
that is full to the last byte even that fails, and nobody could help it from outside.  So a file
holds some room from the start; a part of it is given back when it is needed, and taken again when
there is room.  It holds nothing: losing it costs the reserve, and nothing else.
"""

import errno
import os
from typing import Final

RESERVE_FILE: Final = ".reserve"
"""Where in its data directory a broker has it."""
RESERVE_BYTES: Final = 1024 * 1024
PART_BYTES: Final = RESERVE_BYTES // 4
"""So much is given back at a time: enough for hundreds of changes."""

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)


class Reserve:
    """One such file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def keep(self) -> bool:
        """Take the room, if there is any; whether all of it is ours now."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            kept_bytes = os.fstat(descriptor).st_size
            if kept_bytes >= RESERVE_BYTES:
                return True
            try:
                _allocate(descriptor, kept_bytes, RESERVE_BYTES)
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                os.ftruncate(descriptor, kept_bytes)
                return False
        finally:
            os.close(descriptor)
        return True

    def release(self) -> bool:
        """Give a part of the room back; False: there is nothing left to give."""
        try:
            kept_bytes = os.stat(self._path).st_size
        except FileNotFoundError:
            return False
        if not kept_bytes:
            return False
        os.truncate(self._path, max(0, kept_bytes - PART_BYTES))
        return True


def _allocate(descriptor: int, from_bytes: int, until_bytes: int) -> None:
    """Have blocks for this part of a file, not just a length."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, from_bytes, until_bytes - from_bytes)
    else:  # macOS
        os.pwrite(descriptor, bytes(until_bytes - from_bytes), from_bytes)
