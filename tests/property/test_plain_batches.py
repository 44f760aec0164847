"""For every batch, whole or damaged: one glance at it says what a close look would say."""

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.validation import Rules
from ottla.errors import BatchError
from ottla.log.config import LogConfig
from ottla.records import codec
from ottla.records.batch import CHECKED_FROM, CRC_AT
from ottla.records.builder import BatchOptions, build
from ottla.records.compression import Compression
from ottla.records.crc32c import crc32c
from ottla.records.shapes import BATCH_HEADER_BYTES, MAX_INT64
from tests.record_twins import compiled_twin

NOW_MS = 1_700_000_000_000
HOUR_MS = 60 * 60 * 1000
BOUND_BYTES = 1 << 20

TIMES_MS = st.integers(NOW_MS - 5, NOW_MS + 5) | st.integers(-1, MAX_INT64)
KEYS = st.none() | st.binary(max_size=9)
HEADERS = st.lists(st.tuples(st.text("ab", max_size=3), st.none() | st.just(b"x")), max_size=2)
RECORDS = st.lists(st.tuples(TIMES_MS, KEYS, KEYS, HEADERS), min_size=1, max_size=5)
OPTIONS = st.builds(
    BatchOptions,
    compression=st.sampled_from([Compression.NONE, Compression.NONE, Compression.LZ4]),
    producer_id=st.sampled_from([-1, 7]),
    producer_epoch=st.just(0),
    base_sequence=st.sampled_from([-1, 0, 40]),
    is_transactional=st.booleans(),
    is_control=st.sampled_from([False, False, True]),
    base_offset=st.sampled_from([0, 0, 1]),
)
CONFIGS = st.builds(
    LogConfig,
    cleanup_policy=st.sampled_from([("delete",), ("compact",)]),
    max_message_bytes=st.sampled_from([80, 1 << 20]),
    message_timestamp_after_max_ms=st.sampled_from([0, 5, HOUR_MS, MAX_INT64]),
    message_timestamp_before_max_ms=st.sampled_from([5, MAX_INT64]),
)


@st.composite
def some_batches(draw: st.DrawFn) -> bytearray:
    """A batch of any kind, some bytes of which may have been changed, with a checksum that fits."""
    batch = build(draw(RECORDS), draw(OPTIONS))
    for _ in range(draw(st.integers(0, 2))):
        batch[draw(st.integers(0, len(batch) - 1))] = draw(st.integers(0, 255))
    if draw(st.booleans()):
        batch[CRC_AT:CHECKED_FROM] = crc32c(batch[CHECKED_FROM:]).to_bytes(4, "big")
    return batch + draw(st.just(b"") | st.binary(max_size=3))


def outcome(rules: Rules, data: bytearray, *, closely: bool) -> Any:
    """What is appended, or why nothing is."""
    look = rules.examine if closely else rules.accept
    try:
        batch = look(bytearray(data), now_ms=NOW_MS)
    except BatchError as error:
        return error.code, str(error)
    return bytes(batch.data)


@pytest.fixture(scope="module")
def compiled() -> ModuleType:
    return compiled_twin()


@given(data=some_batches(), config=CONFIGS)
def test_a_glance_and_a_close_look_agree(data: bytearray, config: LogConfig) -> None:
    rules = Rules(config, max_decompressed_bytes=BOUND_BYTES)
    assert outcome(rules, data, closely=False) == outcome(rules, data, closely=True)


@given(
    data=some_batches() | st.binary(max_size=80).map(bytearray),
    cut_bytes=st.sampled_from([0, 0, 0, 1, 40]),
    latest_ms=st.sampled_from([NOW_MS, NOW_MS + 5, MAX_INT64]),
    needs_keys=st.booleans(),
)
def test_twins_agree_on_what_is_plain(
    compiled: ModuleType, data: bytearray, cut_bytes: int, latest_ms: int, needs_keys: bool
) -> None:
    data = data[: len(data) - cut_bytes]
    expected = codec.is_plain(data, latest_ms, needs_keys)
    assert compiled.is_plain(data, latest_ms, needs_keys) is expected


@given(records=RECORDS, is_transactional=st.booleans())
def test_what_a_producer_sends_is_plain(
    compiled: ModuleType, records: list[Any], is_transactional: bool
) -> None:
    batch = build(records, BatchOptions(is_transactional=is_transactional))
    assert len(batch) > BATCH_HEADER_BYTES
    for twin in (codec, compiled):
        assert twin.is_plain(batch, MAX_INT64, False)
        assert twin.is_plain(batch, MAX_INT64, True) is all(r[1] is not None for r in records)
        assert twin.is_plain(batch, NOW_MS, False) is all(r[0] <= NOW_MS for r in records)
