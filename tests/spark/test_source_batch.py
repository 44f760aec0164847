"""`spark.read.format("ottla")`, with a real Spark."""

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import ottla
from ottla.testing import TestBroker
from tests.spark.source_samples import frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_rows_are_those_of_sparks_kafka_source(
    spark: "SparkSession", broker: TestBroker, topic: str
) -> None:
    broker.create_topic(topic, partitions=2)
    with ottla.Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"v", key=b"k", partition=0, headers=[("h", b"x"), ("n", None)])
        producer.send(topic, None, key=None, partition=1)

    found = frame(spark, broker, subscribe=topic, includeHeaders="true")

    assert found.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    first, second = sorted(found.collect(), key=lambda row: row.partition)
    assert (first.key, first.value, first.topic, first.offset) == (b"k", b"v", topic, 0)
    assert [(h.key, h.value) for h in first.headers] == [("h", b"x"), ("n", None)]
    assert (second.key, second.value, second.headers) == (None, None, [])


def test_the_schema_chooses_columns_and_text(
    spark: "SparkSession", broker: TestBroker, topic: str
) -> None:
    broker.produce(topic, "espresso", key="table-1")

    found = frame(spark, broker, subscribe=topic, schema="value string, key string, offset long")

    assert [tuple(row) for row in found.collect()] == [("espresso", "table-1", 0)]


def test_a_part_of_a_topic_is_read_in_as_many_tasks_as_wanted(
    spark: "SparkSession", broker: TestBroker, topic: str
) -> None:
    broker.produce(topic, *[f"{n}" for n in range(100)])

    found = frame(
        spark,
        broker,
        assign=json.dumps({topic: [0]}),
        startingOffsets=json.dumps({topic: {"0": 10}}),
        endingOffsets=json.dumps({topic: {"0": 60}}),
        minPartitions="5",
    )

    assert found.rdd.getNumPartitions() == 5
    assert [row.offset for row in found.orderBy("offset").collect()] == list(range(10, 60))


def test_nothing_is_read_of_an_empty_topic(
    spark: "SparkSession", broker: TestBroker, topic: str
) -> None:
    broker.create_topic(topic)

    assert frame(spark, broker, subscribe=topic).count() == 0


def test_json_is_decoded_in_the_source(
    spark: "SparkSession", broker: TestBroker, topic: str
) -> None:
    broker.produce(topic, '{"id": 1, "price": 2.5, "tags": ["a"]}', "oops", key="k")

    found = frame(
        spark,
        broker,
        subscribe=topic,
        valueFormat="json",
        schema="id long, price double, tags array<string>, _key string, _corrupt_record string",
    )

    assert [tuple(row) for row in found.collect()] == [
        (1, 2.5, ["a"], "k", None),
        (None, None, None, "k", "oops"),
    ]


def test_an_option_that_nobody_knows_is_an_error_with_a_suggestion(
    spark: "SparkSession", broker: TestBroker, topic: str
) -> None:
    with pytest.raises(PySparkException, match="did you mean startingOffsets"):
        frame(spark, broker, subscribe=topic, startingOffset="earliest")
