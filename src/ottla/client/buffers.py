"""Buffers for large answers, used again when nobody looks into them any more.

Records of an answer are views of its buffer, and it is not known when the last of them goes.  But
a view holds its buffer: one to which there are no references but ours is free.  A fresh buffer
costs nearly as much as what is read into it: the kernel fills it with zeros, page by page.
"""

from sys import getrefcount
from typing import Final

from ottla.wire.frame import SIZE, FrameReader, SpareBuffers, scratch_buffer

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


class AnswerReader(FrameReader):
    """A reader that expects another large answer after one: it is read where it will stay.

    Otherwise its beginning arrives in the scratch buffer, is copied, and the rest takes another
    turn of the loop, which a caller who is busy with the last answer keeps waiting.
    """

    __slots__ = ("_buffers", "_expects_large")

    def __init__(self, scratch: memoryview, max_frame_bytes: int, buffers: ViewedBuffers) -> None:
        super().__init__(scratch, max_frame_bytes, buffers)
        self._buffers = buffers
        self._expects_large = False

    def get_buffer(self) -> memoryview:
        """Where the next bytes belong: never empty."""
        if self._partial is None:
            if not self._expects_large:
                return self._scratch
            self._last_buffer = None  # it may be free by now, and is the next one then
            self._partial = self._buffers.take(self._buffers.trusted_bytes)
            self._filled_bytes, self._frame_bytes = 0, 0
            self._room_bytes = self._buffers.trusted_bytes
        return self._partial[self._filled_bytes : self._room_bytes]

    def buffer_updated(self, byte_count: int) -> list[memoryview]:
        """As a `FrameReader` does it; a frame that is not whole goes on where it began."""
        if self._expects_large and self._begins_here(byte_count):
            self._filled_bytes = byte_count
            return []
        frames = super().buffer_updated(byte_count)
        if frames:
            self._expects_large = len(frames[-1]) > len(self._scratch)
        return frames

    def _begins_here(self, byte_count: int) -> bool:
        """Whether what came is the beginning of one frame, which has room in its buffer."""
        if self._partial is None or self._filled_bytes or byte_count < SIZE.size:
            return False
        frame_bytes = SIZE.size + SIZE.unpack_from(self._partial)[0]
        if not byte_count < frame_bytes <= min(self._room_bytes, self._max_frame_bytes):
            return False
        self._frame_bytes = self._room_bytes = frame_bytes
        return True
