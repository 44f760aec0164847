"""Threads that share a producer: no record is lost or doubled, and each future tells the truth."""

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import ottla
from ottla.testing import TestBroker
from tests.compat.client_producers import faulty, served

__all__ = ["faulty", "served"]  # fixtures

PATIENCE_S = 120.0
THREAD_COUNT = 4
RECORD_COUNT = 1_500

Sent = list[tuple[bytes, "Future[ottla.RecordMetadata]"]]


@contextmanager
def restless_threads() -> Iterator[None]:
    """Have threads take turns as often as can be: in the middle of everything."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)


def send_in_every_way(producer: ottla.Producer, topic: str, thread: int) -> Sent:
    sent: Sent = []
    for number in range(RECORD_COUNT):
        value = b"%d %d" % (thread, number)
        match number % 10:
            case 7:  # not plain, and so under the lock
                sent.append((value, producer.send(topic, value, headers={"way": "long"})))
            case 9:
                producer.send_many(topic, [value])
            case _:
                sent.append((value, producer.send(topic, value)))
    return sent


@pytest.mark.parametrize(
    "config",
    [
        {"linger.ms": 0},
        {"batch.size": 2_000},
        {"batch.size": 2_000, "buffer.memory": 8_000},
    ],
    ids=["batches that leave at once", "small batches", "little memory"],
)
def test_every_future_tells_where_its_record_is(
    served: TestBroker, topic: str, config: dict[str, int]
) -> None:
    served.create_topic(topic, partitions=1)
    with (
        restless_threads(),
        ottla.Producer(served.bootstrap_servers, config=config) as producer,
        ThreadPoolExecutor(THREAD_COUNT) as pool,
    ):
        threads = [
            pool.submit(send_in_every_way, producer, topic, thread)
            for thread in range(THREAD_COUNT)
        ]
        sent = [pair for thread in threads for pair in thread.result(PATIENCE_S)]
        producer.flush(PATIENCE_S)
        told = {(w.partition, w.offset): value for value, f in sent for w in [f.result(PATIENCE_S)]}
    records = list(served.records(topic))
    found = {(record.partition, record.offset): record.value or b"" for record in records}
    assert len(told) == len(sent)
    assert found.items() >= told.items()
    everything = [b"%d %d" % (t, n) for t in range(THREAD_COUNT) for n in range(RECORD_COUNT)]
    assert sorted(found.values()) == sorted(everything)
    for thread in range(THREAD_COUNT):
        mine = [value.split() for _, value in sorted(found.items())]
        order = [int(number) for who, number in mine if int(who) == thread]
        assert order == list(range(RECORD_COUNT)), "a thread's records keep their order"
