"""`spark.readStream.format("ottla")`, with a real Spark: restarts, changes of topics, limits."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import ottla
from ottla.testing import TestBroker
from tests.spark.source_samples import RUN_TIMEOUT_S, Sink, run_available, start, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MAX_RUNS = 5


def write(broker: TestBroker, topic: str, first: int, last: int, partition: int = 0) -> list[str]:
    values = [f"{topic} {partition} {n}" for n in range(first, last)]
    broker.produce(topic, *values, partition=partition)
    return values


def test_a_query_goes_on_where_it_was_and_finds_new_partitions(
    spark: "SparkSession", broker: TestBroker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic)
    written = write(broker, topic, 0, 20)
    given = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "8"}
    sink = Sink()

    query = run_available(stream(spark, broker, **given), sink, tmp_path)
    assert [len(rows) for rows in sink.batches.values()] == [8, 8, 4]
    assert sink.values == written

    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.add_partitions(topic, total=2)
    written += write(broker, topic, 20, 25) + write(broker, topic, 0, 3, partition=1)
    again = run_available(stream(spark, broker, **given), sink, tmp_path)

    assert sorted(sink.values) == sorted(written)
    assert again.id == query.id
    progress = again.lastProgress
    assert progress is not None
    assert f'"id": "{broker_topic_id(broker, topic)}"' in str(progress.sources[0].endOffset)


def broker_topic_id(broker: TestBroker, topic: str) -> str:
    with ottla.Admin(broker.bootstrap_servers) as admin:
        return admin.describe_topic(topic).topic_id


def test_a_first_batch_that_failed_is_run_again_from_where_it_began(
    spark: "SparkSession", broker: TestBroker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic)
    write(broker, topic, 0, 5)
    sink = Sink()
    sink.fails = True
    with pytest.raises(PySparkException, match="told to fail"):
        run_available(stream(spark, broker, subscribe=topic), sink, tmp_path)
    missed = write(broker, topic, 5, 9)
    sink.fails = False

    run_available(stream(spark, broker, subscribe=topic), sink, tmp_path)

    assert sink.values == missed


def test_a_topic_that_was_made_anew_ends_a_query_with_its_name(
    spark: "SparkSession", broker: TestBroker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic)
    write(broker, topic, 0, 5)
    given = {"subscribe": topic, "startingOffsets": "earliest"}
    sink = Sink()
    run_available(stream(spark, broker, **given), sink, tmp_path)
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic)
    anew = write(broker, topic, 10, 18)

    with pytest.raises(PySparkException, match=f"topic '{topic}' was deleted and created anew"):
        run_available(stream(spark, broker, **given), sink, tmp_path)

    going_on = Sink()
    run_available(stream(spark, broker, failOnDataLoss="false", **given), going_on, tmp_path)
    assert going_on.values == anew


def test_retention_that_passed_a_checkpoint_ends_a_query_with_the_offsets(
    spark: "SparkSession", broker: TestBroker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic)
    write(broker, topic, 0, 5)
    given = {"subscribe": topic, "startingOffsets": "earliest"}
    run_available(stream(spark, broker, **given), Sink(), tmp_path)
    rest = write(broker, topic, 5, 15)[3:]
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.delete_records({ottla.TopicPartition(topic, 0): 8})

    with pytest.raises(PySparkException, match="begins at offset 8, and offsets 5 to 7"):
        run_available(stream(spark, broker, **given), Sink(), tmp_path)

    going_on = Sink()
    run_available(stream(spark, broker, failOnDataLoss="false", **given), going_on, tmp_path)
    assert going_on.values == rest


def test_a_lost_checkpoint_is_made_up_for_by_the_group(
    spark: "SparkSession", broker: TestBroker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic)
    write(broker, topic, 0, 5)
    given = {"subscribe": topic, "startingOffsets": "group", "kafka__group__id": f"g-{topic}"}
    with ottla.Admin(broker.bootstrap_servers) as admin:
        # A driver commits in passing: on a slow machine it may leave it to the next run.
        for _ in range(MAX_RUNS):
            run_available(stream(spark, broker, **given), Sink(), tmp_path / "first")
            if admin.list_group_offsets(f"g-{topic}"):
                break
        assert admin.lag(f"g-{topic}").total == 0
    rest = write(broker, topic, 5, 8)
    sink = Sink()

    run_available(stream(spark, broker, **given), sink, tmp_path / "second")

    assert sink.values == rest


class Following:
    """A sink that tells when it has seen enough."""

    def __init__(self) -> None:
        self.sink = Sink()
        self._changed = threading.Condition()

    def __call__(self, rows: "DataFrame", batch_id: int) -> None:
        with self._changed:
            self.sink(rows, batch_id)
            self._changed.notify_all()

    def wait_for(self, is_enough: Callable[[], bool], query: "StreamingQuery") -> None:
        """Wait for it; raise what ended the query, if something did."""
        deadline_s = time.monotonic() + RUN_TIMEOUT_S
        with self._changed:
            while not self._changed.wait_for(is_enough, 1.0):
                if (error := query.exception()) is not None:
                    raise error
                assert time.monotonic() < deadline_s, self.sink.values


def test_a_running_query_finds_topics_of_a_pattern_and_outlives_a_restart_of_the_broker(
    spark: "SparkSession", topic: str, tmp_path: Path
) -> None:
    with TestBroker() as broker:
        broker.create_topic(f"{topic}-a")
        following = Following()
        query = start(stream(spark, broker, subscribePattern=f"{topic}-.*"), following, tmp_path)
        try:
            following.wait_for(lambda: 0 in following.sink.batches, query)
            written = write(broker, f"{topic}-a", 0, 3)
            following.wait_for(lambda: len(following.sink.values) == 3, query)
            broker.restart()
            written += write(broker, f"{topic}-a", 3, 5)
            broker.create_topic(f"{topic}-b")
            written += write(broker, f"{topic}-b", 0, 4)
            following.wait_for(lambda: len(following.sink.values) >= 9, query)
        finally:
            query.stop()

        assert sorted(following.sink.values) == sorted(written)
