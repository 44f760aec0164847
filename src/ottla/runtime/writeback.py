"""Advice to bring written pages to the disk before anybody waits for them.

The device can be at work while the thread that will wait for it is still being woken.  Linux has a
call for that which begins and waits for nothing, and Python has no name for it; so it goes through
ctypes, which is loaded with the first large batch: no broker begins with that.
"""

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final

_BEGIN: Final = 2
"""SYNC_FILE_RANGE_WRITE: it does not ask whether earlier writes failed, so a sync still learns."""


def begin_writeback(descriptor: int) -> None:
    """Begin to write what is dirty of a file, where the system can be told to."""
    advise = _sync_file_range()
    if advise is not None:
        advise(descriptor, 0, 0, _BEGIN)  # all of it; what is wrong, the sync will tell


@cache
def _sync_file_range() -> Callable[[int, int, int, int], Any] | None:
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        advise = getattr(ctypes.CDLL(None), "sync_file_range", None)
    except (ImportError, OSError):  # some Pythons come without it, and it is advice alone
        return None
    if advise is not None:
        advise.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return advise
