"""Reads of what is not in memory: the loop goes on while the disk delivers it.

Whoever reads tries it at once first.  Nearly always everything is in the page cache, and that
was it.  What is missing is brought there by a thread of the disk, and the read is tried again.  So
there is one way to read, and whatever it needs, indexes too, is waited for in the same manner.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.ports import ColdReadError, Disk

_T = TypeVar("_T")

AHEAD_BYTES: Final = 1024 * 1024 + 64 * 1024
"""What is brought at the least: what a client asks for by default, and a header or two after it.
Who reads cold reads on."""

MAX_ROUNDS: Final = 8
"""How often a file is waited for.  After that memory is so short that what was brought is gone
before it is read; or an index is made anew, from all of a segment.  Then the loop waits."""


async def without_blocking(disk: Disk, read: Callable[[], _T]) -> _T:
    """What `read` gives, whatever is in memory."""
    try:
        return disk.at_once(read)
    except ColdReadError as cold:
        return await aside(disk, read, cold)


async def aside(disk: Disk, read: Callable[[], _T], cold: ColdReadError) -> _T:
    """What `read` gives, after it was tried at once and something was cold.

    It is called again after each wait, in which anything may have happened: what was found before
    has to be found again.  It may go on where it was broken off.
    """
    rounds: Counter[str] = Counter()
    while rounds[cold.path] < MAX_ROUNDS:
        # Twice as much each time: a walk over a whole file must not begin a thousand times.
        size_bytes = max(cold.size_bytes, AHEAD_BYTES << rounds[cold.path])
        rounds[cold.path] += 1
        await disk.warm(cold.path, cold.position, size_bytes)
        try:
            return disk.at_once(read)
        except ColdReadError as again:
            cold = again
    return read()
