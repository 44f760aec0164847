"""Traces go through the broker: in headers, with a span for each batch on either side."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    INVALID_SPAN_CONTEXT,
    SpanContext,
    SpanKind,
    StatusCode,
    use_span,
)

import ottla
from ottla import telemetry
from ottla.broker.embedded import Broker
from ottla.client.headers import Headers
from ottla.client.records import Span
from ottla.model import TopicPartition
from ottla.telemetry.contexts import MAX_LINKS, TRACEPARENT, contexts_in, links_to

PATIENCE_S = 60.0


class Traces:
    """Everything that is traced in one test."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans that have ended."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def traces() -> Traces:
    return Traces()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    with ottla.Admin(broker.bootstrap_servers) as admin:
        name = f"{request.node.name[:60]}"
        admin.create_topic(name, partitions=1)
    return name


def ids(context: SpanContext | None) -> tuple[int, int]:
    """What makes a context; where it was seen does not matter."""
    assert context is not None
    return context.trace_id, context.span_id


def producing(broker: Broker, traces: Traces, **settings: Any) -> ottla.Producer[bytes, bytes]:
    tracing = telemetry.ProducerTracing(traces.provider)
    return ottla.Producer(broker.bootstrap_servers, interceptors=[tracing], **settings)


def read_batch(
    broker: Broker,
    topic: str,
    count: int,
    look: Callable[[ottla.Batch[Any, Any]], None],
    **more: Any,
) -> None:
    """Hand all that is in a topic to `look`, batch by batch."""
    with ottla.Consumer(
        topic, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", **more
    ) as consumer:
        seen = 0
        while seen < count:
            batch = consumer.poll(PATIENCE_S)
            assert len(batch), "nothing came"
            seen += len(batch)
            look(batch)


def test_a_batch_is_one_span_and_a_child_of_the_span_that_sent_it(
    broker: Broker, traces: Traces, topic: str
) -> None:
    with traces.tracer.start_as_current_span("request") as request:  # noqa: SIM117
        with producing(broker, traces, linger_ms=30_000) as producer:
            for _ in range(50):
                producer.send(topic, b"x")

    (sent,) = traces.named(f"send {topic}")

    assert sent.kind is SpanKind.PRODUCER
    assert ids(sent.parent) == ids(request.get_span_context())
    assert sent.attributes is not None
    assert dict(sent.attributes) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.batch.message_count": 50,
        "messaging.kafka.offset": 0,
    }
    assert sent.start_time is not None
    assert sent.end_time is not None
    assert sent.start_time <= sent.end_time


def test_a_consumers_spans_are_linked_to_all_who_sent(
    broker: Broker, traces: Traces, topic: str
) -> None:
    senders = [traces.tracer.start_span(f"request {number}") for number in range(3)]
    with producing(broker, traces, linger_ms=30_000) as producer:
        for sender in senders:
            with use_span(sender):
                producer.send(topic, b"x")
    contexts = [ids(sender.get_span_context()) for sender in senders]
    (sent,) = traces.named(f"send {topic}")
    assert sent.parent is None
    assert [ids(link.context) for link in sent.links] == contexts

    def look(batch: ottla.Batch[Any, Any]) -> None:
        with telemetry.process(batch, tracer_provider=traces.provider):
            pass

    reading = telemetry.ConsumerTracing(traces.provider)
    read_batch(broker, topic, 3, look, group_id=topic, interceptors=[reading])

    (polled,) = traces.named(f"poll {topic}")
    (processed,) = traces.named(f"process {topic}")
    for span, kind in ((polled, SpanKind.CLIENT), (processed, SpanKind.CONSUMER)):
        assert span.kind is kind
        assert [ids(link.context) for link in span.links] == contexts
        assert span.attributes is not None
        assert span.attributes["messaging.batch.message_count"] == 3
        assert span.attributes["messaging.consumer.group.name"] == topic
        assert span.attributes["messaging.kafka.offset"] == 0
    (committed,) = traces.named(f"commit {topic}")
    assert committed.attributes is not None
    assert committed.attributes["messaging.operation.type"] == "settle"


def test_what_is_sent_while_processing_continues_the_trace(
    broker: Broker, traces: Traces, topic: str
) -> None:
    with producing(broker, traces) as producer:
        producer.send(topic, b"x")

        def forward(batch: ottla.Batch[Any, Any]) -> None:
            with telemetry.process(batch[0], tracer_provider=traces.provider):
                producer.send(f"{topic}.next", b"y")

        read_batch(broker, topic, 1, forward)

    (sent,) = traces.named(f"send {topic}")
    (processed,) = traces.named(f"process {topic}")
    (forwarded,) = traces.named(f"send {topic}.next")
    assert ids(processed.links[0].context) == ids(sent.context), "it was sent outside of any span"
    assert ids(forwarded.parent) == ids(processed.context)


def test_what_was_sent_outside_of_any_span_has_one_that_ends_whoever_it_travels_with(
    broker: Broker, traces: Traces, topic: str
) -> None:
    with producing(broker, traces, linger_ms=60_000) as producer:
        producer.send(topic, b"alone")
        with traces.tracer.start_as_current_span("request"):
            producer.send(topic, b"in a span")

    (request,) = traces.named("request")
    alone, both = traces.named(f"send {topic}")
    assert alone.parent is None
    assert [ids(link.context) for link in both.links] == [ids(alone.context), ids(request.context)]


def test_clients_of_asyncio_are_traced_as_well(broker: Broker, traces: Traces, topic: str) -> None:
    async def work() -> None:
        servers = broker.bootstrap_servers
        sending = [telemetry.ProducerTracing(traces.provider)]
        reading = [telemetry.ConsumerTracing(traces.provider)]
        async with ottla.AsyncProducer(servers, interceptors=sending) as producer:
            with traces.tracer.start_as_current_span("request"):
                await producer.send(topic, b"x")
        async with ottla.AsyncConsumer(
            topic, bootstrap_servers=servers, auto_offset_reset="earliest", interceptors=reading
        ) as consumer:
            assert len(await consumer.poll(PATIENCE_S)) == 1

    asyncio.run(work())

    (request,) = traces.named("request")
    (sent,) = traces.named(f"send {topic}")
    (polled,) = traces.named(f"poll {topic}")
    assert ids(sent.parent) == ids(polled.links[0].context) == ids(request.context)


def test_a_record_that_carries_a_context_keeps_it(
    broker: Broker, traces: Traces, topic: str
) -> None:
    carried = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with traces.tracer.start_as_current_span("mirror"), producing(broker, traces) as producer:
        producer.send(topic, b"x", headers={TRACEPARENT: carried, "tracestate": "vendor=1"})
    headers: list[Headers] = []

    read_batch(broker, topic, 1, lambda batch: headers.append(batch.raw[0].headers))

    assert headers[0].get_all(TRACEPARENT) == [carried.encode()]
    (context,) = contexts_in(headers)
    assert f"{context.span_id:x}" == "b7ad6b7169203331"
    assert context.trace_state.get("vendor") == "1"


def test_a_batch_that_fails_says_so_in_its_span(broker: Broker, traces: Traces, topic: str) -> None:
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.alter_config(topic=topic, set={"max.message.bytes": 200})
    producer = producing(broker, traces)
    refused = producer.send(topic, b"x" * 1000)
    with pytest.raises(ottla.DeliveryError):
        refused.result(PATIENCE_S)
    producer.close()

    (sent,) = traces.named(f"send {topic}")

    assert sent.status.status_code is StatusCode.ERROR
    assert sent.attributes is not None
    assert sent.attributes["error.type"] == "MESSAGE_TOO_LARGE"
    assert "messaging.kafka.offset" not in sent.attributes


def test_work_that_raises_is_told_and_goes_on(traces: Traces) -> None:
    with (
        pytest.raises(ValueError, match="burnt"),
        telemetry.process(ottla.Batch(), tracer_provider=traces.provider),
    ):
        raise ValueError("burnt")

    (processed,) = traces.named("process")
    assert processed.status.status_code is StatusCode.ERROR
    assert [event.name for event in processed.events] == ["exception"]


def test_a_batch_of_which_nothing_is_left_is_processed_all_the_same(traces: Traces) -> None:
    left = ottla.Batch[Any, Any](spans={TopicPartition("orders", 0): Span(0, 5)})
    with telemetry.process(left, tracer_provider=traces.provider):
        pass

    (span,) = traces.named("process")
    assert span.attributes is not None
    assert span.attributes["messaging.batch.message_count"] == 0


def test_nonsense_in_a_header_is_no_context() -> None:
    odd = [Headers({TRACEPARENT: value}) for value in (b"\xff\x00", b"", b"00-0-0-01")]
    assert contexts_in([*odd, Headers({TRACEPARENT: None}), Headers()]) == []


def test_links_are_bounded() -> None:
    assert len(links_to([INVALID_SPAN_CONTEXT] * (MAX_LINKS + 1))) == MAX_LINKS


def test_without_an_sdk_nothing_is_written(broker: Broker, topic: str) -> None:
    tracing = telemetry.ProducerTracing()
    with ottla.Producer(broker.bootstrap_servers, interceptors=[tracing]) as producer:
        producer.send(topic, b"x")
    headers: list[Headers] = []

    read_batch(broker, topic, 1, lambda batch: headers.append(batch.raw[0].headers))

    assert headers == [Headers()]


def test_nothing_else_imports_opentelemetry() -> None:
    script = (
        "import sys, ottla, ottla.cli.main; ottla.Producer, ottla.Consumer, ottla.Broker;"
        "raise SystemExit('opentelemetry' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE_S)


def test_who_lacks_the_api_is_told_how_to_get_it() -> None:
    script = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "try: import ottla.telemetry\n"
        "except ModuleNotFoundError as error: print(*error.__notes__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        timeout=PATIENCE_S,
        capture_output=True,
        text=True,
    )
    assert "pip install 'ottla[otel]'" in done.stdout
