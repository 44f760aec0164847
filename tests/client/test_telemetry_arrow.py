"""Rows of Arrow are traced as batches are: one span for a table, one for a poll."""

import asyncio
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry.trace import StatusCode

import ottla
from ottla import telemetry
from ottla.broker.embedded import Broker
from ottla.telemetry.contexts import TRACEPARENT
from ottla.telemetry.rows import contexts_of_rows
from tests.client.test_telemetry import PATIENCE_S, Traces, broker, ids, topic, traces

__all__ = ["broker", "topic", "traces"]

ROWS = pa.table({"value": pa.array([b"x"] * 1_000, pa.binary())})


def producing(broker: Broker, traces: Traces, **how: Any) -> ottla.Producer[bytes, bytes]:
    tracing = telemetry.ProducerTracing(traces.provider, **how)
    return ottla.Producer(broker.bootstrap_servers, interceptors=[tracing])


def read(broker: Broker, topic: str, *interceptors: Any) -> pa.RecordBatch:
    with ottla.Consumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        interceptors=interceptors,
    ) as consumer:
        rows = consumer.poll_arrow(PATIENCE_S)
        assert rows is not None, "nothing came"
        return rows


def test_a_table_is_one_span_and_a_child_of_the_span_that_sent_it(
    broker: Broker, traces: Traces, topic: str
) -> None:
    with (
        traces.tracer.start_as_current_span("request") as request,
        producing(broker, traces) as producer,
    ):
        producer.send_arrow(topic, ROWS).result(PATIENCE_S)

    (sent,) = traces.named(f"send {topic}")

    assert ids(sent.parent) == ids(request.get_span_context())
    assert sent.attributes is not None
    assert sent.attributes["messaging.batch.message_count"] == 1_000
    assert sent.attributes["messaging.destination.name"] == topic
    assert sent.status.status_code is StatusCode.UNSET
    assert contexts_of_rows(read(broker, topic)) == [], "nobody asked for headers"


def test_rows_carry_the_context_of_their_sender_if_that_was_asked_for(
    broker: Broker, traces: Traces, topic: str
) -> None:
    with producing(broker, traces, arrow_headers=True) as producer:
        with traces.tracer.start_as_current_span("request") as request:
            producer.send_arrow(topic, ROWS)
        producer.send_arrow(topic, ROWS.to_batches()[0])  # outside of any span

    rows = read(broker, topic, telemetry.ConsumerTracing(traces.provider))
    with telemetry.process(rows, tracer_provider=traces.provider):
        pass

    _, lone = traces.named(f"send {topic}")
    (polled,) = traces.named(f"poll {topic}")
    (processed,) = traces.named(f"process {topic}")
    assert rows.num_rows == 2_000
    for span in (polled, processed):
        contexts = [ids(request.get_span_context()), ids(lone.context)]
        assert [ids(link.context) for link in span.links] == contexts
        assert span.attributes is not None
        assert span.attributes["messaging.batch.message_count"] == 2_000
        assert span.attributes["messaging.kafka.offset"] == 0


def test_rows_that_have_headers_keep_them(broker: Broker, traces: Traces, topic: str) -> None:
    carried = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = [[(TRACEPARENT, carried), ("kind", b"a")], [(TRACEPARENT, b"nonsense")], []]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    entries = [[{"key": key, "value": value} for key, value in row] for row in headers]
    rows = pa.table({"value": [b"1", b"2", b"3"], "headers": pa.array(entries, kind)})
    with producing(broker, traces, arrow_headers=True) as producer:
        producer.send_arrow(topic, rows)

    (context,) = contexts_of_rows(read(broker, topic))

    assert f"{context.trace_id:032x}" == carried.decode().split("-")[1]


def test_a_table_that_cannot_be_sent_says_so_in_its_span(
    broker: Broker, traces: Traces, topic: str
) -> None:
    too_large = pa.table({"value": pa.array([bytes(3_000_000)], pa.binary())})
    with producing(broker, traces) as producer:
        with pytest.raises(ottla.errors.OttlaError):
            producer.send_arrow(topic, too_large).result(PATIENCE_S)
        with pytest.raises(TypeError):
            producer.send_arrow(topic, pa.table({"value": [1.5]}))

    large, wrong = traces.named(f"send {topic}")
    for span, word in ((large, "MESSAGE_TOO_LARGE"), (wrong, "TypeError")):
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes is not None
        assert span.attributes["error.type"] == word


def test_rows_of_asyncio_are_traced_as_well(broker: Broker, traces: Traces, topic: str) -> None:
    async def work() -> None:
        servers = broker.bootstrap_servers
        sending = [telemetry.ProducerTracing(traces.provider, arrow_headers=True)]
        reading = [telemetry.ConsumerTracing(traces.provider)]
        async with ottla.AsyncProducer(servers, interceptors=sending) as producer:
            with traces.tracer.start_as_current_span("request"):
                await producer.send_arrow(topic, ROWS)
        async with ottla.AsyncConsumer(
            topic, bootstrap_servers=servers, auto_offset_reset="earliest", interceptors=reading
        ) as consumer:
            assert await consumer.poll_arrow(PATIENCE_S) is not None

    asyncio.run(work())

    (request,) = traces.named("request")
    (sent,) = traces.named(f"send {topic}")
    (polled,) = traces.named(f"poll {topic}")
    assert ids(sent.parent) == ids(polled.links[0].context) == ids(request.context)


def test_an_interceptor_that_fails_or_drops_rows_is_passed_over(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Greedy(ottla.ProducerInterceptor):
        def on_send_arrow(self, sending: ottla.SendingRows) -> None:
            sending.rows = sending.rows.slice(0, 1)

    class Broken(ottla.ConsumerInterceptor):
        def on_consume_arrow(self, rows: pa.RecordBatch) -> pa.RecordBatch:
            raise RuntimeError("broken")

    with ottla.Producer(broker.bootstrap_servers, interceptors=[Greedy()]) as producer:
        producer.send_arrow(topic, ROWS)

    assert read(broker, topic, Broken()).num_rows == 1_000
    assert "1 rows in the place of 1000" in caplog.text
    assert "broken" in caplog.text
