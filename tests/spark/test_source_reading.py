"""What tasks make of a log: gaps, markers, large records, loss.  Without Spark, with a broker."""

from contextlib import suppress
from datetime import timedelta

import pytest
from pyspark.sql.types import StructType

import ottla
from ottla.client.buffers import MAX_KEPT
from ottla.errors import ErrorCode, SerializationError, UnknownTopicError
from ottla.spark.source.loss import DataLossError
from ottla.testing import TestBroker
from tests.spark.source_samples import batch_reader, read_all, rows_of, values_of

MIB = 1024 * 1024


class SpilledError(Exception):
    """Makes a transaction abort."""


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % n for n in range(first, first + count)]


def test_every_column_of_a_record_is_there(broker: TestBroker, topic: str) -> None:
    broker.create_topic(topic, partitions=2)
    with ottla.Producer(broker.bootstrap_servers) as producer:
        producer.send(
            topic,
            b"v",
            key=b"k",
            partition=1,
            timestamp=1_700_000_000_123,
            headers=[("h", b"x")],
        ).result()
        producer.send(topic, None, partition=1, timestamp=1_700_000_000_124).result()

    first, second = rows_of(read_all(batch_reader(broker, subscribe=topic, includeHeaders="true")))

    assert first["timestamp"].timestamp() == 1_700_000_000.123
    del first["timestamp"]
    assert first == {
        "key": b"k",
        "value": b"v",
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"x"}],
    }
    assert (second["key"], second["value"], second["headers"]) == (None, None, [])


def test_time_of_appending_is_told_as_such(broker: TestBroker, topic: str) -> None:
    broker.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    broker.produce(topic, "v")

    (row,) = rows_of(read_all(batch_reader(broker, subscribe=topic)))

    assert row["timestampType"] == 1


def test_an_empty_topic_has_no_tasks(broker: TestBroker, topic: str) -> None:
    broker.create_topic(topic, partitions=3)

    assert batch_reader(broker, subscribe=topic).partitions() == []


def test_a_topic_that_does_not_exist_is_named(broker: TestBroker, topic: str) -> None:
    reader = batch_reader(broker, subscribe=topic, retryTimeout="60s")
    with pytest.raises(UnknownTopicError, match=f"topic '{topic}' does not exist"):
        reader.partitions()


def test_ranges_that_are_cut_have_each_record_once(broker: TestBroker, topic: str) -> None:
    broker.create_topic(topic)
    with ottla.Producer(broker.bootstrap_servers, linger_ms=50) as producer:
        for value in numbers(1_000):
            producer.send(topic, value)

    reader = batch_reader(broker, subscribe=topic, minPartitions="7", batchRows="10")

    assert len(reader.partitions()) == 7
    assert values_of(read_all(reader)) == numbers(1_000)


def test_many_fetches_make_one_range(broker: TestBroker, topic: str) -> None:
    broker.create_topic(topic)
    with ottla.Producer(broker.bootstrap_servers, batch_size=2_000) as producer:
        for value in numbers(5_000):
            producer.send(topic, value)

    reader = batch_reader(broker, subscribe=topic, kafka__max__partition__fetch__bytes="4000")

    assert values_of(read_all(reader)) == numbers(5_000)


def test_rows_that_are_still_held_are_not_overwritten_by_those_that_follow(
    broker: TestBroker, topic: str
) -> None:
    broker.create_topic(topic)
    values = [b"%d:" % n + bytes([n % 256]) * (n % 2_000) for n in range(2_000)]
    with ottla.Producer(broker.bootstrap_servers, batch_size=50_000) as producer:
        for n, value in enumerate(values):
            producer.send(topic, value, key=b"%d" % n, headers=[("n", b"%d" % n)])

    reader = batch_reader(
        broker,
        subscribe=topic,
        includeHeaders="true",
        kafka__max__partition__fetch__bytes="100000",
    )
    batches = read_all(reader)  # more of them than there are buffers to be used again

    assert len(batches) > 2 * MAX_KEPT
    rows = rows_of(batches)
    assert [row["value"] for row in rows] == values
    assert [row["key"] for row in rows] == numbers(2_000)
    assert [row["headers"][0]["value"] for row in rows] == numbers(2_000)


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read(broker: TestBroker, topic: str, compression: str) -> None:
    broker.create_topic(topic)
    with ottla.Producer(
        broker.bootstrap_servers, config={"compression.type": compression}
    ) as producer:
        for value in numbers(500):
            producer.send(topic, value)

    assert values_of(read_all(batch_reader(broker, subscribe=topic))) == numbers(500)


def test_a_record_of_ten_megabytes_is_read(broker: TestBroker, topic: str) -> None:
    broker.create_topic(topic, config={"max.message.bytes": str(32 * MIB)})
    large = bytes(10 * MIB)
    with ottla.Producer(
        broker.bootstrap_servers, max_request_size=32 * MIB, buffer_memory=64 * MIB
    ) as producer:
        for value in (b"before", large, large, b"after"):
            producer.send(topic, value)

    assert values_of(read_all(batch_reader(broker, subscribe=topic))) == [
        b"before",
        large,
        large,
        b"after",
    ]


def test_markers_and_aborted_records_are_gaps_and_no_loss(broker: TestBroker, topic: str) -> None:
    broker.create_topic(topic)
    with ottla.Producer(broker.bootstrap_servers, transactional_id=f"t-{topic}") as producer:
        for n in range(6):
            with suppress(SpilledError), producer.transaction() as transaction:
                transaction.send(topic, b"%d" % n).result()
                if n % 2:
                    raise SpilledError

    committed = batch_reader(broker, subscribe=topic, minPartitions="12")
    everything = batch_reader(broker, subscribe=topic, kafka__isolation__level="read_uncommitted")

    assert values_of(read_all(committed)) == [b"0", b"2", b"4"]
    assert values_of(read_all(everything)) == numbers(6)


def test_a_batch_ends_before_a_transaction_that_is_open(broker: TestBroker, topic: str) -> None:
    broker.create_topic(topic)
    broker.produce(topic, "before")
    with (
        ottla.Producer(broker.bootstrap_servers, transactional_id=f"t-{topic}") as producer,
        suppress(SpilledError),
        producer.transaction() as transaction,
    ):
        transaction.send(topic, b"open").result()
        broker.produce(topic, "after")
        assert values_of(read_all(batch_reader(broker, subscribe=topic))) == [b"before"]
        raise SpilledError

    assert values_of(read_all(batch_reader(broker, subscribe=topic))) == [b"before", b"after"]


def test_what_compaction_took_is_a_gap_and_no_loss(broker: TestBroker, topic: str) -> None:
    broker.create_topic(
        topic,
        config={
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "message.timestamp.type": "LogAppendTime",
        },
    )
    for n in range(20):
        broker.produce(topic, f"{n}", key=f"k{n % 3}")
    broker.advance(timedelta(minutes=5))
    broker.produce(topic, "last", key="z")
    planned = batch_reader(broker, subscribe=topic, minPartitions="9")
    tasks = planned.partitions()
    broker.advance(timedelta(minutes=5))
    assert len(broker.records(topic)) < 21

    read = [batch for task in tasks for batch in planned.read(task)]

    assert [row["offset"] for row in rows_of(read)] == [17, 18, 19, 20]


def test_retention_that_passes_a_task_is_a_loss(broker: TestBroker, topic: str) -> None:
    broker.create_topic(topic)
    broker.produce(topic, *[f"{n}" for n in range(10)])
    strict = batch_reader(broker, subscribe=topic)
    lenient = batch_reader(broker, subscribe=topic, failOnDataLoss="false")
    strict_tasks, lenient_tasks = strict.partitions(), lenient.partitions()
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.delete_records({ottla.TopicPartition(topic, 0): 6})

    with pytest.raises(DataLossError, match="begins at offset 6, and offsets 0 to 5"):
        list(strict.read(strict_tasks[0]))
    assert values_of(lenient.read(lenient_tasks[0])) == numbers(4, 6)


def test_a_topic_that_is_made_anew_under_a_task_is_named(broker: TestBroker, topic: str) -> None:
    broker.create_topic(topic)
    broker.produce(topic, *[f"old {n}" for n in range(10)])
    strict = batch_reader(broker, subscribe=topic)
    lenient = batch_reader(broker, subscribe=topic, failOnDataLoss="false")
    strict_tasks, lenient_tasks = strict.partitions(), lenient.partitions()
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic)
    broker.produce(topic, *[f"new {n}" for n in range(10)])

    with pytest.raises(DataLossError, match="was deleted and created anew"):
        list(strict.read(strict_tasks[0]))
    assert values_of(lenient.read(lenient_tasks[0])) == []


def test_a_topic_that_is_deleted_under_a_task_is_named(broker: TestBroker, topic: str) -> None:
    broker.create_topic(topic)
    broker.produce(topic, "v")
    reader = batch_reader(broker, subscribe=topic)
    (task,) = reader.partitions()
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic(topic)

    with pytest.raises(DataLossError, match=f"topic '{topic}' was deleted"):
        list(reader.read(task))


def test_a_task_outlives_lost_replies_and_leaders_that_moved(topic: str) -> None:
    with TestBroker() as broker:
        broker.create_topic(topic)
        broker.produce(topic, *[f"{n}" for n in range(100)])
        reader = batch_reader(broker, subscribe=topic, kafka__retry__backoff__ms="1")
        moved = broker.faults.fail("Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
        lost = broker.faults.drop_reply("Fetch")

        assert values_of(read_all(reader)) == numbers(100)
        assert (moved.hit_count, lost.hit_count) == (2, 1)


def test_a_task_whose_records_do_not_come_says_so(topic: str) -> None:
    with TestBroker() as broker:
        broker.create_topic(topic)
        broker.produce(topic, "v")
        reader = batch_reader(broker, subscribe=topic, kafkaConsumer__pollTimeoutMs="300")
        (task,) = reader.partitions()
        with (
            broker.faults.fail("Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=None),
            pytest.raises(ottla.DeadlineError, match=r"kafkaConsumer\.pollTimeoutMs"),
        ):
            list(reader.read(task))


def test_the_driver_asks_again_while_brokers_have_trouble(topic: str) -> None:
    with TestBroker() as broker:
        broker.create_topic(topic)
        broker.produce(topic, "v")
        fault = broker.faults.drop_reply("ListOffsets", times=2)

        assert values_of(read_all(batch_reader(broker, subscribe=topic))) == [b"v"]
        assert fault.hit_count == 2


JSON_SCHEMA = StructType().add("id", "long").add("_offset", "long")


def test_broken_values_are_dropped_or_stop_the_task_as_mode_says(
    broker: TestBroker, topic: str
) -> None:
    broker.create_topic(topic)
    broker.produce(topic, '{"id": 1}', "oops", '{"id": 3}')
    given = {"subscribe": topic, "valueFormat": "json"}

    dropping = batch_reader(broker, JSON_SCHEMA, mode="DROPMALFORMED", **given)
    assert rows_of(read_all(dropping)) == [{"id": 1, "_offset": 0}, {"id": 3, "_offset": 2}]
    with pytest.raises(SerializationError, match=f"at offset 1 of {topic}-0 is not json"):
        read_all(batch_reader(broker, JSON_SCHEMA, mode="FAILFAST", **given))


def test_broken_values_are_kept_in_a_column_of_their_own(broker: TestBroker, topic: str) -> None:
    broker.create_topic(topic)
    broker.produce(topic, '{"id": 1}', "oops", None)
    schema = StructType().add("id", "long").add("_corrupt_record", "string").add("_value", "binary")

    found = rows_of(read_all(batch_reader(broker, schema, subscribe=topic, valueFormat="json")))

    assert found == [
        {"id": 1, "_corrupt_record": None, "_value": b'{"id": 1}'},
        {"id": None, "_corrupt_record": "oops", "_value": b"oops"},
        {"id": None, "_corrupt_record": None, "_value": None},
    ]
