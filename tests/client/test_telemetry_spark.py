"""Tasks of Spark are traced where the environment asks for it, as parts of their micro-batch."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode
from pyspark.sql.types import BinaryType, StructField, StructType

import ottla
from ottla.broker.embedded import Broker
from ottla.model import TopicPartition
from ottla.spark import tracing
from ottla.spark.options import SourceOptions
from ottla.spark.sink.brokers import close_kept
from ottla.spark.sink.decisions import Names
from ottla.spark.sink.rows import Rows
from ottla.spark.sink.tasks import Job, write_through
from ottla.spark.source.columns import default_schema
from ottla.spark.source.fetching import close_clients
from ottla.spark.source.partition import RangePartition
from ottla.spark.source.planning import OffsetRange
from ottla.spark.source.reading import read_range
from ottla.telemetry.rows import contexts_of_rows
from ottla.telemetry.workers import EXPORTERS, NamedIds, Workers, named
from tests.client.test_telemetry import PATIENCE_S, Traces, broker, ids, topic

__all__ = ["broker", "topic"]

ROWS = pa.RecordBatch.from_arrays([pa.array([b"x"] * 100, pa.binary())], names=["value"])
VALUES = StructType([StructField("value", BinaryType())])


class WorkerTraces(Traces):
    """What one worker traces."""

    def __init__(self) -> None:
        super().__init__()
        ids = NamedIds()
        self.provider = TracerProvider(id_generator=ids)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.workers = Workers(self.provider, ids)


@pytest.fixture
def traces() -> Iterator[WorkerTraces]:
    made = WorkerTraces()
    tracing.use(made.workers)
    yield made
    tracing.use(None)
    close_clients()
    close_kept()


def written(broker: Broker, topic: str, *, headers: bool) -> None:
    """A task writes a hundred rows."""
    client = {"bootstrap.servers": broker.bootstrap_servers}
    with tracing.writing("query", 7, topic, headers) as interceptors:
        job = Job(client, Names("sink"), None, may_wait=False, interceptors=interceptors)
        assert write_through(job, Rows(VALUES, topic), iter([ROWS])) == 100


def read(broker: Broker, topic: str, end_offset: int) -> int:
    """A task reads rows: how many."""
    options = SourceOptions.of(
        {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    )
    with ottla.Admin(broker.bootstrap_servers) as admin:
        topic_id = admin.describe_topic(topic).topic_id
    part = RangePartition(OffsetRange(TopicPartition(topic, 0), 0, end_offset), str(topic_id))
    return sum(rows.num_rows for rows in read_range(options, default_schema(options), part))


def test_what_a_task_writes_is_a_part_of_its_batch(
    broker: Broker, topic: str, traces: WorkerTraces
) -> None:
    written(broker, topic, headers=True)

    (task,) = traces.named(f"write {topic}")
    (sent,) = traces.named(f"send {topic}")
    assert task.kind is SpanKind.PRODUCER
    assert ids(task.parent) == ids(named("query 7"))
    assert ids(sent.parent) == ids(task.context)
    assert task.attributes is not None
    assert task.attributes[tracing.QUERY_ID] == "query"
    assert task.attributes[tracing.BATCH_ID] == 7
    with ottla.Consumer(
        topic, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        rows = consumer.poll_arrow(PATIENCE_S)
    assert rows is not None
    (carried,) = contexts_of_rows(rows)
    assert ids(carried) == ids(task.context)


def test_what_a_task_reads_is_linked_to_whoever_sent_it(
    broker: Broker, topic: str, traces: WorkerTraces
) -> None:
    written(broker, topic, headers=True)
    written(broker, topic, headers=False)
    first, _ = traces.named(f"write {topic}")

    assert read(broker, topic, 200) == 200

    (task,) = traces.named(f"poll {topic}")
    assert task.parent is None, "it is no task of a stream"
    assert [ids(link.context) for link in task.links] == [ids(first.context)]
    assert task.attributes is not None
    assert task.attributes["messaging.batch.message_count"] == 200
    assert task.attributes["messaging.destination.partition.id"] == "0"
    assert task.attributes[tracing.END_OFFSET] == 200


def test_the_end_of_a_batch_is_the_span_that_its_tasks_point_to(traces: WorkerTraces) -> None:
    with tracing.ending("commit", "query", 7, 1_700_000_000_000, [3, 4]):
        pass
    with (
        pytest.raises(ValueError, match="too late"),
        tracing.ending("commit", "query", 8, 0, []),
    ):
        raise ValueError("too late")

    done, failed = traces.named("commit batch")
    assert ids(done.context) == ids(named("query 7"))
    assert done.parent is None
    assert done.start_time == 1_700_000_000_000 * 1_000_000
    assert done.attributes is not None
    assert done.attributes["messaging.batch.message_count"] == 7
    assert ids(failed.context) == ids(named("query 8"))
    assert failed.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize(
    ("environment", "is_asked"),
    [
        ({}, False),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1"}, False),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_environment_says_whether_anything_is_traced(
    environment: dict[str, str], is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*tracing.ASKED_BY, "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert tracing.is_asked_for() == is_asked


def test_an_exporter_that_is_missing_is_told_of_once_and_work_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "nowhere")
    tracing.forget()
    try:
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                with tracing.ending("commit", "query", 7, 0, []):
                    pass
    finally:
        tracing.use(None)
    (told,) = caplog.messages
    assert "no exporter called nowhere" in told


def test_an_exporter_that_is_broken_is_told_of_and_work_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "broken_exporter.py").write_text("raise ImportError('of another version')")
    about = tmp_path / "broken_exporter-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-exporter\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{EXPORTERS}]\nbroken = broken_exporter:Exporter\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "broken")
    tracing.forget()
    try:
        with caplog.at_level(logging.WARNING), tracing.ending("commit", "query", 7, 0, []):
            pass
    finally:
        tracing.use(None)
    assert "of another version" in caplog.text


@pytest.mark.parametrize("work", ["pass", "raise ValueError"])
def test_a_process_that_is_traced_by_its_environment_sends_before_it_is_killed(work: str) -> None:
    """The exporter is the SDK's own, which prints."""
    program = (
        "import os\n"
        "from ottla.spark import tracing\n"
        "try:\n"
        f"    with tracing.writing('query', 7, 'orders', False): {work}\n"
        "except ValueError: pass\n"
        "os._exit(0)\n"
    )
    environment = {**os.environ, "OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "false"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert '"name": "write orders"' in done.stdout


def test_nothing_of_opentelemetry_is_imported_where_nobody_asks() -> None:
    program = (
        "import sys\n"
        "from ottla.spark import tracing\n"
        "with tracing.writing('query', 7, 'orders', False) as interceptors:\n"
        "    assert interceptors == []\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    environment = {name: v for name, v in os.environ.items() if not name.startswith("OTEL_")}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)
