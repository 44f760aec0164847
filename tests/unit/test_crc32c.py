"""Checksums: known answers, every kind of input, and agreement of all implementations."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import crc32c as wheel
import pytest

from ottla.records.crc32c import crc32c
from ottla.records.kernel import kernel
from ottla.records.plain_hashes import table_crc32c
from tests.record_twins import BOTH

Checksum = Callable[..., int]

# From RFC 3720, appendix B.4, and the usual check value.
KNOWN = [
    (b"", 0x00000000),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]
ALL_SIZES = [
    0,
    1,
    7,
    8,
    9,
    63,
    64,
    767,
    768,
    769,
    1535,
    1536,
    1537,
    4 * 1536 + 13,
    12_287,
    12_288,
    12_289,
    70_000,
]


@pytest.fixture(params=[*BOTH, pytest.param(None, id="table")])
def checksum(request: pytest.FixtureRequest) -> Checksum:
    twin: Any = request.param
    return table_crc32c if twin is None else twin.crc32c


@pytest.mark.parametrize(("data", "expected"), KNOWN)
def test_known_answers_are_given(checksum: Checksum, data: bytes, expected: int) -> None:
    assert checksum(data) == expected


@pytest.mark.parametrize("size", ALL_SIZES)
def test_the_checksum_of_any_size_is_that_of_the_wheel(checksum: Checksum, size: int) -> None:
    data = bytes((i * 7 + i // 251) & 0xFF for i in range(size))

    assert checksum(data) == wheel.crc32c(data)


@pytest.mark.parametrize("start", range(9))
def test_a_view_need_not_be_aligned(checksum: Checksum, start: int) -> None:
    data = bytes(range(256)) * 20

    assert checksum(memoryview(data)[start:]) == wheel.crc32c(data[start:])


def test_bytearrays_and_views_are_read_like_bytes(checksum: Checksum) -> None:
    assert checksum(bytearray(b"123456789")) == 0xE3069283
    assert checksum(memoryview(b"0123456789")[1:]) == 0xE3069283


def test_a_checksum_can_be_computed_in_parts(checksum: Checksum) -> None:
    data = bytes(range(256)) * 30

    assert checksum(data[1000:], checksum(data[:1000])) == checksum(data)


def test_what_is_not_bytes_is_refused(checksum: Checksum) -> None:
    with pytest.raises(TypeError):
        checksum("text")
    with pytest.raises(TypeError):
        checksum(None)


def test_the_checksum_is_that_of_the_chosen_twin() -> None:
    assert crc32c is kernel.crc32c


def run_without_the_compiled_twin(program: str) -> None:
    environment = {**os.environ, "OTTLA_PURE": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_the_wheel_is_not_imported_before_the_first_checksum() -> None:
    run_without_the_compiled_twin(
        "import sys\n"
        "from ottla.records.crc32c import crc32c\n"
        "assert 'crc32c' not in sys.modules\n"
        "assert crc32c(b'123456789') == 0xE3069283\n"
        "assert 'crc32c' in sys.modules\n"
    )


def test_without_the_wheel_the_table_is_used() -> None:
    run_without_the_compiled_twin(
        "import sys; sys.modules['crc32c'] = None\n"
        "from ottla.records.crc32c import crc32c\n"
        "assert crc32c(b'123456789') == 0xE3069283\n"
    )


@pytest.mark.parametrize("twin", BOTH)
@pytest.mark.parametrize("second_bytes", [0, 1, 2, 7, 8, 255, 256, 4_097, 1_000_003])
def test_the_checksum_of_two_pieces_is_made_of_theirs(twin: Any, second_bytes: int) -> None:
    first, second = b"header", (b"records" * (second_bytes // 7 + 1))[:second_bytes]
    joined = twin.crc32c_joined(crc32c(first), crc32c(second), second_bytes)
    assert joined == crc32c(first + second)
    assert twin.crc32c_joined(0, crc32c(second), second_bytes) == crc32c(second)
