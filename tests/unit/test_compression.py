"""Compression: four formats, read as Java reads them, and never more than was asked for."""

import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from types import ModuleType

import cramjam
import pyarrow
import pytest

from ottla.errors import BatchError, ErrorCode
from ottla.records.compression import LEVELS, Compression, compress, decompress

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
EVERY_CODEC = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.label)

TEXT = b"".join(b"order %06d is paid; " % number for number in range(10_000))
AMPLE_BYTES = 1 << 20

XERIAL_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def refusal(codec: int, data: bytes, max_bytes: int = AMPLE_BYTES) -> ErrorCode:
    with pytest.raises(BatchError) as caught:
        decompress(codec, data, max_bytes)
    return caught.value.code


def framed(*blocks: bytes) -> bytes:
    """Snappy blocks as Java's library frames them."""
    return XERIAL_HEADER + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


def snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def lz4_frame(data: bytes, *, linked: bool = False, checksum: bool = False) -> bytes:
    encoder = cramjam.lz4.Compressor(content_checksum=checksum, block_linked=linked)
    encoder.compress(data)
    return bytes(encoder.finish())


def zstd_frame(*blocks: bytes, descriptor: bytes) -> bytes:
    return b"\x28\xb5\x2f\xfd" + descriptor + b"".join(blocks)


def repeated_byte(size_bytes: int, *, is_last: bool = False) -> bytes:
    """A zstd block that says "this zero, so many times"."""
    return (size_bytes << 3 | 1 << 1 | is_last).to_bytes(3, "little") + b"\x00"


def zstd_bomb(size_mib: int) -> bytes:
    blocks = [repeated_byte(128 << 10)] * (8 * size_mib - 1) + [repeated_byte(1, is_last=True)]
    return zstd_frame(*blocks, descriptor=b"\x00\x58")  # a window of 2 MiB, no content size


@EVERY_CODEC
@pytest.mark.parametrize("data", [b"", b"x", TEXT], ids=["empty", "one byte", "text"])
def test_what_was_compressed_comes_back(codec: Compression, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), AMPLE_BYTES) == data


@EVERY_CODEC
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_like_object_goes_in(
    codec: Compression, kind: Callable[[bytes], bytes | bytearray | memoryview]
) -> None:
    squeezed = compress(codec, kind(TEXT))

    assert decompress(codec, kind(squeezed), AMPLE_BYTES) == TEXT


@EVERY_CODEC
def test_the_result_is_a_read_only_view_of_no_more_than_the_data(codec: Compression) -> None:
    result = decompress(codec, compress(codec, TEXT[:100]), AMPLE_BYTES)

    assert result.readonly
    assert len(result.obj) == 100  # type: ignore[arg-type]  # a buffer, which has a length


def test_without_compression_nothing_is_copied_on_the_way_out() -> None:
    assert compress(Compression.NONE, TEXT) == TEXT
    assert decompress(Compression.NONE, TEXT, len(TEXT)).obj is TEXT


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.label)
def test_the_bound_is_exact(codec: Compression) -> None:
    squeezed = compress(codec, TEXT)

    assert decompress(codec, squeezed, len(TEXT)) == TEXT
    assert refusal(codec, squeezed, len(TEXT) - 1) is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(codec, squeezed, 0) is ErrorCode.MESSAGE_TOO_LARGE


@EVERY_CODEC
def test_a_stream_cut_anywhere_is_refused(codec: Compression) -> None:
    squeezed = compress(codec, TEXT[:2000])
    whole_blocks_only = {len(XERIAL_HEADER) + n for n in range(4)}  # Java reads these as empty

    for size in range(len(squeezed)):
        if codec is Compression.SNAPPY and size in whole_blocks_only:
            assert len(decompress(codec, squeezed[:size], AMPLE_BYTES)) == 0
        else:
            assert refusal(codec, squeezed[:size]) is ErrorCode.INVALID_RECORD, size


@EVERY_CODEC
def test_a_flipped_bit_is_refused_or_does_not_matter(codec: Compression) -> None:
    squeezed = compress(codec, TEXT[:2000])
    refusals = 0

    for position in range(len(squeezed)):
        damaged = bytearray(squeezed)
        damaged[position] ^= 0x10
        try:
            assert len(decompress(codec, damaged, AMPLE_BYTES)) <= AMPLE_BYTES
        except BatchError:
            refusals += 1

    assert refusals > 20


@pytest.mark.parametrize("codec_id", [-1, 5, 7])
def test_an_unknown_codec_is_refused_with_the_code_that_tells_the_producer(codec_id: int) -> None:
    assert refusal(codec_id, b"") is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(BatchError, match=f"compression id {codec_id} is not one of 0, 1, 2, 3, 4"):
        compress(codec_id, b"")


def test_codecs_have_the_names_of_kafkas_settings() -> None:
    names = ["none", "gzip", "snappy", "lz4", "zstd"]

    assert [Compression.named(name) for name in names] == list(Compression)
    assert [codec.label for codec in Compression] == names
    with pytest.raises(ValueError, match="'ZSTD' is not one of none, gzip, snappy, lz4, zstd"):
        Compression.named("ZSTD")


@pytest.mark.parametrize("codec", list(LEVELS), ids=lambda codec: codec.label)
def test_a_higher_level_is_honored_and_reads_the_same(codec: Compression) -> None:
    levels = LEVELS[codec]
    quick, thorough = (compress(codec, TEXT, level) for level in (levels[0], levels[-1]))

    assert len(thorough) < len(quick)
    assert decompress(codec, thorough, AMPLE_BYTES) == decompress(codec, quick, AMPLE_BYTES) == TEXT


def test_level_9_of_lz4_is_the_fast_compressor_as_in_java() -> None:
    assert compress(Compression.LZ4, TEXT, 9) == compress(Compression.LZ4, TEXT)


@pytest.mark.parametrize(
    ("codec", "level", "message"),
    [
        (Compression.GZIP, 10, r"gzip level 10 is outside \[1, 9\]"),
        (Compression.LZ4, 0, r"lz4 level 0 is outside \[1, 17\]"),
        (Compression.ZSTD, 23, r"zstd level 23 is outside \[-131072, 22\]"),
        (Compression.SNAPPY, 1, "snappy level 1 is outside its range: it has no levels"),
        (Compression.NONE, 1, "none level 1 is outside its range: it has no levels"),
    ],
)
def test_a_level_out_of_range_is_named_with_its_range(
    codec: Compression, level: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        compress(codec, b"", level)


def test_gzip_members_are_read_one_after_another() -> None:
    members = b"".join(zlib.compress(part, wbits=31) for part in (TEXT, b"", b"the end"))

    assert decompress(Compression.GZIP, members, AMPLE_BYTES) == TEXT + b"the end"


def test_a_gzip_member_that_breaks_off_is_refused_even_after_a_whole_one() -> None:
    member = zlib.compress(TEXT, wbits=31)

    assert refusal(Compression.GZIP, member + member[:30]) is ErrorCode.INVALID_RECORD


def test_many_gzip_members_cost_as_much_as_their_bytes_and_not_the_square_of_it() -> None:
    def cpu_ns(member_count: int) -> int:
        data = zlib.compress(b"", wbits=31) * member_count
        start_ns = time.process_time_ns()
        decompress(Compression.GZIP, data, AMPLE_BYTES)
        return time.process_time_ns() - start_ns

    few_ns, many_ns = (min(cpu_ns(count) for _ in range(3)) for count in (2_000, 50_000))

    assert many_ns < 3 * 25 * few_ns


def test_a_wrong_gzip_checksum_is_refused() -> None:
    member = bytearray(zlib.compress(TEXT, wbits=31))
    member[-6] ^= 1

    assert refusal(Compression.GZIP, bytes(member)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("codec", "rest"),
    [
        (Compression.GZIP, b"\x00" * 40),
        (Compression.LZ4, b"\x00" * 40),
        (Compression.LZ4, lz4_frame(b"a second frame")),
        (Compression.SNAPPY, b"\x00" * 3),
    ],
)
def test_what_java_ignores_after_the_end_is_ignored(codec: Compression, rest: bytes) -> None:
    assert decompress(codec, compress(codec, TEXT) + rest, AMPLE_BYTES) == TEXT


@pytest.mark.parametrize(
    ("codec", "rest"),
    [
        (Compression.ZSTD, b"\x00"),
        (Compression.ZSTD, b"\x00" * 40),
        (Compression.SNAPPY, b"\x00" * 4),
        (Compression.SNAPPY, b"\xff" * 40),
        (Compression.SNAPPY, XERIAL_HEADER[:12]),
    ],
)
def test_what_java_refuses_after_the_end_is_refused(codec: Compression, rest: bytes) -> None:
    assert refusal(codec, compress(codec, TEXT) + rest) is ErrorCode.INVALID_RECORD


def test_zstd_frames_follow_each_other_and_skippable_ones_are_skipped() -> None:
    frame = compress(Compression.ZSTD, TEXT)
    skippable = b"\x53\x2a\x4d\x18\x05\x00\x00\x00note!"

    assert decompress(Compression.ZSTD, skippable + frame + frame, AMPLE_BYTES) == TEXT + TEXT


@pytest.mark.parametrize("linked", [False, True], ids=["independent", "linked"])
@pytest.mark.parametrize("checksum", [False, True], ids=["plain", "checksum"])
def test_any_lz4_frame_is_read(linked: bool, checksum: bool) -> None:
    frame = lz4_frame(TEXT, linked=linked, checksum=checksum)

    assert decompress(Compression.LZ4, frame, AMPLE_BYTES) == TEXT


def test_lz4_blocks_are_independent_and_of_64_kib_because_java_reads_no_others() -> None:
    flags, block_size = compress(Compression.LZ4, TEXT)[4:6]

    assert flags & 0b1100_0000 == 0b0100_0000, "version 1"
    assert flags & 0b0010_0000, "independent blocks"
    assert not flags & 0b0000_1011, "no content size, no reserved bit, no dictionary"
    assert block_size == 0x40


def test_snappy_is_framed_as_java_does_in_blocks_of_32_kib() -> None:
    parts = [TEXT[start : start + (32 << 10)] for start in range(0, len(TEXT), 32 << 10)]

    assert compress(Compression.SNAPPY, TEXT) == framed(*map(snappy, parts))


def test_snappy_without_a_frame_is_read_too() -> None:
    assert decompress(Compression.SNAPPY, snappy(TEXT), AMPLE_BYTES) == TEXT


def test_joined_snappy_streams_are_read_as_one() -> None:
    joined = framed(snappy(b"one, ")) + framed(snappy(b"two"))

    assert bytes(decompress(Compression.SNAPPY, joined, AMPLE_BYTES)) == b"one, two"


def test_a_snappy_block_that_declares_the_impossible_is_refused_for_what_it_is() -> None:
    declares_a_megabyte = b"\x80\x80\x40" + b"\x00" * 10

    assert refusal(Compression.SNAPPY, declares_a_megabyte) is ErrorCode.INVALID_RECORD
    assert refusal(Compression.SNAPPY, framed(declares_a_megabyte)) is ErrorCode.INVALID_RECORD


@EVERY_CODEC
def test_noise_is_refused(codec: Compression) -> None:
    assert refusal(codec, b"\xde\xad\xbe\xef" * 10) is ErrorCode.INVALID_RECORD


def test_pyarrow_agrees_on_every_format_it_has() -> None:
    for codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD):
        theirs = pyarrow.compress(TEXT, codec=codec.label, asbytes=True)
        assert decompress(codec, theirs, AMPLE_BYTES) == TEXT
        ours = compress(codec, TEXT)
        assert pyarrow.decompress(ours, len(TEXT), codec=codec.label, asbytes=True) == TEXT


@EVERY_CODEC
@pytest.mark.parametrize("library", ["aiokafka", "kafka"])
def test_other_clients_read_ours_and_we_read_theirs(codec: Compression, library: str) -> None:
    peer: ModuleType = pytest.importorskip(f"{library}.codec")
    if not getattr(peer, f"has_{codec.label}")():
        pytest.skip(f"{library} finds no wheel for {codec.label}")
    encode, decode = (getattr(peer, f"{codec.label}_{verb}") for verb in ("encode", "decode"))

    assert decode(compress(codec, TEXT)) == TEXT
    assert decompress(codec, encode(TEXT), AMPLE_BYTES) == TEXT


def lz4_bomb(size_mib: int) -> bytes:
    frame = lz4_frame(bytes(64 << 10))
    return frame[:7] + frame[7:-4] * (16 * size_mib) + frame[-4:]


BOUND_BYTES = 2 << 20
BOMBS = {
    "gzip": (Compression.GZIP, zlib.compress(bytes(64 << 20), 9, wbits=31)),
    "gzip members": (Compression.GZIP, zlib.compress(bytes(1 << 20), 9, wbits=31) * 64),
    "snappy": (Compression.SNAPPY, framed(*[snappy(bytes(32 << 10))] * 2048)),
    "snappy, one stream": (Compression.SNAPPY, snappy(bytes(64 << 20))),
    "lz4": (Compression.LZ4, lz4_bomb(64)),
    "zstd": (Compression.ZSTD, zstd_bomb(256)),
}

MEASURE = """
import sys
from ottla.errors import BatchError
from ottla.records.compression import compress, decompress

def peak_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

codec, bound, data = int(sys.argv[1]), int(sys.argv[2]), sys.stdin.buffer.read()
decompress(codec, compress(codec, b"warm up"), bound)
before_kib = peak_kib()
try:
    outcome = len(decompress(codec, data, bound))
except BatchError as error:
    outcome = error.code.name
print(outcome, peak_kib() - before_kib)
"""


def outcome_and_peak_bytes(codec: Compression, data: bytes, max_bytes: int) -> tuple[str, int]:
    """Decompress in a process of its own; also tell how much its memory grew meanwhile.

    Not `getrusage`: its peak includes that of the process that started this one.  And with the
    ordinary allocator: a sanitizer's would count its own bookkeeping as ours.
    """
    if sys.platform != "linux":
        pytest.skip("the peak of a process's memory is read from /proc")
    command = [sys.executable, "-c", MEASURE, str(int(codec)), str(max_bytes)]
    sanitizer = ("LD_PRELOAD", "PYTHONMALLOC")
    environment = {name: value for name, value in os.environ.items() if name not in sanitizer}
    result = subprocess.run(command, input=data, capture_output=True, check=True, env=environment)
    outcome, peak_kib = result.stdout.decode().split()
    return outcome, int(peak_kib) * 1024


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_with_memory_near_the_bound(name: str) -> None:
    codec, bomb = BOMBS[name]

    outcome, peak_bytes = outcome_and_peak_bytes(codec, bomb, BOUND_BYTES)

    assert outcome == "MESSAGE_TOO_LARGE"
    assert peak_bytes < 3 * BOUND_BYTES


ONE_BYTE = repeated_byte(1, is_last=True)
CLAIMS = {
    "zstd, a window of 128 MiB": (
        Compression.ZSTD,
        zstd_frame(ONE_BYTE, descriptor=b"\x00\x88"),
        "1",
    ),
    "zstd, a window of 3.75 TiB": (
        Compression.ZSTD,
        zstd_frame(ONE_BYTE, descriptor=b"\x00\xff"),
        "INVALID_RECORD",
    ),
    "zstd, 100 MiB of content": (
        Compression.ZSTD,
        zstd_frame(ONE_BYTE, descriptor=b"\xa0" + (100 << 20).to_bytes(4, "little")),
        "INVALID_RECORD",
    ),
    "zstd, 8 EiB of content": (
        Compression.ZSTD,
        zstd_frame(ONE_BYTE, descriptor=b"\xe0" + (1 << 63).to_bytes(8, "little")),
        "INVALID_RECORD",
    ),
    "snappy, 100 MiB in a block": (
        Compression.SNAPPY,
        framed(b"\x80\x80\x80\x32" + b"\x00" * 60),
        "INVALID_RECORD",
    ),
    "snappy, a block of 2 GiB": (
        Compression.SNAPPY,
        XERIAL_HEADER + b"\x7f\xff\xff\xff\x00",
        "INVALID_RECORD",
    ),
    "lz4, a block of 2 GiB": (
        Compression.LZ4,
        lz4_frame(b"")[:7] + b"\xff\xff\xff\x7f\x00",
        "INVALID_RECORD",
    ),
    "gzip, 4 GiB in the trailer": (
        Compression.GZIP,
        zlib.compress(b"x", wbits=31)[:-4] + b"\xff" * 4,
        "INVALID_RECORD",
    ),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_length_that_is_only_claimed_costs_no_memory(name: str) -> None:
    codec, data, expected = CLAIMS[name]

    outcome, peak_bytes = outcome_and_peak_bytes(codec, data, max_bytes=1 << 30)

    assert outcome == expected
    assert peak_bytes < 1 << 20


def test_importing_the_module_imports_no_wheel_and_a_missing_one_is_named() -> None:
    script = """
import sys
from ottla.errors import BatchError
from ottla.records.compression import Compression, compress, decompress
assert "cramjam" not in sys.modules
sys.modules["cramjam"] = None  # from now on, importing it fails as if it were not installed
assert decompress(Compression.GZIP, compress(Compression.GZIP, b"x"), 1) == b"x"
for codec in (Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
    stream = {
        Compression.SNAPPY: b"",
        Compression.LZ4: bytes.fromhex("04224d186040820000000000"),
        Compression.ZSTD: b"",
    }[codec]
    for attempt in (lambda: compress(codec, b""), lambda: decompress(codec, stream, 1)):
        try:
            attempt()
        except BatchError as error:
            print(error)
"""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )

    assert result.stdout.splitlines() == [
        "UNSUPPORTED_COMPRESSION_TYPE: "
        f"{label} needs a wheel that is not installed: pip install cramjam"
        for label in ("snappy", "snappy", "lz4", "lz4", "zstd", "zstd")
    ]
