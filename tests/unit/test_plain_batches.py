"""What both twins of the record codec call a plain batch, and everything that makes it another."""

from collections.abc import Callable
from types import ModuleType

import pytest

from ottla.records.batch import CHECKED_FROM, CRC_AT
from ottla.records.builder import BatchOptions, build
from ottla.records.compression import Compression
from ottla.records.crc32c import crc32c
from ottla.records.shapes import BATCH_HEADER_BYTES
from tests.record_twins import BOTH

NOW_MS = 1_700_000_000_000
RECORD = (NOW_MS, b"key", b"value", (("header", b"x"),))
OPTIONS = BatchOptions(producer_id=7, producer_epoch=0, base_sequence=40, is_transactional=True)

OFFSET_DELTA_AT = BATCH_HEADER_BYTES + 3
"""In the first record, after its length, attributes and timestamp, which take a byte each."""


@pytest.fixture(params=BOTH)
def twin(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def changed(position: int, *new: int) -> bytearray:
    """A good batch with other bytes at `position`, and the checksum that fits."""
    batch = build([RECORD, RECORD], OPTIONS)
    batch[position : position + len(new)] = bytes(new)
    batch[CRC_AT:CHECKED_FROM] = crc32c(batch[CHECKED_FROM:]).to_bytes(4, "big")
    return batch


def with_bad_checksum() -> bytearray:
    batch = build([RECORD])
    batch[-1] ^= 1
    return batch


@pytest.mark.parametrize("options", [BatchOptions(), OPTIONS], ids=["anonymous", "transactional"])
@pytest.mark.parametrize("count", [1, 2, 300])
def test_what_producers_send_is_plain(twin: ModuleType, options: BatchOptions, count: int) -> None:
    batch = build([RECORD] * count, options)
    assert twin.is_plain(batch, NOW_MS, True)
    assert twin.is_plain(memoryview(batch), NOW_MS, False)


@pytest.mark.parametrize(
    "make",
    [
        lambda: changed(7, 1),
        lambda: changed(11, 1),
        lambda: changed(16, 1),
        lambda: changed(22, Compression.LZ4),
        lambda: changed(22, 0x08),
        lambda: changed(22, 0x20),
        lambda: changed(26, 2),
        lambda: changed(60, 3),
        lambda: changed(60, 0),
        lambda: changed(53, 0xFF, 0xFF, 0xFF, 0xFF),
        lambda: changed(OFFSET_DELTA_AT, 2),
        lambda: changed(BATCH_HEADER_BYTES, 3),
        lambda: build([RECORD]) + b"\0",
        lambda: build([RECORD])[:-1],
        lambda: build([RECORD])[: BATCH_HEADER_BYTES - 1],
        lambda: bytearray(),
        with_bad_checksum,
    ],
    ids=[
        "base offset",
        "length",
        "magic",
        "compressed",
        "LogAppendTime",
        "control",
        "last offset delta",
        "too many records announced",
        "no records announced",
        "producer without a sequence number",
        "offsets with a gap",
        "length of a record",
        "something behind it",
        "cut",
        "no whole header",
        "nothing",
        "checksum",
    ],
)
def test_everything_else_needs_a_closer_look(
    twin: ModuleType, make: Callable[[], bytearray]
) -> None:
    assert not twin.is_plain(make(), NOW_MS, False)


def test_the_limits_of_the_topic_count(twin: ModuleType) -> None:
    late = build([RECORD, (NOW_MS + 1, b"key", None, ())])
    assert twin.is_plain(late, NOW_MS + 1, False)
    assert not twin.is_plain(late, NOW_MS, False)

    without_key = build([RECORD, (NOW_MS, None, b"value", ())])
    assert twin.is_plain(without_key, NOW_MS, False)
    assert not twin.is_plain(without_key, NOW_MS, True)


@pytest.mark.parametrize(
    "sizes",
    [
        (100,) * 700,
        (3_000,) * 25,
        (40_000, 1, 40_000, 100, 100),
        (12_288 - 8, 12_288 - 8, 12_288, 5),
        (100_000,),
    ],
    ids=["small", "large", "huge and small", "one piece of the sum each", "one"],
)
def test_one_bit_anywhere_in_a_large_batch_is_found(
    twin: ModuleType, sizes: tuple[int, ...]
) -> None:
    batch = build([(NOW_MS, None, b"v" * size, ()) for size in sizes])
    assert twin.is_plain(batch, NOW_MS, False)

    values = [at for at in range(CHECKED_FROM, len(batch)) if batch[at] == ord("v")]
    for at in {*values[:: len(values) // 50 + 1], values[0], values[-1]}:
        batch[at] ^= 1
        assert not twin.is_plain(batch, NOW_MS, False), at
        batch[at] ^= 1
