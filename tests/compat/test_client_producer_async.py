"""The asyncio face of our producer, and Arrow tables, against a real broker."""

import asyncio
import json
import os
from typing import Any

import pyarrow as pa
import pytest

import ottla
from ottla.errors import ErrorCode
from ottla.testing import TestBroker
from tests.compat.client_producers import SOON_S, faulty, served, values

__all__ = ["faulty", "served"]  # fixtures


def test_send_waits_for_the_record_and_enqueue_for_room(served: TestBroker, topic: str) -> None:
    async def main() -> list[int]:
        async with ottla.AsyncProducer(
            served.bootstrap_servers, value_serde=ottla.JSON
        ) as producer:
            first = await producer.send(topic, {"id": 0})
            futures = [await producer.enqueue(topic, {"id": n}) for n in range(1, 500)]
            written = await asyncio.gather(*futures)
            assert await producer.partitions_for(topic) == [0]
            return [first.offset, *(metadata.offset for metadata in written)]

    assert asyncio.run(main()) == list(range(500))
    assert [json.loads(v or b"")["id"] for v in values(served, topic)] == list(range(500))


def test_concurrent_sends_share_requests(served: TestBroker, topic: str) -> None:
    async def main() -> float:
        async with ottla.AsyncProducer(served.bootstrap_servers) as producer:
            await producer.send(topic, b"first")
            before = producer.metrics()["batch-total"]
            await asyncio.gather(*(producer.send(topic, b"x") for _ in range(1000)))
            return producer.metrics()["batch-total"] - before

    assert asyncio.run(main()) < 500


def test_a_loop_that_waits_for_room_goes_on(served: TestBroker, topic: str) -> None:
    async def main() -> None:
        options: Any = {"buffer_memory": 2000, "batch_size": 500}
        async with ottla.AsyncProducer(served.bootstrap_servers, **options) as producer:
            for n in range(200):
                await producer.enqueue(topic, b"%d" % n)

    asyncio.run(main())
    assert values(served, topic) == [b"%d" % n for n in range(200)]


def test_a_loop_waits_for_room_no_longer_than_allowed(served: TestBroker, topic: str) -> None:
    served.create_topic(topic)

    async def fill(producer: ottla.AsyncProducer) -> None:
        for _ in range(100):
            await producer.enqueue(topic, b"x" * 100)

    async def main() -> None:
        options: Any = {"buffer_memory": 2000, "batch_size": 500, "max_block_ms": 100}
        async with ottla.AsyncProducer(served.bootstrap_servers, **options) as producer:
            await producer.partitions_for(topic, SOON_S)  # or that might take too long
            with (
                served.faults.stall("Produce"),
                pytest.raises(ottla.DeadlineError, match=r"buffer\.memory"),
            ):
                await fill(producer)

    asyncio.run(main())


def test_a_failure_is_raised_where_it_is_awaited(served: TestBroker, topic: str) -> None:
    async def main() -> None:
        async with ottla.AsyncProducer(served.bootstrap_servers) as producer:
            served.faults.fail("Produce", ErrorCode.INVALID_RECORD)
            with pytest.raises(ottla.DeliveryError):
                await producer.send(topic, b"bad")
            await producer.flush()

    asyncio.run(main())


def test_a_failure_that_nobody_awaited_is_told_by_flush(served: TestBroker, topic: str) -> None:
    async def main() -> None:
        async with ottla.AsyncProducer(served.bootstrap_servers) as producer:
            served.faults.fail("Produce", ErrorCode.INVALID_RECORD)
            forgotten = await producer.enqueue(topic, b"bad")
            with pytest.raises(ottla.DeliveryErrors):
                await producer.flush()
            assert forgotten.done()

    asyncio.run(main())


def test_flush_takes_no_longer_than_allowed(served: TestBroker, topic: str) -> None:
    served.create_topic(topic)

    async def main() -> None:
        async with ottla.AsyncProducer(served.bootstrap_servers) as producer:
            with served.faults.stall("Produce"):
                sent = await producer.enqueue(topic, b"a")
                with pytest.raises(ottla.DeadlineError):
                    await producer.flush(0.05)
            await sent

    asyncio.run(main())
    assert values(served, topic) == [b"a"]


def test_sending_many_waits_in_a_thread(served: TestBroker, topic: str) -> None:
    async def main() -> int:
        options: Any = {"buffer_memory": 3000, "batch_size": 500}
        async with ottla.AsyncProducer(served.bootstrap_servers, **options) as producer:
            return await producer.send_many(topic, (b"%d" % n for n in range(500)))

    assert asyncio.run(main()) == 500
    assert values(served, topic) == [b"%d" % n for n in range(500)]


def test_the_rows_of_a_table_become_records(served: TestBroker, topic: str) -> None:
    served.create_topic(topic, partitions=3)
    keys = [f"user-{n % 17}" for n in range(1000)]
    table = pa.table({"user": keys, "clicks": list(range(1000))})
    with ottla.Producer(served.bootstrap_servers) as producer:
        sent = producer.send_arrow(
            topic, table, key="user", value=["user", "clicks"], value_format="json"
        )
        ranges = sent.result(SOON_S)
    assert sum(map(len, ranges.values())) == 1000
    for record in served.records(topic):
        assert record.key is not None
        assert record.partition == ottla.murmur2(record.key) % 3
        assert record.offset in ranges[record.partition]
        row = json.loads(record.value or b"")
        assert row["user"].encode() == record.key
    clicks = {
        p: [json.loads(r.value or b"")["clicks"] for r in served.records(topic) if r.partition == p]
        for p in ranges
    }
    assert all(column == sorted(column) for column in clicks.values())


def test_a_table_without_keys_is_spread_in_slices(served: TestBroker, topic: str) -> None:
    served.create_topic(topic, partitions=3)
    column = [b"%d" % n for n in range(5000)]
    with ottla.Producer(served.bootstrap_servers, batch_size=5000) as producer:
        ranges = producer.send_arrow(topic, pa.table({"value": column})).result(SOON_S)
    assert len(ranges) == 3
    assert sorted(values(served, topic), key=lambda v: int(v or b"")) == column


def test_a_large_table_goes_out_in_batches_that_fit(served: TestBroker, topic: str) -> None:
    column = [b"%06d" % n + b"x" * 1000 for n in range(3000)]
    with ottla.Producer(served.bootstrap_servers, compression_type="lz4") as producer:
        assert producer.send_arrow(topic, pa.table({"value": column})).result(SOON_S) == {
            0: range(3000)
        }
    assert values(served, topic) == column


@pytest.mark.parametrize(
    ("key_type", "value_type"),
    [(pa.dictionary(pa.int8(), pa.string()), pa.binary()), (pa.binary(1), pa.null())],
    ids=["said once", "without lengths"],
)
def test_headers_that_arrow_keeps_in_less_room_go_out_in_batches_that_fit(
    served: TestBroker, topic: str, key_type: pa.DataType, value_type: pa.DataType
) -> None:
    limit_bytes = 20_000
    key: Any = b"k" if pa.types.is_fixed_size_binary(key_type) else "k" * 100
    headers = pa.array([[(key, None)] * 100] * 200, pa.map_(key_type, value_type))
    table = pa.table({"value": [b""] * 200, "headers": headers})
    with ottla.Producer(served.bootstrap_servers, max_request_size=limit_bytes) as producer:
        producer.send_arrow(topic, table).result(SOON_S)
        metrics = producer.metrics()
    written_bytes = 200 * 100 * (len(key) + 2)
    assert metrics["batch-total"] > written_bytes / limit_bytes
    assert {len(record.headers) for record in served.records(topic)} == {100}


def test_batches_of_no_size_take_a_row_each(served: TestBroker, topic: str) -> None:
    served.create_topic(topic, partitions=3)
    column = [b"%d" % n for n in range(5)]
    with ottla.Producer(served.bootstrap_servers, batch_size=0) as producer:
        producer.send_arrow(topic, pa.table({"value": column})).result(SOON_S)
        assert producer.metrics()["batch-total"] == 5
    assert sorted(value or b"" for value in values(served, topic)) == column


@pytest.mark.parametrize("limit_bytes", [0, 10, 60, 61, 62, 1000])
def test_a_row_that_no_request_can_hold_is_refused(
    served: TestBroker, topic: str, limit_bytes: int
) -> None:
    served.create_topic(topic, partitions=3)
    with ottla.Producer(served.bootstrap_servers, max_request_size=limit_bytes) as producer:
        with pytest.raises(ottla.errors.RequestError, match=r"max\.request\.size") as caught:
            producer.send_arrow(topic, pa.table({"value": [bytes(1000)] * 5}))
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert values(served, topic) == []


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_table_may_be_larger_than_the_buffer(
    served: TestBroker, topic: str, partitions: int
) -> None:
    served.create_topic(topic, partitions=partitions)
    column = [b"%03d" % n + bytes(100) for n in range(500)]
    with ottla.Producer(served.bootstrap_servers, buffer_memory=5_000) as producer:
        producer.send_arrow(topic, pa.table({"value": column})).result(SOON_S)
    assert sorted(value or b"" for value in values(served, topic)) == column


def test_what_compression_adds_keeps_no_batch_out_of_the_buffer(
    served: TestBroker, topic: str
) -> None:
    column = [os.urandom(249_968) for _ in range(8)]
    options: Any = {"buffer_memory": 1_000_000, "compression_type": "gzip", "max_block_ms": 10_000}
    with ottla.Producer(served.bootstrap_servers, **options) as producer:
        producer.send_arrow(topic, pa.table({"value": column})).result(SOON_S)
    assert values(served, topic) == column


@pytest.mark.parametrize("partitioner", ["consistent_random", "round_robin", "function"])
def test_every_partitioner_sorts_rows(served: TestBroker, topic: str, partitioner: Any) -> None:
    served.create_topic(topic, partitions=2)
    chooses = (lambda t, k, v, ps: int(k[-1:]) % 2) if partitioner == "function" else partitioner
    table = pa.table({"key": [f"k{n}" for n in range(10)], "value": ["v"] * 10})
    with ottla.Producer(served.bootstrap_servers, partitioner=chooses) as producer:
        producer.send_arrow(topic, table).result(SOON_S)
        for n in range(10):
            producer.send(topic, b"v", key=b"k%d" % n)
    places: dict[Any, set[int]] = {}
    for record in served.records(topic):
        places.setdefault(record.key, set()).add(record.partition)
    assert all(len(found) == 1 for found in places.values())
    assert len(places) == 10


def test_a_whole_table_travels_in_one_record(served: TestBroker, topic: str) -> None:
    table = pa.table({"a": [1, 2, 3]})

    async def main() -> Any:
        async with ottla.AsyncProducer(served.bootstrap_servers) as producer:
            return await producer.send_arrow(topic, table, value_format="arrow")

    assert asyncio.run(main()) == {0: range(1)}
    (value,) = values(served, topic)
    assert pa.ipc.open_stream(value).read_all() == table


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "none is called key or value"),
        ({"key": "nobody"}, "no column 'nobody'"),
        ({"value": ["a", "b"]}, "value_format"),
        ({"value": "a", "value_format": "xml"}, "not one of bytes, json, arrow"),
    ],
)
def test_a_table_that_cannot_be_sent_is_refused(
    served: TestBroker, topic: str, options: Any, complaint: str
) -> None:
    table = pa.table({"a": ["x"], "b": ["y"]})
    with (
        ottla.Producer(served.bootstrap_servers) as producer,
        pytest.raises(ValueError, match=complaint),
    ):
        producer.send_arrow(topic, table, **options)


def test_what_fails_of_a_table_is_told_by_its_future(served: TestBroker, topic: str) -> None:
    served.create_topic(topic)
    served.faults.fail("Produce", ErrorCode.INVALID_RECORD)
    with ottla.Producer(served.bootstrap_servers) as producer:
        sent = producer.send_arrow(topic, pa.table({"value": ["x"]}))
        with pytest.raises(ottla.DeliveryError):
            sent.result(SOON_S)
