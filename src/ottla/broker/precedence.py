"""Small requests go first.

A loop does one thing at a time.  To take in 100 KB takes it several times as long as a small
request, most of that for the copy into the file, and who asks for little meanwhile waits for all of
it.  So a large request lets those go first that are there already, and once more before its answer
leaves: that wakes its client, on a processor that somebody else's answer may need.

It costs a large request four turns of the loop, so it is done only where there are others.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Final

from ottla.wire.frame import TRUSTED_BYTES

LARGE_REQUEST_BYTES: Final = 32 * 1024
LARGEST_BYTES: Final = TRUSTED_BYTES
"""What is larger than that is rare, and its memory is not kept any longer than it has to be."""

RECENT_S: Final = 0.010
"""If somebody else has sent a small request so lately, another one may come now."""

MAX_WAITING: Final = 4
"""Turns that large requests wait for, of all connections: each may have a buffer of its own."""

_NEVER: Final = float("-inf")


class Precedence:
    """What the sessions of one loop know of each other."""

    __slots__ = ("_last_by", "_last_s", "_others_s", "waiting_count")

    def __init__(self) -> None:
        self._last_by = 0
        """Whose the last small request was."""
        self._last_s = _NEVER
        self._others_s = _NEVER
        """When the last one came that was somebody else's than that."""
        self.waiting_count = 0

    def note_small(self, session: object, now_s: float) -> None:
        """A small request has come."""
        by = id(session)  # no reference: it may be gone before the next one comes
        if by != self._last_by:
            self._last_by, self._others_s = by, self._last_s
        self._last_s = now_s

    def lets_others_first(self, session: object, size_bytes: int, now_s: float) -> bool:
        """Whether a request that has come now, alone and whole, had better wait for a moment."""
        others_s = self._others_s if id(session) == self._last_by else self._last_s
        return (
            LARGE_REQUEST_BYTES <= size_bytes <= LARGEST_BYTES
            and now_s - others_s < RECENT_S
            and self.waiting_count < MAX_WAITING
        )


def call_behind_others(loop: AbstractEventLoop, call: Callable[[], None]) -> None:
    """Call it in the turn after the next one, so behind all that the next one finds."""
    loop.call_soon(loop.call_soon, call)
