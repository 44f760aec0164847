"""Frames: cut at any place, refused beyond the limit, never copied when whole."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import WireError
from ottla.wire.frame import (
    MAX_SPARES,
    SIZE,
    TRUSTED_BYTES,
    FrameReader,
    SpareBuffers,
    scratch_buffer,
    with_size,
)

LIMIT = 100 * 1024 * 1024


def feed(reader: FrameReader, data: bytes) -> list[bytes]:
    """Hand `data` over as a socket would: as much at a time as the buffer takes."""
    frames: list[bytes] = []
    while data:
        buffer = reader.get_buffer()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        frames += [bytes(frame) for frame in reader.buffer_updated(count)]
    return frames


def framed(*payloads: bytes) -> bytes:
    return b"".join(b"".join(with_size([payload])) for payload in payloads)


@given(
    st.lists(st.binary(max_size=300), max_size=8),
    st.lists(st.integers(1, 400), min_size=1, max_size=20),
    st.integers(5, 64),
)
def test_frames_come_out_whole_wherever_the_bytes_are_cut(
    payloads: list[bytes], cuts: list[int], scratch_bytes: int
) -> None:
    reader = FrameReader(scratch_buffer(scratch_bytes), LIMIT)
    data = framed(*payloads)
    received: list[bytes] = []
    while data:
        cut = cuts[len(received) % len(cuts)]
        received += feed(reader, data[:cut])
        data = data[cut:]
    assert received == payloads
    assert not reader.is_amid_frame


def test_a_whole_frame_is_a_view_of_the_shared_buffer() -> None:
    scratch = scratch_buffer()
    reader = FrameReader(scratch, LIMIT)
    data = framed(b"first", b"second")
    reader.get_buffer()[: len(data)] = data

    first, second = reader.buffer_updated(len(data))

    assert [bytes(first), bytes(second)] == [b"first", b"second"]
    assert first.obj is second.obj is scratch.obj


def test_a_cut_frame_does_not_stay_in_the_shared_buffer() -> None:
    scratch = scratch_buffer(64)
    one, other = FrameReader(scratch, LIMIT), FrameReader(scratch, LIMIT)
    data = framed(b"espresso")

    assert feed(one, data[:7]) == []
    assert feed(other, framed(b"macchiato")) == [b"macchiato"]
    assert feed(one, data[7:]) == [b"espresso"]


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_a_size_outside_the_limit_is_refused(size: int) -> None:
    reader = FrameReader(scratch_buffer(), LIMIT)
    with pytest.raises(WireError, match=f"a frame of {size} bytes; the limit is {LIMIT}"):
        feed(reader, SIZE.pack(size))


def test_the_frames_before_one_that_is_refused_are_delivered_first() -> None:
    reader = FrameReader(scratch_buffer(), LIMIT)

    assert feed(reader, framed(b"first", b"second") + SIZE.pack(-1)) == [b"first", b"second"]

    assert "a frame of -1 bytes" in str(reader.fault)
    with pytest.raises(WireError, match="a frame of -1 bytes"):
        feed(reader, framed(b"nobody knows where this begins"))


@pytest.mark.parametrize(
    ("beginning", "hint"),
    [(b"\x16\x03\x01\x00", "TLS client"), (b"GET / HTTP/1.1", "HTTP client")],
)
def test_a_foreign_protocol_is_named(beginning: bytes, hint: str) -> None:
    reader = FrameReader(scratch_buffer(), LIMIT)
    with pytest.raises(WireError, match=hint):
        feed(reader, beginning)


def test_memory_follows_the_bytes_that_arrived_not_the_size_announced() -> None:
    reader = FrameReader(scratch_buffer(), LIMIT)
    tracemalloc.start()
    try:
        feed(reader, SIZE.pack(LIMIT) + b"x" * 100)
        feed(reader, b"x" * 2 * TRUSTED_BYTES)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reader.is_amid_frame
    assert peak < 20 * TRUSTED_BYTES < LIMIT


def test_a_large_frame_grows_until_it_is_whole() -> None:
    payload = bytes(range(256)) * 20_000
    assert feed(FrameReader(scratch_buffer(), LIMIT), framed(payload, b"next")) == [
        payload,
        b"next",
    ]


def test_a_large_buffer_is_used_again_by_the_next_frame_of_any_reader() -> None:
    scratch, spares = scratch_buffer(64), SpareBuffers()
    one, other = FrameReader(scratch, LIMIT, spares), FrameReader(scratch, LIMIT, spares)
    buffers = []
    for reader, payload in ((one, b"a" * 300_000), (other, b"b" * 200_000), (one, b"c" * 100_000)):
        data = framed(payload)
        assert feed(reader, data[:100]) == []
        buffers.append(reader.get_buffer().obj)
        assert feed(reader, data[100:]) == [payload]
    assert buffers[0] is buffers[1] is buffers[2]


def test_two_frames_that_arrive_at_once_do_not_share_a_buffer() -> None:
    scratch, spares = scratch_buffer(64), SpareBuffers()
    one, other = FrameReader(scratch, LIMIT, spares), FrameReader(scratch, LIMIT, spares)
    first, second = framed(b"a" * 300_000), framed(b"b" * 300_000)
    assert feed(one, first[:200_000]) == feed(other, second[:100_000]) == []
    assert feed(one, first[200_000:]) == [b"a" * 300_000]
    assert feed(other, second[100_000:]) == [b"b" * 300_000]


def test_a_frame_that_outgrows_its_buffer_leaves_it_to_others() -> None:
    scratch, spares = scratch_buffer(64), SpareBuffers()
    payload = bytes(range(256)) * 20_000
    outgrown = framed(payload)
    reader = FrameReader(scratch, LIMIT, spares)
    assert feed(reader, outgrown[:100]) == []
    buffer = reader.get_buffer().obj
    assert feed(reader, outgrown[100:]) == [payload]
    assert spares.take(TRUSTED_BYTES).obj is buffer


def test_a_reader_that_is_abandoned_amid_a_frame_leaves_its_buffer_to_others() -> None:
    spares = SpareBuffers()
    reader = FrameReader(scratch_buffer(64), LIMIT, spares)
    assert feed(reader, framed(b"a" * 300_000)[:1000]) == []
    buffer = reader.get_buffer().obj

    reader.abandon()

    assert not reader.is_amid_frame
    assert spares.take(300_000).obj is buffer


def test_no_more_spare_buffers_are_kept_than_the_limit_says() -> None:
    spares = SpareBuffers()
    taken = [spares.take(TRUSTED_BYTES) for _ in range(MAX_SPARES + 2)]
    for buffer in taken:
        spares.give_back(buffer)
    again = [spares.take(TRUSTED_BYTES) for _ in range(MAX_SPARES + 2)]
    kept = [buffer for buffer in again if any(buffer.obj is old.obj for old in taken)]
    assert len(kept) == MAX_SPARES


def large_frame(reader: FrameReader, fill: bytes) -> memoryview:
    """Feed one frame that is larger than the scratch buffer, and keep the view of it."""
    data = framed(fill * (TRUSTED_BYTES - 64))
    while True:
        buffer = reader.get_buffer()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        if frames := reader.buffer_updated(count):
            return frames[0]


def test_a_frame_that_is_held_survives_the_next_reads() -> None:
    scratch, spares = scratch_buffer(), SpareBuffers()
    first, second = (FrameReader(scratch, LIMIT, spares) for _ in range(2))
    frame = large_frame(first, b"a")
    release = first.hold()
    assert release is not None
    assert first.hold() is None, "it is held already"
    large_frame(second, b"b")
    large_frame(first, b"c")
    assert set(frame) == {ord("a")}
    release()


def test_the_buffer_of_a_frame_that_was_held_is_used_again() -> None:
    made: list[int] = []

    def make(size_bytes: int) -> memoryview:
        made.append(size_bytes)
        return scratch_buffer(size_bytes)

    reader = FrameReader(scratch_buffer(), LIMIT, SpareBuffers(make))
    for _ in range(5):
        large_frame(reader, b"a")
        release = reader.hold()
        assert release is not None
        release()
    assert len(made) == 1


def test_a_frame_in_the_shared_buffer_cannot_be_held() -> None:
    reader = FrameReader(scratch_buffer(), LIMIT, SpareBuffers())
    large_frame(reader, b"a")
    assert feed(reader, framed(b"small")) == [b"small"]
    assert feed(reader, framed(b"next")) == [b"next"]
    assert reader.hold() is None


def give(reader: FrameReader, data: bytes) -> list[memoryview]:
    """Have `data` read at once; it must have room where the reader wants it."""
    reader.get_buffer()[: len(data)] = data
    return reader.buffer_updated(len(data))


def test_after_a_large_frame_the_next_one_is_read_at_once() -> None:
    reader = FrameReader(scratch_buffer(), LIMIT, SpareBuffers())
    large_frame(reader, b"a")

    (frame,) = give(reader, framed(b"b" * (TRUSTED_BYTES - 64)))

    assert set(frame) == {ord("b")}
    assert reader.hold() is not None


def test_a_frame_outlives_the_beginning_of_the_next_one_that_came_with_it() -> None:
    reader = FrameReader(scratch_buffer(), LIMIT, SpareBuffers())
    large_frame(reader, b"a")
    first, second = framed(b"b" * 900_000), framed(b"c" * 800_000)

    (frame,) = give(reader, first + second[:100_000])
    assert set(frame) == {ord("b")}
    assert reader.is_amid_frame
    assert feed(reader, second[100_000:]) == [b"c" * 800_000]
    assert not reader.is_amid_frame


def test_a_frame_that_is_larger_than_expected_goes_on_where_it_began() -> None:
    reader = FrameReader(scratch_buffer(), LIMIT, SpareBuffers())
    assert feed(reader, framed(b"a" * 500_000)) == [b"a" * 500_000]
    data = framed(b"b" * 900_000)
    into = reader.get_buffer()
    assert give(reader, data[: len(into)]) == []
    assert reader.get_buffer().obj is into.obj
    assert feed(reader, data[len(into) :]) == [b"b" * 900_000]


def test_a_small_beginning_does_not_keep_the_buffer_of_a_large_frame() -> None:
    spares = SpareBuffers()
    reader = FrameReader(scratch_buffer(), LIMIT, spares)
    large_frame(reader, b"a")
    buffer = reader.get_buffer().obj
    data = framed(b"small")

    assert give(reader, data[:6]) == []

    assert spares.take(TRUSTED_BYTES).obj is buffer
    assert reader.held_bytes == len(data)
    assert feed(reader, data[6:]) == [b"small"]


def test_several_frames_where_a_large_one_was_expected_cannot_be_held() -> None:
    reader = FrameReader(scratch_buffer(), LIMIT, SpareBuffers())
    large_frame(reader, b"a")
    assert give(reader, framed(b"one", b"two")) == [b"one", b"two"]
    assert reader.hold() is None, "who holds one would let go of the other"


def test_a_reader_that_expects_a_large_frame_holds_no_memory_for_it() -> None:
    spares = SpareBuffers()
    reader = FrameReader(scratch_buffer(), LIMIT, spares)
    large_frame(reader, b"a")
    assert reader.held_bytes == 0
    buffer = reader.get_buffer().obj
    assert not reader.is_amid_frame
    reader.abandon()
    assert spares.take(TRUSTED_BYTES).obj is buffer


@pytest.mark.parametrize("is_large", [False, True])
def test_a_frame_that_is_kept_survives_the_next_reads_wherever_it_lay(is_large: bool) -> None:
    scratch, spares = scratch_buffer(), SpareBuffers()
    reader, other = (FrameReader(scratch, LIMIT, spares) for _ in range(2))
    if is_large:
        frame = large_frame(reader, b"a")
    else:
        (frame,) = give(reader, framed(b"a" * 100_000))
    kept, release = reader.kept(frame)
    assert (kept is frame) is is_large, "what need not be copied is not"
    large_frame(other, b"b")
    give(other, framed(b"c" * 100_000))
    assert set(kept) == {ord("a")}
    assert release is not None
    release()
