"""Room on a disk that is kept for the day when it is full.

Whoever frees room has to write a little first: a shorter retention, the end of a topic.  On a disk
that is full to the last byte even that fails, and nobody could help it from outside.  So a file
holds some room from the start; a part of it is given back when it is needed, and taken again when
there is room.  It holds nothing: losing it costs the reserve, and nothing else.  So nobody is ever
stopped by it, and what goes wrong is logged alone.
"""

import logging
import os
from typing import Final

from ottla.ports import NO_ROOM
from ottla.runtime.files import preallocate

log = logging.getLogger(__name__)

RESERVE_FILE: Final = ".reserve"
"""Where in its data directory a broker has it."""
RESERVE_BYTES: Final = 1024 * 1024
PART_BYTES: Final = RESERVE_BYTES // 4
"""So much is given back at a time: enough for hundreds of changes."""


class Reserve:
    """One such file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def keep(self) -> bool:
        """Take the room, if there is any; whether all of it is ours now."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                _fill(descriptor, RESERVE_BYTES)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno not in NO_ROOM:
                log.warning("no room is kept for a full disk: path=%s %s", self._path, error)
            return False
        return True

    def is_needed(self) -> bool:
        """Whether there is no room for another part of it."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                kept_bytes = os.fstat(descriptor).st_size
                _fill(descriptor, kept_bytes + PART_BYTES)
                os.ftruncate(descriptor, kept_bytes)
            finally:
                os.close(descriptor)
        except OSError as error:
            return error.errno in NO_ROOM
        return False

    def release(self) -> bool:
        """Give a part of the room back; False: there is nothing left to give."""
        try:
            kept_bytes = os.stat(self._path).st_size
            if not kept_bytes:
                return False
            os.truncate(self._path, max(0, kept_bytes - PART_BYTES))
        except FileNotFoundError:
            return False
        except OSError as error:
            log.warning("reserved room not given back: path=%s %s", self._path, error)
            return False
        return True


def _fill(descriptor: int, size_bytes: int) -> None:
    """Have blocks for so much, not just a length; where there is no room, for no more than now."""
    kept_bytes = os.fstat(descriptor).st_size
    missing_bytes = size_bytes - kept_bytes
    if missing_bytes <= 0:
        return
    try:
        if not preallocate(descriptor, kept_bytes, missing_bytes):
            os.pwrite(descriptor, bytes(missing_bytes), kept_bytes)
    except OSError:
        os.ftruncate(descriptor, kept_bytes)
        raise
