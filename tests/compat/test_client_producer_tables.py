"""Arrow tables of many batches, which the producer's I/O thread builds, against a real broker."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

import ottla
from ottla.client.producer import arrow
from ottla.records.builder import build_unsealed
from ottla.testing import TestBroker
from tests.compat.client_producers import SOON_S, faulty, served, values

__all__ = ["faulty", "served"]  # fixtures


@pytest.mark.parametrize("acks", ["all", 1, 0])
def test_many_batches_of_one_partition_keep_their_order(
    served: TestBroker, topic: str, acks: Any
) -> None:
    column = [b"%06d" % n + b"x" * 100 for n in range(5000)]
    table = pa.table({"value": column})
    options: Any = {"max_request_size": 20_000, "acks": acks}
    with ottla.Producer(served.bootstrap_servers, **options) as producer:
        first, second = producer.send_arrow(topic, table), producer.send_arrow(topic, table)
        first.result(SOON_S)
        second.result(SOON_S)
        assert producer.metrics()["batch-total"] > 50
    deadline = time.monotonic() + SOON_S
    while acks == 0 and len(values(served, topic)) < 2 * len(column):  # nobody told when it arrived
        assert time.monotonic() < deadline, "lost"
        time.sleep(0.01)
    assert values(served, topic) == column * 2


def test_a_broken_row_of_a_large_table_is_told_by_the_call(served: TestBroker, topic: str) -> None:
    column = [b"x" * 1000] * 100 + [bytes(30_000)]
    with ottla.Producer(served.bootstrap_servers, max_request_size=20_000) as producer:
        with pytest.raises(ottla.errors.RequestError, match=r"max\.request\.size"):
            producer.send_arrow(topic, pa.table({"value": column}))
        producer.send(topic, b"after it").result(SOON_S)
    assert values(served, topic)[-1] == b"after it"


def test_a_producer_that_is_closed_amid_a_large_table_says_so(
    served: TestBroker, topic: str
) -> None:
    column, faults = [b"x" * 1000] * 500, served.faults  # first: without them, this is skipped
    producer = ottla.Producer(served.bootstrap_servers, max_request_size=20_000)
    producer.partitions_for(topic)
    with ThreadPoolExecutor(1) as threads:
        with faults.stall("Produce"):
            sending = threads.submit(producer.send_arrow, topic, pa.table({"value": column}))
            while not producer.metrics()["batches-incomplete"]:
                time.sleep(0.001)
            with pytest.raises(ottla.errors.DeliveryErrors):
                producer.close(0.1)
        with pytest.raises(ottla.ClosedError):
            sending.result(SOON_S)


def test_nothing_of_a_table_outlives_its_transaction(served: TestBroker, topic: str) -> None:
    other = f"{topic}-other"
    for name in (topic, other):
        served.create_topic(name)
    table = pa.table({"value": [b"%04d" % n + b"x" * 1000 for n in range(200)]})
    options: Any = {"transactional_id": topic, "max_request_size": 20_000, "linger_ms": 0}
    with (
        ottla.Producer(served.bootstrap_servers, **options) as producer,
        ThreadPoolExecutor(1) as threads,
    ):
        with (
            suppress(ZeroDivisionError),
            producer.transaction() as transaction,
            served.faults.delay("Produce", 0.2, times=1),
        ):
            sending = threads.submit(transaction.send_arrow, topic, table)
            while producer.metrics()["batches-incomplete"] < 2:
                time.sleep(0.001)
            raise ZeroDivisionError
        with pytest.raises(ottla.errors.OttlaError):
            sending.result(SOON_S)
        with producer.transaction() as after:
            after.send(other, b"second").result(SOON_S)
    consumer = ottla.Consumer(
        topic,
        bootstrap_servers=served.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    with consumer:
        assert len(consumer.poll(timeout=0.5)) == 0


def test_a_broker_that_does_not_answer_holds_up_no_caller(served: TestBroker, topic: str) -> None:
    table = pa.table({"value": [b"%04d" % n + b"x" * 1000 for n in range(130)]})
    with ottla.Producer(served.bootstrap_servers, max_request_size=20_000) as producer:
        producer.send(topic, b"first").result(SOON_S)
        with served.faults.stall("Produce"):
            sent = producer.send_arrow(topic, table)
            assert not sent.done()
        sent.result(SOON_S)
    assert values(served, topic)[1:] == table.column("value").to_pylist()


def test_threads_that_send_tables_at_once_get_all_of_them_written(
    served: TestBroker, topic: str
) -> None:
    columns = [[b"%d %04d" % (n, row) + b"x" * 100 for row in range(1000)] for n in range(4)]
    options: Any = {"max_request_size": 20_000, "buffer_memory": 50_000}
    with (
        ottla.Producer(served.bootstrap_servers, **options) as producer,
        ThreadPoolExecutor(len(columns)) as threads,
    ):
        tables = [pa.table({"value": column}) for column in columns]
        sent = list(threads.map(lambda table: producer.send_arrow(topic, table), tables))
        assert [len(each.result(SOON_S)[0]) >= 1000 for each in sent] == [True] * len(columns)
    written = values(served, topic)
    for number, column in enumerate(columns):
        mine = [value for value in written if value and value.startswith(b"%d " % number)]
        assert mine == column


@pytest.mark.parametrize(
    ("options", "rows", "is_built_there"),
    [
        ({}, 200, True),
        ({}, 20, False),
        ({"acks": 0}, 200, False),
        ({"compression_type": "gzip"}, 200, False),
    ],
    ids=["long", "short", "not acknowledged", "compressed"],
)
def test_who_builds_the_batches_of_a_table(
    served: TestBroker,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    options: Any,
    rows: int,
    is_built_there: bool,
) -> None:
    builders: set[threading.Thread] = set()

    def build(*arguments: Any) -> Any:
        builders.add(threading.current_thread())
        return build_unsealed(*arguments)

    monkeypatch.setattr(arrow, "build_unsealed", build)
    with ottla.Producer(served.bootstrap_servers, max_request_size=20_000, **options) as producer:
        producer.send_arrow(topic, pa.table({"value": [b"x" * 1000] * rows})).result(SOON_S)
    assert len(builders) == 1
    assert (threading.current_thread() not in builders) == is_built_there
