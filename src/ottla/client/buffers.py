"""Buffers for large answers, used again when nobody looks into them any more.

Records of an answer are views of its buffer, and it is not known when the last of them goes.  But
a view holds its buffer: one to which there are no references but ours is free.  A fresh buffer
costs nearly as much as what is read into it: the kernel fills it with zeros, page by page.
"""

from sys import getrefcount
from typing import Final

from ottla.wire.frame import SpareBuffers, scratch_buffer

MAX_KEPT: Final = 6
"""What a consumer of one partition has at once: three answers that wait, one that is read, one that
arrives, and one that the caller still holds."""

HEAD_BYTES: Final = 64 * 1024
"""What an answer may have beside its records."""

ANSWER_BYTES: Final = 2 * 1024 * 1024 + HEAD_BYTES
"""The largest answer about one partition with default settings, and some more."""

MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024 + HEAD_BYTES
"""The same for larger settings: what is kept has a limit."""

_LEAST_BYTES: Final = 64 * 1024
"""Smaller buffers come from memory that the process has already."""


def _held_here() -> int:
    """References to a buffer that nobody views: our list, a name, perhaps the question itself.

    Measured as `take` asks, because versions of Python count names and arguments differently: who
    takes a buffer for free that is viewed overwrites records.
    """
    for kept in [bytearray(1)]:
        return getrefcount(kept)
    raise AssertionError("a list of one has one")


_HELD_HERE: Final = _held_here()


class ViewedBuffers(SpareBuffers):
    """For all connections of a client; to be used in its loop."""

    __slots__ = ("_kept",)

    def __init__(self, answer_bytes: int = ANSWER_BYTES) -> None:
        """Buffers are for answers up to `answer_bytes`; larger ones get a new one each."""
        super().__init__()
        self._kept: list[bytearray] = []
        self.trusted_bytes = min(answer_bytes, MAX_ANSWER_BYTES)

    def take(self, size_bytes: int) -> memoryview:
        """A buffer of at least `size_bytes`, with anything in it."""
        if not _LEAST_BYTES <= size_bytes <= self.trusted_bytes:
            return scratch_buffer(size_bytes)
        for kept in self._kept:
            if getrefcount(kept) == _HELD_HERE:
                return memoryview(kept)[len(kept) - self.trusted_bytes :]
        if len(self._kept) == MAX_KEPT:
            return scratch_buffer(size_bytes)
        made = scratch_buffer(self.trusted_bytes)
        assert isinstance(made.obj, bytearray)
        self._kept.append(made.obj)
        return made

    def give_back(self, buffer: memoryview) -> None:
        """Somebody may still view it: `take` finds out."""
