"""Spark is traced where its processes are told to: every span of a micro-batch is in one trace."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.spark import OttlaDataSource
from ottla.spark.tracing import BATCH_ID, QUERY_ID
from ottla.testing import TestBroker
from tests.spark import span_file
from tests.spark.sink_world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Span = dict[str, Any]


@pytest.fixture
def traced(spark: "SparkSession", tmp_path: Path) -> "SparkSession":
    """A session whose format runs in processes with an environment of its own."""
    environment = spark.sparkContext.environment
    before = dict(environment)
    environment.update(span_file.announced(tmp_path))
    try:
        session = spark.newSession()
        session.dataSource.register(OttlaDataSource)
    finally:
        environment.clear()
        environment.update(before)
    return session


def named(spans: list[Span], name: str) -> Span:
    (found,) = [span for span in spans if span["name"] == name]
    return found


def assert_is_whole(root: Span, *parts: Span) -> None:
    """All of them are one trace, which begins with `root`."""
    assert root["parent_id"] is None
    for part in parts:
        assert part["context"]["trace_id"] == root["context"]["trace_id"]
        assert part["parent_id"] == root["context"]["span_id"]
        assert root["start_time"] <= part["start_time"] < part["end_time"] <= root["end_time"]
        for name in (QUERY_ID, BATCH_ID):
            assert part["attributes"][name] == root["attributes"][name]


def test_a_job_and_a_micro_batch_are_a_trace_each_and_records_lead_from_one_to_the_other(
    traced: "SparkSession", broker: TestBroker, topic: str, tmp_path: Path
) -> None:
    world = World(broker.bootstrap_servers, tmp_path)
    before, after = f"{topic}-in", f"{topic}-out"
    world.make(before)
    world.make(after)
    written = traced.sql("SELECT 'espresso' AS value").write.format("ottla").mode("append")
    options = {"kafka.bootstrap.servers": world.servers, "topic": before, "traceHeaders": "true"}
    written.options(**options).save()
    world.run(traced, topic, sink={"traceHeaders": "true"})

    spans = span_file.spans_in(tmp_path)
    first_write, second_write = named(spans, f"write {before}"), named(spans, f"write {after}")
    read = named(spans, f"poll {before}")
    job, batch = [span for span in spans if span["name"] == "commit batch"]
    assert_is_whole(job, first_write)
    assert_is_whole(batch, read, second_write)
    assert named(spans, f"send {after}")["parent_id"] == second_write["context"]["span_id"]
    (link,) = read["links"]
    assert link["context"]["span_id"] == first_write["context"]["span_id"]
    (record,) = broker.records(after)
    ids = (second_write["context"][name].removeprefix("0x") for name in ("trace_id", "span_id"))
    assert record.headers.get("traceparent") == "00-{}-{}-01".format(*ids).encode()
    counts = [span["attributes"]["messaging.batch.message_count"] for span in (job, batch, read)]
    assert counts == [1, 1, 1]
