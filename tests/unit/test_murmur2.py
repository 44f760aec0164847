"""Murmur2: the partition of a key is the one that Java's client would choose."""

from array import array
from types import ModuleType

import pytest

from ottla.records.shapes import BinaryColumn
from tests.record_peers import kafka_python_murmur2
from tests.record_twins import BOTH

# Kafka's own test of the same function has these.
KNOWN = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.fixture(params=BOTH)
def twin(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


@pytest.mark.parametrize(("key", "expected"), KNOWN)
def test_known_answers_are_given(twin: ModuleType, key: bytes, expected: int) -> None:
    assert twin.murmur2(key) == expected


@pytest.mark.parametrize("size", range(20))
def test_every_length_hashes_as_the_peers_do(twin: ModuleType, size: int) -> None:
    key = bytes(range(200, 200 + size))

    assert twin.murmur2(key) & 0xFFFFFFFF == kafka_python_murmur2(key) & 0xFFFFFFFF


def test_bytearrays_and_views_hash_like_bytes(twin: ModuleType) -> None:
    assert twin.murmur2(bytearray(b"foobar")) == -790332482
    assert twin.murmur2(memoryview(b"--foobar")[2:]) == -790332482


@pytest.mark.parametrize("key", ["text", None, 7, [1, 2]])
def test_a_key_that_is_not_bytes_is_refused(twin: ModuleType, key: object) -> None:
    with pytest.raises(TypeError, match="key must be bytes"):
        twin.murmur2(key)


def test_a_column_hashes_row_by_row_and_null_keys_give_zero(twin: ModuleType) -> None:
    column = BinaryColumn(
        offsets=array("i", (0, 2, 2, 8)).tobytes(), data=b"21foobar", validity=b"\x05"
    )

    hashes = array("i", twin.murmur2_column(column, 3))

    assert hashes.tolist() == [-973932308, 0, -790332482]


def test_a_slice_of_a_column_hashes_its_own_rows(twin: ModuleType) -> None:
    column = BinaryColumn(array("i", (0, 2, 2, 8)).tobytes(), b"21foobar", b"\x05", first_row=2)

    assert array("i", twin.murmur2_column(column, 1)).tolist() == [-790332482]


@pytest.mark.parametrize(
    ("offsets", "validity"),
    [((0, 2), None), ((0, 9, 8), None), ((-1, 2, 3), None), ((0, 2, 99), None), ((0, 1, 2), b"")],
)
def test_a_column_that_contradicts_itself_is_refused(
    twin: ModuleType, offsets: tuple[int, ...], validity: bytes | None
) -> None:
    column = BinaryColumn(array("i", offsets).tobytes(), b"21foobar", validity)

    with pytest.raises(ValueError, match="column key"):
        twin.murmur2_column(column, 2)
