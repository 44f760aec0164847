"""Compression holds for every input: round trips, exact bounds, and noise that stays harmless."""

import zlib

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import BatchError, ErrorCode
from ottla.records.compression import Compression, compress, decompress

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
EVERY_CODEC = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.label)

AMPLE_BYTES = 1 << 22

# Runs of repeated text cross block borders (32, 64 and 128 KiB) without large draws.
DATA = st.lists(
    st.builds(lambda text, times: text * times, st.binary(max_size=40), st.integers(1, 9000)),
    max_size=4,
).map(b"".join)

SMALL_DATA = st.binary(max_size=300)

# How each kind of damage begins, so that noise reaches the decoders and not only the magic check.
BEGINNINGS = {
    Compression.GZIP: bytes.fromhex("1f8b08000000000000ff"),
    Compression.SNAPPY: b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01",
    Compression.LZ4: bytes.fromhex("04224d18604082"),
    Compression.ZSTD: bytes.fromhex("28b52ffd"),
}


@EVERY_CODEC
@given(data=DATA)
@settings(deadline=None)
def test_decompressing_undoes_compressing(codec: Compression, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@EVERY_CODEC
@given(data=DATA.filter(bool), share=st.floats(0, 1, exclude_max=True))
@settings(deadline=None)
def test_one_byte_over_any_bound_is_too_large(
    codec: Compression, data: bytes, share: float
) -> None:
    with pytest.raises(BatchError) as caught:
        decompress(codec, compress(codec, data), int(len(data) * share))

    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@EVERY_CODEC
@given(noise=st.binary(max_size=400), is_plausible=st.booleans(), max_bytes=st.integers(0, 5000))
def test_noise_is_refused_or_stays_within_the_bound(
    codec: Compression, noise: bytes, is_plausible: bool, max_bytes: int
) -> None:
    data = BEGINNINGS[codec] + noise if is_plausible else noise
    try:
        result = decompress(codec, data, max_bytes)
    except BatchError:
        return
    assert len(result) <= max_bytes


@EVERY_CODEC
@given(data=SMALL_DATA, draw=st.data())
def test_a_damaged_stream_is_refused_or_stays_within_the_bound(
    codec: Compression, data: bytes, draw: st.DataObject
) -> None:
    stream = bytearray(compress(codec, data))
    for position in draw.draw(st.lists(st.integers(0, len(stream) - 1), min_size=1, max_size=3)):
        stream[position] = draw.draw(st.integers(0, 255))
    del stream[draw.draw(st.integers(1, len(stream))) :]
    try:
        result = decompress(codec, stream, 5000)
    except BatchError:
        return
    assert len(result) <= 5000


@given(members=st.lists(SMALL_DATA, min_size=1, max_size=5), level=st.integers(0, 9))
def test_gzip_members_add_up(members: list[bytes], level: int) -> None:
    joined = b"".join(zlib.compress(member, level, wbits=31) for member in members)

    assert decompress(Compression.GZIP, joined, AMPLE_BYTES) == b"".join(members)


@given(frames=st.lists(DATA, min_size=1, max_size=3), level=st.integers(-5, 12))
@settings(deadline=None)
def test_zstd_frames_add_up(frames: list[bytes], level: int) -> None:
    joined = b"".join(bytes(cramjam.zstd.compress(frame, level=level)) for frame in frames)
    data = b"".join(frames)

    assert decompress(Compression.ZSTD, joined, len(data)) == data


@given(data=DATA, level=st.integers(0, 12), checksum=st.booleans(), linked=st.booleans())
@settings(deadline=None)
def test_an_lz4_frame_of_any_kind_is_read(
    data: bytes, level: int, checksum: bool, linked: bool
) -> None:
    encoder = cramjam.lz4.Compressor(level=level, content_checksum=checksum, block_linked=linked)
    encoder.compress(data)
    frame = bytes(encoder.finish())

    assert decompress(Compression.LZ4, frame, len(data)) == data


@given(data=DATA, block_bytes=st.integers(1 << 10, 1 << 18))
@settings(deadline=None)
def test_snappy_blocks_of_any_size_are_read(data: bytes, block_bytes: int) -> None:
    blocks = [
        bytes(cramjam.snappy.compress_raw(data[start : start + block_bytes]))
        for start in range(0, len(data), block_bytes)
    ]
    header = BEGINNINGS[Compression.SNAPPY]
    framed = header + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)

    assert decompress(Compression.SNAPPY, framed, len(data)) == data
