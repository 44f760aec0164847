"""How a consumer ends, what it makes of values, and that both its faces are alike."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Collection
from typing import Any

import pytest

import ottla
from ottla.testing import TestBroker
from tests.compat.client_consumers import (
    TIMEOUT_S,
    UnluckyError,
    broker,
    committed,
    consumer,
    shared,
    topic,
    values,
)

__all__ = ["broker", "shared", "topic"]  # fixtures


def test_stop_from_another_thread_ends_the_loop_cleanly(broker: TestBroker, topic: str) -> None:
    broker.produce(topic, "a")
    seen = []
    with consumer(broker, topic, group_id=topic) as reader:
        for record in reader:
            seen.append(record.value)
            threading.Thread(target=reader.stop).start()
        assert list(reader.batches()) == []
    assert seen == [b"a"]
    assert committed(broker, topic, topic) == 1


def test_stop_in_the_middle_leaves_the_rest_for_the_next_time(
    broker: TestBroker, topic: str
) -> None:
    broker.produce(topic, "a", "b", "c")
    with consumer(broker, topic, group_id=topic) as reader:
        for _ in reader:
            reader.stop()
    assert committed(broker, topic, topic) == 1


def test_closing_amid_a_rebalance_commits_when_the_group_has_settled(
    broker: TestBroker, topic: str
) -> None:
    broker.produce(topic, "a")
    with consumer(broker, topic, group_id=topic) as reader:
        assert values(reader.poll(TIMEOUT_S)) == ["a"]
        broker.faults.fail("OffsetCommit", ottla.ErrorCode.REBALANCE_IN_PROGRESS)
    assert committed(broker, topic, topic) == 1


class Committing(ottla.RebalanceListener):
    """Commits when partitions are given up, as listeners are wont to."""

    def on_revoked(self, consumer: Any, partitions: Collection[ottla.TopicPartition]) -> None:
        consumer.commit()


def test_a_listener_that_commits_does_not_commit_the_record_that_failed(
    broker: TestBroker, topic: str
) -> None:
    broker.produce(topic, "a", "b", "c")

    def work() -> None:
        with consumer(broker, topic, group_id=topic, listener=Committing()) as reader:
            for record in reader:
                if record.offset == 1:
                    raise UnluckyError

    with pytest.raises(UnluckyError):
        work()
    assert committed(broker, topic, topic) == 1


def test_a_consumer_that_left_its_group_takes_part_in_no_transaction(
    broker: TestBroker, topic: str
) -> None:
    broker.produce(topic, "a", "b")
    options: dict[str, Any] = {"group_id": topic, "enable_auto_commit": False}
    slow = consumer(broker, topic, max_poll_interval_ms=500, **options)
    producer = ottla.Producer(broker.bootstrap_servers, transactional_id=topic)
    with slow, producer, consumer(broker, topic, **options) as successor:
        batch = slow.poll(TIMEOUT_S)
        assert len(batch) == 2
        assert len(successor.poll(TIMEOUT_S)) == 2, "it has the partition now"
        with pytest.raises(ottla.CommitFailedError), producer.transaction(batch) as transaction:
            transaction.send(f"{topic}-out", b"twice")
        assert len(slow.poll(0)) == 0
    assert committed(broker, topic, topic) is None


def test_a_second_thread_gets_a_clear_error(broker: TestBroker, topic: str) -> None:
    broker.produce(topic, "a")
    errors: list[BaseException] = []

    class Meanwhile(ottla.ConsumerInterceptor):
        def on_consume(self, batch: "ottla.Batch[Any, Any]") -> "ottla.Batch[Any, Any]":
            def intrude() -> None:
                try:
                    reader.poll(0)
                except ottla.MisuseError as error:
                    errors.append(error)

            other = threading.Thread(target=intrude)
            other.start()
            other.join()
            return batch

    with consumer(broker, topic, interceptors=[Meanwhile()]) as reader:
        assert len(reader.poll(TIMEOUT_S)) == 1
    assert "one thread or task at a time" in str(errors[0])


def test_a_listener_or_interceptor_that_fails_is_heard_of_and_nothing_is_lost(
    broker: TestBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker.produce(topic, "a")

    class Broken(ottla.ConsumerInterceptor):
        def on_consume(self, batch: "ottla.Batch[Any, Any]") -> "ottla.Batch[Any, Any]":
            raise UnluckyError

    class Listener(ottla.RebalanceListener):
        def on_assigned(self, consumer: Any, partitions: Any) -> None:
            raise UnluckyError

    with consumer(broker, topic, interceptors=[Broken()], listener=Listener()) as reader:
        with pytest.raises(UnluckyError):
            reader.poll(TIMEOUT_S)
        assert values(reader.poll(TIMEOUT_S)) == ["a"]
    assert "interceptor" in caplog.text


def test_used_after_close_is_an_error_and_closing_twice_is_none(
    broker: TestBroker, topic: str
) -> None:
    reader = consumer(broker, topic)
    reader.poll(0)
    reader.close()
    reader.close()
    with pytest.raises(ottla.ClosedError):
        reader.poll(0)


def test_a_constructor_does_no_io_and_entering_says_who_was_not_reached() -> None:
    reader = ottla.Consumer("x", bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=2_000)
    with pytest.raises(ottla.ConnectError, match=r"127\.0\.0\.1:1"):
        reader.__enter__()
    reader.close()


# Keys and values.


def test_a_record_that_cannot_be_read_is_raised_raw_and_the_next_one_follows(
    broker: TestBroker, topic: str
) -> None:
    broker.produce(topic, '{"id": 1}', "not json", '{"id": 2}')
    with consumer(broker, topic, value_serde=ottla.JSON) as reader:
        assert next(reader).value == {"id": 1}
        with pytest.raises(ottla.SerializationError) as caught:
            next(reader)
        assert caught.value.record.value == b"not json"
        assert next(reader).value == {"id": 2}


def test_arrow_has_columns_of_a_schema_and_tombstones_are_null(
    broker: TestBroker, topic: str
) -> None:
    pa = pytest.importorskip("pyarrow")
    broker.produce(topic, '{"id": 1, "more": true}', None, '{"id": 3}')
    schema = pa.schema([("id", pa.int64())])
    with consumer(broker, topic) as reader:
        rows = reader.poll_arrow(TIMEOUT_S, schema=schema)
        assert rows is not None
        assert rows.schema.names == [
            "topic",
            "partition",
            "offset",
            "timestamp",
            "key",
            "headers",
            "id",
        ]
        assert rows.column("id").to_pylist() == [1, None, 3]
        assert rows.column("offset").to_pylist() == [0, 1, 2]
        assert reader.poll_arrow(0.01) is None


# Both faces.


def test_the_asyncio_consumer_reads_commits_and_stops(broker: TestBroker, topic: str) -> None:
    broker.produce(topic, "a", "b", "c", "d")
    assigned: list[ottla.TopicPartition] = []

    class Listener(ottla.RebalanceListener):
        async def on_assigned(
            self, consumer: Any, partitions: Collection[ottla.TopicPartition]
        ) -> None:
            await asyncio.sleep(0)
            assigned.extend(partitions)

    async def main() -> list[str]:
        seen: list[str] = []
        async with ottla.AsyncConsumer(
            topic,
            bootstrap_servers=broker.bootstrap_servers,
            group_id=topic,
            auto_offset_reset="earliest",
            listener=Listener(),
        ) as reader:
            async for record in reader:
                seen += values([record])
                if len(seen) == 2:
                    break
            async for batch in reader.batches(TIMEOUT_S):
                seen += values(batch)
                reader.stop()
            await reader.commit()
            (tp,) = reader.assignment
            assert await reader.position(tp) == 4
            assert await reader.lag() == {tp: 0}
        return seen

    assert asyncio.run(main()) == ["a", "b", "c", "d"]
    assert assigned == [ottla.TopicPartition(topic, 0)]
    assert committed(broker, topic, topic) == 4


def test_metrics_tell_what_was_read_and_what_is_left(broker: TestBroker, topic: str) -> None:
    broker.produce(topic, "a", "b", "c")
    with consumer(broker, topic) as reader:
        reader.poll(TIMEOUT_S, max_records=1)
        told = reader.metrics()
    assert told["records-consumed-total"] == 1
    assert told["records-lag-max"] == 2
    assert told["assigned-partitions"] == 1
    assert told["bytes-consumed-total"] > 0


def test_both_faces_have_the_same_methods() -> None:
    def methods(of: type) -> set[str]:
        return {name for name in dir(of) if not name.startswith("_")}

    assert methods(ottla.AsyncConsumer) - methods(ottla.Consumer) == {"aclose"}
    assert methods(ottla.Consumer) - methods(ottla.AsyncConsumer) == {"close"}


def test_control_c_ends_a_long_wait_at_once_and_what_was_processed_is_committed(
    broker: TestBroker, topic: str
) -> None:
    broker.produce(topic, "a", "b")

    def press(reader: "ottla.Consumer[Any, Any]") -> None:
        presence = reader._reading.core.presence
        while not presence.is_polling:
            threading.Event().wait(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def work() -> None:
        with consumer(broker, topic, group_id=topic) as reader:
            assert len(reader.poll(TIMEOUT_S, max_records=1)) == 1
            assert len(reader.poll(TIMEOUT_S)) == 1
            reader.pause(*reader.assignment)
            threading.Thread(target=press, args=(reader,)).start()
            reader.poll(3_600)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert committed(broker, topic, topic) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("takes", ["consumer.poll(1)", "next(records)"])
def test_a_forked_child_is_told_to_make_its_own_consumer(
    broker: TestBroker, topic: str, takes: str
) -> None:
    script = f"""
        import os, sys
        import ottla
        consumer = ottla.Consumer(
            sys.argv[2], bootstrap_servers=sys.argv[1], auto_offset_reset="earliest"
        )
        records = iter(consumer)
        assert next(records).value == b"a"
        if (child := os.fork()) == 0:
            try:
                {takes}
            except ottla.MisuseError as error:
                consumer.close()
                os._exit(7 if "make a new client" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert [record.value for record in consumer.poll(90)] == [b"b"]
        consumer.close()
    """
    broker.produce(topic, "a", "b")
    arguments = [broker.bootstrap_servers, topic]
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), *arguments],
        check=True,
        timeout=120,
    )
