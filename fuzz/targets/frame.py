"""Frames: wherever the bytes of a connection are cut, the same frames come out.

The first byte is the size of the shared buffer, the next eight are where the stream is cut.
"""

from collections.abc import Iterator
from typing import Final

from ottla.errors import WireError
from ottla.wire.frame import SIZE, FrameReader, scratch_buffer, with_size

_CUT_COUNT: Final = 8
_MAX_FRAME_BYTES: Final = 300
"""Small, so that the limit is met."""


def one_input(data: bytes) -> None:
    """Compare what the reader makes of a cut stream with the stream split at once."""
    if len(data) <= 1 + _CUT_COUNT:
        return
    scratch = scratch_buffer(SIZE.size + 1 + data[0])
    cuts, stream = data[1 : 1 + _CUT_COUNT], data[1 + _CUT_COUNT :]
    wanted, left = _split(stream)
    reader = FrameReader(scratch, _MAX_FRAME_BYTES)
    received: list[bytes] = []
    is_refused = False
    try:
        for chunk in _chunks(stream, cuts):
            _feed(reader, chunk, received)
            is_refused = reader.fault is not None
            if is_refused:
                break
    except WireError:
        is_refused = True
    assert is_refused == (left is None)
    assert received == wanted, "what came before a fault is lost"
    assert left is None or reader.is_amid_frame == (left > 0)


def seeds() -> Iterator[bytes]:
    frames = [b"", b"one", b"x" * 299, b"four" * 20]
    whole = b"".join(b"".join(with_size([frame])) for frame in frames)
    for scratch_bytes in (0, 60, 255):
        for cuts in (b"\x01" * _CUT_COUNT, b"\xff" * _CUT_COUNT, bytes(range(3, 3 + _CUT_COUNT))):
            yield bytes([scratch_bytes]) + cuts + whole
            yield bytes([scratch_bytes]) + cuts + whole + SIZE.pack(_MAX_FRAME_BYTES + 1)


def _split(stream: bytes) -> tuple[list[bytes], int | None]:
    """The frames of a stream and the bytes left over; None where a size is out of its range."""
    frames: list[bytes] = []
    while len(stream) >= SIZE.size:
        (size,) = SIZE.unpack_from(stream)
        if not 0 <= size <= _MAX_FRAME_BYTES:
            return frames, None
        if len(stream) < SIZE.size + size:
            break
        frames.append(stream[SIZE.size : SIZE.size + size])
        stream = stream[SIZE.size + size :]
    return frames, len(stream)


def _chunks(stream: bytes, cuts: bytes) -> Iterator[bytes]:
    index = 0
    while stream:
        size = 1 + cuts[index % len(cuts)]
        yield stream[:size]
        stream = stream[size:]
        index += 1


def _feed(reader: FrameReader, chunk: bytes, received: list[bytes]) -> None:
    """Hand `chunk` over as a socket would: as much at a time as the buffer takes."""
    while chunk and reader.fault is None:
        buffer = reader.get_buffer()
        count = min(len(buffer), len(chunk))
        assert count > 0, "a buffer without room"
        buffer[:count] = chunk[:count]
        chunk = chunk[count:]
        received += [bytes(frame) for frame in reader.buffer_updated(count)]
