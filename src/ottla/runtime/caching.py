"""The page cache: what of a file is in it, and bringing more of it there.

The kernel is asked by reads that must not wait (`RWF_NOWAIT`), of Linux.  Where it cannot be asked,
everything counts as cached: then a read waits for the device, as it did before anybody asked.
"""

import errno
import os
from typing import Final

PAGE_BYTES: Final = 4096
STEP_BYTES: Final = 128 * 1024
"""How far apart it looks: the kernel reads ahead by as much, and mostly forgets what it read so."""

CHUNK_BYTES: Final = 128 * 1024
"""What one read brings: between two of them, somebody may have lost interest."""

_CANNOT_SAY: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
_CAN_ADVISE: Final = hasattr(os, "posix_fadvise")
_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)


class PageCache:
    """What is known about it by asking.  Belongs to one thread."""

    __slots__ = ("_can_ask", "_page")

    def __init__(self) -> None:
        self._can_ask = bool(_NOWAIT) and hasattr(os, "preadv")
        self._page = memoryview(bytearray(PAGE_BYTES))

    def has(self, descriptor: int, position: int, size_bytes: int) -> bool:
        """Whether a part of a file could be read without the device, as far as one can tell.

        The system may begin to read what is missing.
        """
        if not self._can_ask:
            return True
        try:
            if size_bytes <= PAGE_BYTES:
                self._look(descriptor, position, size_bytes)
                return True
            last = position + size_bytes - 1
            for at in range(position, last, STEP_BYTES):
                self._look(descriptor, at, 1)
            self._look(descriptor, last, 1)
        except BlockingIOError:
            return False
        except OSError as error:
            # What else is wrong, whoever reads will learn.
            self._can_ask = error.errno not in _CANNOT_SAY
        return True

    def _look(self, descriptor: int, position: int, size_bytes: int) -> None:
        count = os.preadv(descriptor, [self._page[:size_bytes]], position, _NOWAIT)
        if 0 < count < size_bytes:
            # The next page is not there, and says so; or the file ends.
            os.preadv(descriptor, [self._page[:1]], position + count, _NOWAIT)


class Wanted:
    """A part of a file that shall be brought into the page cache, as long as somebody wants it."""

    __slots__ = ("_path", "_position", "_size_bytes", "is_wanted")

    def __init__(self, path: str, position: int, size_bytes: int) -> None:
        self._path = path
        self._position = position
        self._size_bytes = size_bytes
        self.is_wanted = True

    def bring(self) -> None:
        """Read it, and let the system go on with as much again, for whoever reads in order.

        It has a descriptor of its own, because the file may be closed meanwhile.
        """
        if not self.is_wanted:
            return  # given up before its turn came
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            read_no_further(descriptor)
            at, end = self._position, self._position + self._size_bytes
            _begin_to_read(descriptor, at, self._size_bytes)
            while at < end:
                count = len(os.pread(descriptor, min(CHUNK_BYTES, end - at), at))
                if not count or not self.is_wanted:
                    return
                at += count
            _begin_to_read(descriptor, end, self._size_bytes)
        finally:
            os.close(descriptor)


def read_no_further(descriptor: int) -> None:
    """Have the system read what it is asked for, and nothing ahead of it."""
    if _CAN_ADVISE:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)


def _begin_to_read(descriptor: int, position: int, size_bytes: int) -> None:
    if _CAN_ADVISE:
        os.posix_fadvise(descriptor, position, size_bytes, os.POSIX_FADV_WILLNEED)
