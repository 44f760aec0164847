"""Buffers that are used again, and never while somebody looks into them."""

from ottla.client.buffers import MAX_ANSWER_BYTES, MAX_KEPT, ViewedBuffers
from ottla.client.consumer.config import ConsumerConfig
from ottla.config import MIB

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
