"""The compression codecs of a record batch, by number, with a bound on what comes out.

Compressed bytes come from strangers, and 8 KiB of zstd can hold 256 MiB of zeros.  So the caller
always says how much may come out, and no buffer is ever sized by a length that a stream merely
claims.  Where the format splits data into blocks, the block headers are added up first: they give
a *ceiling* that no decoder can exceed, paid for by bytes that were really sent.  The output
buffer is the ceiling or the caller's bound, whichever is smaller.

What we accept is what Java's readers accept, also past the end of a stream: gzip ignores what does
not begin another member, LZ4 whatever follows the end mark, framed snappy a rest of less than
four bytes; zstd reads on and refuses what is not a frame.  One thing we read and Java does not:
LZ4 blocks that depend on each other.  Every refusal is a `BatchError`.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from types import ModuleType
from typing import Final, Self, TypeAlias

from ottla.errors import BatchError, ErrorCode

BytesLike: TypeAlias = bytes | bytearray | memoryview


class Compression(IntEnum):
    """The codec numbers in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> Self:
        """The codec that Kafka's settings call `name`, as in `compression.type=zstd`."""
        for codec in cls:
            if codec.label == name:
                return codec
        known = ", ".join(codec.label for codec in cls)
        raise ValueError(f"compression {name!r} is not one of {known}")

    @property
    def label(self) -> str:
        """The name that Kafka's settings use: `named` undoes it."""
        return self.name.lower()

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise BatchError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"compression id {value!r} is not one of {', '.join(str(int(c)) for c in cls)}",
        )


LEVELS: Final[Mapping[Compression, range]] = {
    Compression.GZIP: range(1, 10),
    Compression.LZ4: range(1, 18),
    Compression.ZSTD: range(-131072, 23),
}
"""The levels that Kafka's settings allow; the other codecs have none."""

_LZ4_FAST_LEVEL = 9
"""Kafka's default for LZ4.  In Java it means the fast compressor, and every other level the slow
one that searches harder; so it does here."""

_LZ4_MOST_LEVEL = 12
"""Where the C library's slow compressor ends; the Java one that Kafka's range describes has 17."""


def compress(codec: int, data: BytesLike, level: int | None = None) -> bytes:
    """Compress `data` into one stream, as Kafka's Java producer would frame it.

    Raises:
        ValueError: `level` is not in `LEVELS`; `None` is each codec's default.
        BatchError: the codec is unknown, or its wheel is not installed.
    """
    codec = Compression(codec)
    if level is not None and level not in LEVELS.get(codec, ()):
        raise ValueError(f"{codec.label} level {level} is outside {_levels(codec)}")
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return zlib.compress(data, -1 if level is None else level, wbits=_GZIP_WBITS)
        case Compression.SNAPPY:
            return _snappy(memoryview(data).cast("B"))
        case Compression.LZ4:
            return _lz4(data, level)
        case Compression.ZSTD:
            wheel = _cramjam(codec)
            return bytes(wheel.zstd.compress(data, level=3 if level is None else level))


def decompress(codec: int, data: BytesLike, max_bytes: int) -> memoryview:
    """What `data` holds, if that is at most `max_bytes`, as a read-only view.

    A view, because the wheel writes into a buffer that we size, and turning that into `bytes`
    would cost another copy of everything.  With `NONE` it is a view on `data` itself.

    Raises:
        BatchError: `MESSAGE_TOO_LARGE` if more than `max_bytes` would come out; memory then stays
            within about twice `max_bytes`.  `INVALID_RECORD` if the stream is broken or cut short.
            `UNSUPPORTED_COMPRESSION_TYPE` if the codec is unknown, or its wheel not installed.
    """
    assert max_bytes >= 0, max_bytes
    codec = Compression(codec)
    view = memoryview(data).cast("B").toreadonly()
    match codec:
        case Compression.NONE:
            if len(view) > max_bytes:
                raise _too_large(codec, max_bytes)
            return view
        case Compression.GZIP:
            return _ungzip(view, max_bytes)
        case Compression.SNAPPY:
            return _unsnappy(view, max_bytes)
        case Compression.LZ4:
            ceiling, end = _lz4_ceiling(view)
            decode = _cramjam(codec).lz4.decompress_into
            return _decompress_below(ceiling, codec, decode, view[:end], max_bytes)
        case Compression.ZSTD:
            ceiling = _zstd_ceiling(view)
            decode = _cramjam(codec).zstd.decompress_into
            return _decompress_below(ceiling, codec, decode, view, max_bytes)


def _levels(codec: Compression) -> str:
    levels = LEVELS.get(codec)
    return f"[{levels[0]}, {levels[-1]}]" if levels else "its range: it has no levels"


def _cramjam(codec: Compression) -> ModuleType:
    """The wheel behind all codecs but gzip; imported at first use, not with this module."""
    try:
        import cramjam
    except ImportError as error:
        raise BatchError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"{codec.label} needs a wheel that is not installed: pip install cramjam",
        ) from error
    return cramjam


def _too_large(codec: Compression, max_bytes: int) -> BatchError:
    return BatchError(
        ErrorCode.MESSAGE_TOO_LARGE, f"{codec.label} data holds more than {max_bytes} bytes"
    )


def _broken(codec: Compression, why: str) -> BatchError:
    return BatchError(ErrorCode.INVALID_RECORD, f"{codec.label} data {why}")


_OUTPUT_FULL = "failed to write whole buffer"
"""How Rust's standard library words a full output, and so how cramjam does."""


def _decompress_below(
    ceiling: int,
    codec: Compression,
    decode: Callable[[memoryview, bytearray], int],
    data: memoryview,
    max_bytes: int,
) -> memoryview:
    """Decode into a buffer of `ceiling` bytes, or of `max_bytes` if that is less."""
    out = bytearray(min(ceiling, max_bytes))
    try:
        size_bytes = decode(data, out)
    except _cramjam(codec).DecompressionError as error:
        if ceiling > max_bytes and str(error) == _OUTPUT_FULL:
            raise _too_large(codec, max_bytes) from error
        raise _broken(codec, f"is broken: {error}") from error
    del out[size_bytes:]
    return memoryview(out).toreadonly()


def _little_endian(codec: Compression, data: memoryview, position: int, width_bytes: int) -> int:
    field = data[position : position + width_bytes]
    if len(field) < width_bytes:
        raise _broken(codec, f"ends within a header, at byte {len(data)}")
    return int.from_bytes(field, "little")


_GZIP_WBITS = 31  # the largest window, with gzip's header and trailer around the stream
_GZIP_MEMBER = b"\x1f\x8b\x08"
_GZIP_PIECE_BYTES = 16 * 1024
"""Fed piece by piece, because zlib copies what follows a member: with everything at once, a
megabyte of empty members would cost a copy of the rest for each of them."""


def _ungzip(data: memoryview, max_bytes: int) -> memoryview:
    out = bytearray()
    position = _ungzip_member(data, 0, out, max_bytes)
    while data[position : position + len(_GZIP_MEMBER)] == _GZIP_MEMBER:
        position = _ungzip_member(data, position, out, max_bytes)
    return memoryview(out).toreadonly()


def _ungzip_member(data: memoryview, position: int, out: bytearray, max_bytes: int) -> int:
    """Append what the member at `position` holds to `out`; return where the member ends."""
    member = zlib.decompressobj(_GZIP_WBITS)
    while not member.eof:
        piece = data[position : position + _GZIP_PIECE_BYTES]
        if not piece:
            raise _broken(Compression.GZIP, f"ends before its trailer, at byte {len(data)}")
        try:
            out += member.decompress(piece, max_bytes + 1 - len(out))
        except zlib.error as error:
            raise _broken(Compression.GZIP, f"is broken: {error}") from error
        if len(out) > max_bytes:
            raise _too_large(Compression.GZIP, max_bytes)
        position += len(piece) - len(member.unused_data)
    return position


# Snappy itself has neither frames nor checksums.  Java's library puts this around it:
#     header   magic, then two versions as int32: always 1, in whatever byte order, so not read
#     block    length as int32, then a snappy stream of at most 32 KiB of data
# A header may come again between blocks, where streams were joined.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK_BYTES = 32 * 1024

_SNAPPY_BEST_COPY = 64, 3
"""The densest element of a snappy stream: a copy of 64 bytes, in 3."""


def _snappy(data: memoryview) -> bytes:
    encode = _cramjam(Compression.SNAPPY).snappy.compress_raw
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(encode(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _unsnappy(data: memoryview, max_bytes: int) -> memoryview:
    wheel = _cramjam(Compression.SNAPPY)
    try:
        total_bytes = sum(_snappy_size_bytes(block, wheel) for block in _snappy_blocks(data))
        if total_bytes > max_bytes:
            raise _too_large(Compression.SNAPPY, max_bytes)
        out = memoryview(bytearray(total_bytes))
        position = 0
        for block in _snappy_blocks(data):
            position += wheel.snappy.decompress_raw_into(block, out[position:])
    except wheel.DecompressionError as error:
        raise _broken(Compression.SNAPPY, f"is broken: {error}") from error
    assert position == total_bytes, (position, total_bytes)
    return out.toreadonly()


def _snappy_size_bytes(block: memoryview, wheel: ModuleType) -> int:
    """The size that `block` declares, which is exact, once it is known to be possible."""
    size_bytes: int = wheel.snappy.decompress_raw_len(block)
    copied, spent = _SNAPPY_BEST_COPY
    if size_bytes * spent > len(block) * copied:
        raise _broken(Compression.SNAPPY, f"declares {size_bytes} bytes in a block of {len(block)}")
    return size_bytes


def _snappy_blocks(data: memoryview) -> Iterator[memoryview]:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC or len(data) < len(_XERIAL_HEADER):
        yield data  # not framed: all of it is one snappy stream
        return
    position = 0
    while position + 4 <= len(data):
        if data[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            continue
        start = position + 4
        position = start + int.from_bytes(data[position:start], "big")
        if position > len(data):
            raise _broken(
                Compression.SNAPPY,
                f"has {len(data) - start} bytes left for a block of {position - start}",
            )
        yield data[start:position]
    if position > len(data):
        raise _broken(Compression.SNAPPY, f"ends within a header, at byte {len(data)}")


# https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md
_LZ4_MAGIC = 0x184D2204
_LZ4_VERSION = 1
_LZ4_STORED = 0x8000_0000  # in a block's length: the block is not compressed
_LZ4_BEST_RATIO = 255


def _lz4(data: BytesLike, level: int | None) -> bytes:
    """One frame of independent blocks of 64 KiB.  Unlike Java's, each block has a checksum."""
    effort = 0 if level is None or level == _LZ4_FAST_LEVEL else min(level, _LZ4_MOST_LEVEL)
    encoder = _cramjam(Compression.LZ4).lz4.Compressor(
        level=effort, content_checksum=False, block_linked=False
    )
    encoder.compress(bytes(data))  # it takes nothing else
    return bytes(encoder.finish())


def _lz4_ceiling(data: memoryview) -> tuple[int, int]:
    """The most that the frame at the start of `data` can hold, and where that frame ends."""
    lz4 = Compression.LZ4
    if _little_endian(lz4, data, 0, 4) != _LZ4_MAGIC:
        raise _broken(lz4, "does not begin with a frame")
    flags = _little_endian(lz4, data, 4, 1)
    size_code = _little_endian(lz4, data, 5, 1) >> 4 & 7
    if flags >> 6 != _LZ4_VERSION or size_code < 4:
        raise _broken(lz4, f"has flags {flags:#04x} and block size {size_code}")
    has_block_checksum, has_content_size, has_checksum, has_dictionary = (
        flags >> bit & 1 for bit in (4, 3, 2, 0)
    )
    most_bytes = 1 << (2 * size_code + 8)
    position = 7 + 8 * has_content_size + 4 * has_dictionary
    ceiling = 0
    while length := _little_endian(lz4, data, position, 4):
        stored_bytes = length & ~_LZ4_STORED
        is_stored = length & _LZ4_STORED
        ceiling += stored_bytes if is_stored else min(most_bytes, stored_bytes * _LZ4_BEST_RATIO)
        position += 4 + stored_bytes + 4 * has_block_checksum
    return ceiling, position + 4 + 4 * has_checksum


# RFC 8878
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC = 0x184D2A50  # the last four bits are free
_ZSTD_BLOCK_BYTES = 128 * 1024
_ZSTD_DICTIONARY_ID_BYTES = (0, 1, 2, 4)
_ZSTD_CONTENT_SIZE_BYTES = (0, 2, 4, 8)


def _zstd_ceiling(data: memoryview) -> int:
    """The most that all the frames in `data` can hold.

    A frame may declare a window of up to 128 MiB, Java's limit and the C library's.  That much
    address space is set aside for it, but memory only as the window fills with output.
    """
    ceiling = position = 0
    while position < len(data):
        magic = _little_endian(Compression.ZSTD, data, position, 4)
        if magic & ~0xF == _ZSTD_SKIPPABLE_MAGIC:
            position += 8 + _little_endian(Compression.ZSTD, data, position + 4, 4)
        elif magic == _ZSTD_MAGIC:
            frame_ceiling, position = _zstd_frame(data, position + 4)
            ceiling += frame_ceiling
        else:
            raise _broken(Compression.ZSTD, f"has no frame at byte {position}")
    return ceiling


def _zstd_frame(data: memoryview, position: int) -> tuple[int, int]:
    """The most that a frame can hold, and where it ends; `position` is just after its magic."""
    zstd = Compression.ZSTD
    descriptor = _little_endian(zstd, data, position, 1)
    is_single_segment = descriptor >> 5 & 1
    has_checksum = descriptor >> 2 & 1
    position += 2 - is_single_segment  # a single segment has no byte for the window
    position += _ZSTD_DICTIONARY_ID_BYTES[descriptor & 3]
    position += _ZSTD_CONTENT_SIZE_BYTES[descriptor >> 6] or is_single_segment
    ceiling = is_last = 0
    while not is_last:
        header = _little_endian(zstd, data, position, 3)
        is_last, kind, size_bytes = header & 1, header >> 1 & 3, header >> 3
        match kind:
            case 0:  # stored
                ceiling += size_bytes
                position += 3 + size_bytes
            case 1:  # one byte, repeated
                ceiling += size_bytes
                position += 3 + 1
            case 2:  # compressed
                ceiling += _ZSTD_BLOCK_BYTES
                position += 3 + size_bytes
            case _:
                raise _broken(zstd, f"has a block of unknown kind at byte {position}")
    return ceiling, position + 4 * has_checksum
