"""Writing from Spark: columns, topics, deliveries, and what is told of mistakes."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

import ottla
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.spark import foreach_batch
from ottla.spark.sink.decisions import read_ledger
from ottla.testing import TestBroker
from tests.kafka_cluster import OpenBroker
from tests.spark.sink_world import World, finish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def two_phase_broker(open_broker: OpenBroker) -> Iterator[TestBroker]:
    with open_broker({"transaction.two.phase.commit.enable": True}) as broker:
        yield broker


@pytest.fixture
def world(two_phase_broker: TestBroker, tmp_path: Path) -> World:
    return World(two_phase_broker.bootstrap_servers, tmp_path)


def write(frame: "DataFrame", world: World, **options: Any) -> None:
    given = {"kafka.bootstrap.servers": world.servers, **options}
    frame.write.format("ottla").mode("append").options(**given).save()


def read_all(world: World, topic: str) -> list[ottla.Record[Any, Any]]:
    found: list[ottla.Record[Any, Any]] = []
    with ottla.Consumer(
        topic,
        bootstrap_servers=world.servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        count = len(world.records(topic))
        while len(found) < count:
            found += consumer.poll(1)
    return found


def test_every_column_of_a_record_is_written(
    spark: "SparkSession", world: World, topic: str
) -> None:
    world.make(topic, 4)
    frame = spark.sql(
        """
        SELECT CAST('k' AS BINARY) AS key, 'one' AS value, 3 AS partition,
               array(named_struct('key', 'h', 'value', CAST('x' AS BINARY))) AS headers, 9 AS other
        UNION ALL
        SELECT CAST(NULL AS BINARY), CAST(NULL AS STRING), 1, NULL, 9
        """
    )

    write(frame, world, topic=topic)

    found = sorted(read_all(world, topic), key=lambda record: record.partition)
    assert [(r.partition, r.key, r.value, dict(r.headers)) for r in found] == [
        (1, None, None, {}),
        (3, b"k", b"one", {"h": b"x"}),
    ]


def test_rows_without_a_partition_go_where_their_keys_say(
    spark: "SparkSession", world: World, topic: str
) -> None:
    world.make(topic, 4)
    frame = spark.sql(
        "SELECT 'k' AS key, 'a' AS value, CAST(NULL AS INT) AS partition "
        "UNION ALL SELECT 'k', 'b', 2"
    )
    with ottla.Producer(world.servers) as producer:
        home = producer.send(topic, b"c", key=b"k").result(60).partition

    write(frame, world, topic=topic)

    found = {record.value: record.partition for record in read_all(world, topic)}
    assert found == {b"a": home, b"b": 2, b"c": home}


def test_a_column_says_the_topic_of_each_row_and_the_option_is_stronger(
    spark: "SparkSession", world: World, topic: str
) -> None:
    first, second = f"{topic}-a", f"{topic}-b"
    for name in (first, second):
        world.make(name)
    frame = spark.createDataFrame(
        [(first, "1"), (second, "2"), (first, "3")], "topic string, value string"
    )

    write(frame, world)
    write(frame, world, topic=second)

    assert world.committed(first) == ["1", "3"]
    assert world.committed(second) == ["1", "2", "2", "3"]


def test_many_rows_of_several_tasks_are_there_at_once_and_compressed(
    spark: "SparkSession", world: World, topic: str
) -> None:
    world.make(topic, 3)
    frame = spark.range(0, 20_000, 1, 4).selectExpr(
        "CAST(id AS STRING) AS key", "repeat('x', 100) AS value"
    )

    write(frame, world, topic=topic, compression="zstd", transactionalIdPrefix=topic)

    assert len(world.records(topic)) == 20_000
    (decision,) = read_ledger(world.servers, topic)
    assert decision.row_count == 20_000
    assert len(decision.participants) == 4
    assert world.open_transactions(topic) == []


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ("'a' AS key", {"topic": "t"}, "there is no column value"),
        ("'a' AS value, CAST(NULL AS STRING) AS topic", {}, "null in the column topic"),
        ("'a' AS value", {"topic": "t", "kafka.transactional.id": "x"}, "is the sink's own"),
        ("'a' AS value", {"topic": "t", "kafka.acks": "1", "delivery": "exactly-once"}, "acks"),
    ],
)
def test_what_cannot_be_written_is_told(
    spark: "SparkSession", world: World, columns: str, options: dict[str, str], told: str
) -> None:
    world.make("t")
    with pytest.raises(PySparkException, match=told):
        write(spark.sql(f"SELECT {columns}"), world, **options)


def test_a_partition_that_does_not_exist_is_told_and_nothing_is_written(
    spark: "SparkSession", world: World, topic: str
) -> None:
    world.make(topic, 2)
    with pytest.raises(PySparkException, match="partitions 0 to 1"):
        write(spark.sql("SELECT 'a' AS value, 2 AS partition"), world, topic=topic)

    assert world.committed(topic) == []
    assert world.open_transactions(topic) == []


def test_a_query_copies_a_topic_with_its_offsets(
    spark: "SparkSession", world: World, topic: str
) -> None:
    wanted = world.fill(f"{topic}-in", partitions=3, rows=range(10))
    world.make(f"{topic}-out", 3)

    world.run(spark, topic, source={"maxOffsetsPerTrigger": 12})

    assert world.committed(f"{topic}-out") == wanted
    ends = {TopicPartition(f"{topic}-in", p): 10 for p in range(3)}
    assert world.group_offsets(f"{topic}-group") == ends
    ledger = read_ledger(world.servers, topic)
    assert [decision.batch_id for decision in ledger] == [0, 1, 2]
    assert sum(decision.row_count for decision in ledger) == 30
    assert dict(ledger[-1].groups) == {f"{topic}-group": ends}
    assert world.open_transactions(topic) == []


def test_a_query_without_a_prefix_is_named_by_its_checkpoint(
    spark: "SparkSession", world: World, topic: str
) -> None:
    wanted = world.fill(f"{topic}-in", partitions=1, rows=range(5))
    world.make(f"{topic}-out")
    frame = world.source(spark, f"{topic}-in", {}).select("value")
    options = {"kafka.bootstrap.servers": world.servers, "topic": f"{topic}-out"}
    writer = frame.writeStream.format("ottla").options(**options)

    query = writer.option("checkpointLocation", str(world.checkpoint(topic)))
    started = query.trigger(availableNow=True).start()
    finish(started)

    assert world.committed(f"{topic}-out") == wanted
    assert [d.query_id for d in read_ledger(world.servers, str(started.id))] == [str(started.id)]


def test_exactly_once_needs_a_name_that_lasts(
    spark: "SparkSession", world: World, topic: str
) -> None:
    world.fill(f"{topic}-in", partitions=1, rows=range(1))
    frame = world.source(spark, f"{topic}-in", {}).select("value")
    options = {"kafka.bootstrap.servers": world.servers, "topic": topic}
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(world.folder / "checkpoints"))
    try:
        with pytest.raises(PySparkException, match="a name that lasts"):
            finish(frame.writeStream.format("ottla").options(**options).start())
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


def test_at_least_once_writes_without_transactions(
    spark: "SparkSession", world: World, topic: str
) -> None:
    wanted = world.fill(f"{topic}-in", partitions=2, rows=range(10))
    world.make(f"{topic}-out", 2)

    world.run(spark, topic, sink={"delivery": "at-least-once"})

    assert world.committed(f"{topic}-out") == wanted
    with pytest.raises(ottla.errors.UnknownTopicError) as told:
        read_ledger(world.servers, topic)
    assert told.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_a_function_for_foreach_batch_writes_what_changes(
    spark: "SparkSession", world: World, topic: str, mode: str
) -> None:
    world.fill(f"{topic}-in", partitions=2, rows=range(4))
    world.make(f"{topic}-out", 2)
    rows = world.source(spark, f"{topic}-in", {"maxOffsetsPerTrigger": 4})
    counts = rows.groupBy("partition").count()
    frame = counts.selectExpr("CAST(partition AS STRING) AS key", "CAST(count AS STRING) AS value")
    options = {
        "kafka.bootstrap.servers": world.servers,
        "topic": f"{topic}-out",
        "checkpointLocation": str(world.checkpoint(topic)),
    }

    query = frame.writeStream.outputMode(mode).foreachBatch(foreach_batch(options))
    started = query.options(**options).trigger(availableNow=True).start()
    finish(started)

    found: dict[bytes, list[int]] = {}
    for record in read_all(world, f"{topic}-out"):
        found.setdefault(record.key, []).append(int(record.value))
    assert {key: sorted(values) for key, values in found.items()} == {b"0": [2, 4], b"1": [2, 4]}
    assert [d.batch_id for d in read_ledger(world.servers, str(started.id))] == [0, 1]
