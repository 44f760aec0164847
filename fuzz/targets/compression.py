"""Compression: hostile streams never yield more than they may, and ours are read back.

The first byte chooses the codec.
"""

from collections.abc import Iterator
from typing import Final

from ottla.errors import BatchError
from ottla.records.compression import Compression, compress, decompress

_CODECS: Final = [codec for codec in Compression if codec is not Compression.NONE]
_MAX_BYTES: Final = 64 * 1024


def one_input(data: bytes) -> None:
    """Take the bytes for a compressed stream, and for something to compress."""
    codec, payload = _CODECS[(data[0] if data else 0) % len(_CODECS)], data[1:]
    try:
        yielded = decompress(codec, payload, _MAX_BYTES)
    except BatchError:
        pass
    else:
        assert len(yielded) <= _MAX_BYTES, f"{len(yielded)} bytes came out"
    packed = compress(codec, payload)
    assert bytes(decompress(codec, packed, len(payload))) == payload
    if payload:
        _assert_bounded(codec, packed, len(payload) - 1)


def _assert_bounded(codec: Compression, packed: bytes, max_bytes: int) -> None:
    try:
        decompress(codec, packed, max_bytes)
    except BatchError:
        return
    raise AssertionError(f"more than {max_bytes} bytes came out")


def seeds() -> Iterator[bytes]:
    contents = [b"", b"a", bytes(5_000), b"kafka's little sister " * 40, bytes(range(256)) * 4]
    for index, codec in enumerate(_CODECS):
        for content in contents:
            yield bytes([index]) + bytes(compress(codec, content))
