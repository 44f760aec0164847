"""Buffers that are used again, and never while somebody looks into them."""

from ottla.client.buffers import MAX_KEPT, ViewedBuffers

LARGE_BYTES = 100_000


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
