"""Buffers that are used again, and never while somebody looks into them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.buffers import MAX_ANSWER_BYTES, MAX_KEPT, ViewedBuffers
from ottla.client.consumer.config import ConsumerConfig
from ottla.config import MIB
from ottla.errors import WireError
from ottla.wire.frame import FrameReader, scratch_buffer, with_size

LARGE_BYTES = 100_000
LIMIT = 10 * MIB


def framed(payload: bytes) -> bytes:
    return b"".join(with_size([payload]))


def read(reader: FrameReader, data: bytes) -> list[bytes]:
    """What comes of `data` as a socket hands it over: as much at a time as the buffer takes."""
    frames: list[bytes] = []
    while data:
        buffer = reader.get_buffer()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        frames += map(bytes, reader.buffer_updated(count))
    return frames


def test_a_buffer_that_is_viewed_is_not_given_out_again() -> None:
    buffers = ViewedBuffers()
    viewed = buffers.take(LARGE_BYTES)[10:20]
    viewed[:] = b"0123456789"
    others = [buffers.take(LARGE_BYTES) for _ in range(MAX_KEPT + 1)]
    for other in others:
        other[:LARGE_BYTES] = bytes(LARGE_BYTES)
    assert bytes(viewed) == b"0123456789"
    assert len({id(other.obj) for other in others}) == len(others)


def test_a_buffer_that_nobody_views_any_more_is_used_again() -> None:
    buffers = ViewedBuffers()
    first = id(buffers.take(LARGE_BYTES).obj)
    assert id(buffers.take(LARGE_BYTES).obj) == first


def test_a_consumer_of_large_answers_has_buffers_for_them() -> None:
    config = ConsumerConfig(max_partition_fetch_bytes=4 * MIB)
    buffers = ViewedBuffers(config.usual_answer_bytes)
    first = buffers.take(4 * MIB)
    others = {id(buffers.take(4 * MIB).obj) for _ in range(3)}
    assert len(first) == buffers.trusted_bytes >= 4 * MIB
    assert len(others) == 1


def test_what_is_kept_has_a_limit_whatever_the_settings_say() -> None:
    config = ConsumerConfig(max_partition_fetch_bytes=1024 * MIB)

    assert ViewedBuffers(config.usual_answer_bytes).trusted_bytes == MAX_ANSWER_BYTES


@given(
    st.lists(st.binary(max_size=300), max_size=8),
    st.lists(st.integers(1, 400), min_size=1, max_size=20),
    st.integers(5, 64),
    st.integers(40, 300),
)
def test_answers_come_out_whole_whatever_is_expected(
    payloads: list[bytes], cuts: list[int], scratch_bytes: int, trusted_bytes: int
) -> None:
    reader = FrameReader(scratch_buffer(scratch_bytes), LIMIT, ViewedBuffers(trusted_bytes))
    data = b"".join(map(framed, payloads))
    received: list[bytes] = []
    while data:
        cut = cuts[len(received) % len(cuts)]
        received += read(reader, data[:cut])
        data = data[cut:]
    assert received == payloads


def test_after_a_large_answer_the_next_one_is_read_where_it_stays() -> None:
    reader = FrameReader(scratch_buffer(), LIMIT, ViewedBuffers())
    large = bytes(range(256)) * 4_000
    data = framed(large)
    assert read(reader, data) == [large]

    into = reader.get_buffer()
    assert len(into) == len(data)
    into[:500_000] = data[:500_000]
    assert reader.buffer_updated(500_000) == []
    rest = reader.get_buffer()
    assert (rest.obj, len(rest)) == (into.obj, len(data) - 500_000)
    rest[:] = data[500_000:]
    (second,) = reader.buffer_updated(len(rest))

    assert second == large
    assert second.obj is into.obj
    assert reader.get_buffer().obj is not into.obj, "it is viewed"


def test_after_a_small_answer_the_next_one_comes_to_the_shared_buffer() -> None:
    scratch = scratch_buffer()
    reader = FrameReader(scratch, LIMIT, ViewedBuffers())
    assert reader.get_buffer().obj is scratch.obj
    read(reader, framed(bytes(500_000)))
    assert reader.get_buffer().obj is not scratch.obj
    assert read(reader, framed(b"little")) == [b"little"]
    assert reader.get_buffer().obj is scratch.obj


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"])
def test_a_size_that_cannot_be_is_refused_when_a_large_answer_is_expected(size: bytes) -> None:
    reader = FrameReader(scratch_buffer(), LIMIT, ViewedBuffers())
    read(reader, framed(bytes(500_000)))
    with pytest.raises(WireError, match="the limit is"):
        read(reader, size + b"nonsense")


def test_a_large_answer_that_nobody_views_leaves_its_buffer_to_the_next_one() -> None:
    reader = FrameReader(scratch_buffer(), LIMIT, ViewedBuffers())
    large = framed(bytes(500_000))
    read(reader, large)
    places = set()
    for _ in range(3):
        places.add(id(reader.get_buffer().obj))
        read(reader, large)
    assert len(places) == 1
