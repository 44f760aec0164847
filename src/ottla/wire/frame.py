"""Bytes as they arrive -> whole frames: four bytes of size, then that many bytes.

`FrameReader` has the two methods of `asyncio.BufferedProtocol`, but no loop and no socket.  What
arrives goes into a scratch buffer that all connections of a loop share.  A frame that fits it is
handed on as a view, without a copy; only a frame that is cut off at the end moves to a buffer of
its own, into which the rest is read directly.  Where a frame was too large for the scratch buffer,
the next one is likely to be, too: it is read into a buffer of its own from its first byte on.

A frame is valid until the next `get_buffer` of any reader on the same scratch buffer: whoever
wants to keep bytes copies them, or asks to `hold` them.  Memory follows the bytes that arrived,
never the size that a peer announced.
"""

from collections.abc import Callable, Iterable
from functools import partial
from struct import Struct
from typing import Final

from ottla.errors import WireError

Part = bytes | bytearray | memoryview

SIZE: Final = Struct(">i")
_PREFIX_BYTES: Final = SIZE.size

SCRATCH_BYTES: Final = 256 * 1024
"""Between 64 KiB and 4 MiB, reading costs the same."""

TRUSTED_BYTES: Final = 1024 * 1024 + 64 * 1024
"""A frame up to this size gets its whole buffer at once; a larger one grows as bytes arrive.
It is the largest request of a producer with default settings, and some more."""

MAX_SPARES: Final = 4
"""How many large buffers are kept for the next frames, by all connections of a loop together."""

_WORTH_SPARING_BYTES: Final = 64 * 1024
"""Smaller buffers come from memory that the process has already."""

_ALIGNMENT_BYTES: Final = 64
"""Copies from a page-aligned source to the first 32 bytes of a page are eight times slower on
some processors, and large bytearrays begin right there."""


def scratch_buffer(size: int = SCRATCH_BYTES) -> memoryview:
    """Make the buffer that the readers of one loop share."""
    return memoryview(bytearray(size + _ALIGNMENT_BYTES))[_ALIGNMENT_BYTES:]


class SpareBuffers:
    """Large buffers that the readers of one loop leave to each other.

    A fresh one costs more than what is read into it: the kernel fills it with zeros, page by page.
    """

    __slots__ = ("_make", "_spares", "trusted_bytes")

    def __init__(self, make: Callable[[int], memoryview] = scratch_buffer) -> None:
        """`make` gives a buffer of a size; one that takes no memory until it is filled is best."""
        self._make = make
        self._spares: list[memoryview] = []
        self.trusted_bytes = TRUSTED_BYTES
        """Up to which size a frame gets its whole buffer at once."""

    def take(self, size_bytes: int) -> memoryview:
        """A buffer of at least `size_bytes`, with anything in it."""
        if size_bytes < _WORTH_SPARING_BYTES:
            return scratch_buffer(size_bytes)
        if size_bytes > TRUSTED_BYTES:
            return self._make(size_bytes)
        return self._spares.pop() if self._spares else self._make(TRUSTED_BYTES)

    def give_back(self, buffer: memoryview) -> None:
        """Nobody reads `buffer` any more, or only until the next `take`."""
        if len(buffer) == TRUSTED_BYTES and len(self._spares) < MAX_SPARES:
            self._spares.append(buffer)

    def take_back(self, buffer: memoryview) -> None:
        """`buffer` was given back, but somebody reads it still."""
        self._spares = [spare for spare in self._spares if spare is not buffer]


def with_size(parts: Iterable[Part]) -> list[Part]:
    """Put the size of a frame in front of its parts."""
    frame = list(parts)
    frame.insert(0, SIZE.pack(sum(memoryview(part).nbytes for part in frame)))
    return frame


class FrameReader:
    """Cuts one connection's bytes into frames of at most `max_frame_bytes`."""

    __slots__ = (
        "_expected_bytes",
        "_filled_bytes",
        "_frame_bytes",
        "_last_buffer",
        "_max_frame_bytes",
        "_partial",
        "_room_bytes",
        "_scratch",
        "_spares",
        "fault",
    )

    def __init__(
        self, scratch: memoryview, max_frame_bytes: int, spares: SpareBuffers | None = None
    ) -> None:
        """`spares` belongs to the readers that share `scratch`; without it, buffers are fresh."""
        assert len(scratch) > SIZE.size
        self._scratch = scratch
        self._spares = spares
        self._max_frame_bytes = max_frame_bytes
        self._partial: memoryview | None = None
        self._filled_bytes = 0
        self._room_bytes = 0
        """How much of `_partial` may be filled: the frame, what is trusted of its size, or what is
        expected of one that has not begun."""
        self._frame_bytes = 0
        """Size of the partial frame with its prefix; 0 as long as that has not come whole."""
        self._expected_bytes = 0
        """Size of the last frame with its prefix, if that was a large one; otherwise 0."""
        self._last_buffer: memoryview | None = None
        """Where the frame lies that was returned last, if it had a buffer of its own."""
        self.fault: WireError | None = None
        """What is wrong with the frame behind those that were returned last."""

    def get_buffer(self) -> memoryview:
        """Where the next bytes belong: never empty."""
        if self._partial is None:
            if not self._expected_bytes:
                return self._scratch
            self._last_buffer = None  # it may be free by now, and is the next one then
            self._partial = self._taken_for(self._expected_bytes)
            self._room_bytes = self._expected_bytes
        return self._partial[self._filled_bytes : self._room_bytes]

    def buffer_updated(self, byte_count: int) -> list[memoryview]:
        """Take note that `byte_count` bytes were put into the buffer; return the whole frames.

        Raises `WireError` for a size that is negative or above the limit; the connection cannot
        go on after that.  Where good frames came before it in the same read, they are returned,
        and the error is in `fault`, for the caller to raise once it has served them.
        """
        if self.fault is not None:
            raise self.fault
        self._last_buffer = None
        if self._partial is None:
            return self._cut(self._scratch[:byte_count])
        self._filled_bytes += byte_count
        if not self._frame_bytes and not self._begins_here(self._partial):
            return self._cut_own(self._partial)
        if self._filled_bytes < self._frame_bytes:
            self._make_room()
            return []
        buffer = self._partial
        frame = self._taken()[SIZE.size :]
        self._last_buffer = buffer
        self._expect(frame)
        return [frame]

    def hold(self) -> Callable[[], None] | None:
        """Keep the frame that was returned last until the function is called that this returns.

        Ask before anything else is read, by any reader.  It is for large frames, which are costly
        to copy; None if the frame has no buffer of its own, and copying is the only way.
        """
        buffer, self._last_buffer = self._last_buffer, None
        if buffer is None or self._spares is None:
            return None
        self._spares.take_back(buffer)
        return partial(self._spares.give_back, buffer)

    def kept(self, frame: memoryview) -> tuple[memoryview, Callable[[], None] | None]:
        """`frame`, which was returned last and alone, where it stays until the function is called.

        That is where it lies, or if it has no buffer of its own, a copy.
        """
        if (release := self.hold()) is not None:
            return frame, release
        buffer = self._taken_for(len(frame))
        buffer[: len(frame)] = frame
        release = None if self._spares is None else partial(self._spares.give_back, buffer)
        return buffer[: len(frame)], release

    @property
    def is_amid_frame(self) -> bool:
        """Whether the peer owes us the rest of a frame."""
        return self._filled_bytes > 0

    @property
    def held_bytes(self) -> int:
        """How much memory the partial frame has for itself."""
        return 0 if self._partial is None else self._room_bytes

    def abandon(self) -> None:
        """Nothing more will arrive: forget a frame that is not whole, and leave its buffer."""
        if self._partial is not None:
            self._taken()

    def _taken(self) -> memoryview:
        """Give up the partial frame's buffer and return what it holds."""
        assert self._partial is not None
        taken = self._partial[: self._filled_bytes]
        if self._spares is not None:
            # A frame is valid until the next read, and no buffer is taken before that.
            self._spares.give_back(self._partial)
        self._partial, self._filled_bytes, self._frame_bytes = None, 0, 0
        return taken

    def _taken_for(self, size_bytes: int) -> memoryview:
        """A buffer of at least `size_bytes`."""
        return scratch_buffer(size_bytes) if self._spares is None else self._spares.take(size_bytes)

    def _expect(self, frame: memoryview) -> None:
        """Another one like `frame`: where it has room in the scratch buffer, there."""
        frame_bytes = len(frame) + _PREFIX_BYTES
        trusted_bytes = TRUSTED_BYTES if self._spares is None else self._spares.trusted_bytes
        is_large = len(self._scratch) < frame_bytes <= trusted_bytes
        self._expected_bytes = frame_bytes if is_large else 0

    def _begins_here(self, buffer: memoryview) -> bool:
        """Whether a large frame that has room in `buffer` begins there, and nothing is behind it.

        A small one does not stay in a large buffer, of which nobody would know.
        """
        if self._filled_bytes < _PREFIX_BYTES:
            return False
        frame_bytes = _PREFIX_BYTES + SIZE.unpack_from(buffer)[0]
        most_bytes = min(len(buffer), self._max_frame_bytes)
        least_bytes = max(self._filled_bytes, len(self._scratch) + 1)
        if not least_bytes <= frame_bytes <= most_bytes:
            return False
        self._frame_bytes = self._room_bytes = frame_bytes
        return True

    def _cut_own(self, buffer: memoryview) -> list[memoryview]:
        """Return the whole frames in a buffer of our own, and keep what is left elsewhere."""
        filled, self._partial = buffer[: self._filled_bytes], None
        self._filled_bytes = self._expected_bytes = 0
        try:
            frames = self._cut(filled)
        finally:
            # Not before: what is left would be kept where the frames are.
            if self._spares is not None:
                self._spares.give_back(buffer)
        if len(frames) == 1:
            self._last_buffer = buffer
        return frames

    def _cut(self, data: memoryview) -> list[memoryview]:
        """Return the whole frames in `data`, and keep what is left."""
        frames: list[memoryview] = []
        position = 0
        data_bytes, max_frame_bytes = len(data), self._max_frame_bytes
        while data_bytes - position >= _PREFIX_BYTES:
            (size,) = SIZE.unpack_from(data, position)
            if not 0 <= size <= max_frame_bytes:
                self.fault = self._illegal(size, bytes(data[position : position + _PREFIX_BYTES]))
                if not frames:
                    raise self.fault
                return frames
            begin = position + _PREFIX_BYTES
            end = begin + size
            if end > data_bytes:
                self._keep(data[position:], end - position)
                return frames
            frames.append(data[begin:end])
            position = end
        if position < data_bytes:
            self._keep(data[position:], 0)
        return frames

    def _illegal(self, size: int, beginning: bytes) -> WireError:
        limit = self._max_frame_bytes
        return WireError(f"a frame of {size} bytes; the limit is {limit}{_hint(beginning)}")

    def _keep(self, beginning: memoryview, frame_bytes: int) -> None:
        """Move the beginning of a frame out of the shared buffer."""
        outgrown, spares = self._partial, self._spares
        trusted_bytes = TRUSTED_BYTES if spares is None else spares.trusted_bytes
        room = min(frame_bytes, max(trusted_bytes, 2 * len(beginning))) or SIZE.size
        self._partial = self._taken_for(room)
        self._partial[: len(beginning)] = beginning
        if outgrown is not None and spares is not None:
            spares.give_back(outgrown)
        self._room_bytes = room
        self._filled_bytes = len(beginning)
        self._frame_bytes = frame_bytes

    def _make_room(self) -> None:
        assert self._partial is not None
        if self._filled_bytes == self._room_bytes:
            self._keep(self._partial[: self._filled_bytes], self._frame_bytes)


_FOREIGN_BEGINNINGS: Final = {
    b"\x16\x03": "a TLS client on a plaintext listener?",
    b"GET ": "an HTTP client on a Kafka port?",
    b"POST": "an HTTP client on a Kafka port?",
    b"HEAD": "an HTTP client on a Kafka port?",
}


def _hint(beginning: bytes) -> str:
    for foreign, hint in _FOREIGN_BEGINNINGS.items():
        if beginning.startswith(foreign):
            return f" ({hint})"
    return ""
