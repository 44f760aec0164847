"""Headers, serdes, interceptors and settings: what happens to a record before it is in a batch."""

import dataclasses
import json
import logging
import pickle
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from pydantic import BaseModel

import ottla
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.delivery import Delivery, Outcome
from ottla.client.producer.outgoing import (
    Outgoing,
    ProducerInterceptor,
    ProducerRecord,
    SentBatch,
    milliseconds,
    size_of,
)
from ottla.client.producer.settings import ProducerSettings
from ottla.client.serdes import BYTES, JSON, UNSET, UTF8, SerContext, serde_of
from ottla.errors import ConfigError, SerializationError
from ottla.records.builder import record_size_bound

NOW_MS = 1_700_000_000_000
CONTEXT = SerContext("orders", "value", ottla.Headers())
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "drink", "type": "string"}],
}


class Order(BaseModel):
    id: int


def outgoing(*interceptors: Any, key: Any = BYTES, value: Any = BYTES) -> Outgoing:
    return Outgoing(key, value, interceptors, lambda: NOW_MS)


def test_headers_keep_order_and_duplicates() -> None:
    headers = ottla.Headers([("a", "1"), ("b", b"2"), ("a", None)])
    assert list(headers) == [("a", b"1"), ("b", b"2"), ("a", None)]
    assert headers.get("a") is None
    assert headers.get("b") == b"2"
    assert headers.get("c", b"none") == b"none"
    assert headers.get_all("a") == [b"1", None]
    assert (len(headers), headers[1], headers[:1]) == (3, ("b", b"2"), (("a", b"1"),))


def test_headers_come_from_a_mapping_too_and_never_change() -> None:
    headers = ottla.Headers({"a": "1"})
    assert list(headers.plus("b", "2")) == [("a", b"1"), ("b", b"2")]
    assert list(headers) == [("a", b"1")]
    assert pickle.loads(pickle.dumps(headers)) == headers
    assert hash(headers) == hash(ottla.Headers([("a", b"1")]))


@pytest.mark.parametrize("wrong", [[(1, b"x")], [("a", 1)], {"a": 1.5}])
def test_headers_are_names_and_bytes(wrong: Any) -> None:
    with pytest.raises(TypeError):
        ottla.Headers(wrong)


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        (BYTES, b"x", b"x"),
        (UTF8, "žluť", "žluť".encode()),
        (JSON, {"a": [1, "ž"]}, '{"a":[1,"ž"]}'.encode()),
        (ottla.pydantic(Order), Order(id=7), b'{"id":7}'),
    ],
)
def test_a_serde_has_both_directions_and_none_is_null(serde: Any, value: Any, data: bytes) -> None:
    assert serde.dumps(value, CONTEXT) == data
    assert serde.loads(data, CONTEXT) == value
    assert serde.dumps(None, CONTEXT) is None
    assert serde.loads(None, CONTEXT) is None


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(TypeError, match="not a model of pydantic 2"):
        ottla.pydantic(int)


def test_avro_needs_the_same_schema_on_both_sides() -> None:
    serde = ottla.avro(json.dumps(SCHEMA))
    order = {"id": 7, "drink": "lungo"}
    data = serde.dumps(order, CONTEXT)
    assert data == b"\x0e\x0alungo"
    assert serde.loads(data, CONTEXT) == order


@pytest.fixture
def registry() -> Iterator[tuple[str, list[str]]]:
    """A schema registry, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert json.loads(body["schema"]) == SCHEMA
            self._answer({"id": 42})

        def do_GET(self) -> None:
            known = self.path.endswith("/42")
            self._answer({"schema": json.dumps(SCHEMA)}, 200 if known else 404)

        def _answer(self, body: Any, status: int = 200) -> None:
            asked.append(f"{self.command} {self.path}")
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_registry_is_asked_once_for_each_schema(registry: tuple[str, list[str]]) -> None:
    url, asked = registry
    serde = ottla.avro(SCHEMA, registry=url)
    order = {"id": 7, "drink": "lungo"}
    for _ in range(2):
        data = serde.dumps(order, CONTEXT)
        assert data == b"\x00\x00\x00\x00\x2a\x0e\x0alungo"
        assert serde.loads(data, CONTEXT) == order
    assert asked == ["POST /subjects/orders-value/versions", "GET /schemas/ids/42"]


def test_a_registry_that_does_not_know_a_schema_is_quoted(registry: tuple[str, list[str]]) -> None:
    serde = ottla.avro(SCHEMA, registry=registry[0])
    with pytest.raises(SerializationError, match="schemas/ids/43"):
        serde.loads(b"\x00\x00\x00\x00\x2b\x0e", CONTEXT)
    with pytest.raises(SerializationError, match="does not begin with a schema"):
        serde.loads(b"plain", CONTEXT)


def test_a_record_is_serialized_and_measured() -> None:
    ready = outgoing(key=UTF8, value=JSON).ready(
        "orders", {"id": 1}, key="k", headers={"trace": "x"}, partition=3
    )
    assert (ready.topic, ready.partition) == ("orders", 3)
    assert ready.record == (NOW_MS, b"k", b'{"id":1}', (("trace", b"x"),))
    assert ready.size_bytes == record_size_bound(*ready.record[1:])


@pytest.mark.parametrize("pairs", [(), (("ž", b"12"), ("b", None))])
def test_the_size_of_a_record_is_what_the_builder_says(pairs: Any) -> None:
    assert size_of(b"key", b"value", pairs) == record_size_bound(b"key", b"value", pairs)
    assert size_of(None, None, pairs) == record_size_bound(None, None, pairs)


def test_timestamps_are_moments_or_milliseconds() -> None:
    assert milliseconds(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == 1000
    assert milliseconds(5) == 5
    with pytest.raises(ValueError, match="no time zone"):
        milliseconds(datetime(2026, 1, 1))  # noqa: DTZ001, which is the point
    with pytest.raises(ValueError, match="before 1970"):
        milliseconds(-1)


def test_interceptors_change_records_in_turn_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    class Elsewhere(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return dataclasses.replace(record, topic="elsewhere")

        def on_ack(self, *_: Any) -> None:
            raise ValueError("oops")

    class Broken(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise ValueError("oops")

    made = outgoing(Elsewhere(), Broken())
    with caplog.at_level(logging.ERROR):
        assert made.ready("orders", b"v").topic == "elsewhere"
        made.acknowledge(None, None)
    assert "interceptor failed: Broken.on_send" in caplog.text
    assert "interceptor failed: Elsewhere.on_ack" in caplog.text


class Batches(ProducerInterceptor):
    def __init__(self) -> None:
        self.seen: list[SentBatch] = []

    def on_batch(self, batch: SentBatch) -> None:
        self.seen.append(batch)


def test_what_traveled_together_is_told_once_with_the_headers_of_each() -> None:
    watching = Batches()
    made, delivery = outgoing(watching), Delivery("orders", 3, lambda: None)
    for number in range(2):
        headers = {"n": str(number)} if number else {}
        made.follow(delivery, number, made.ready("orders", b"v", headers=headers).record)
    assert watching.seen == []

    delivery.settle(Outcome(0, 2, 70, -1, None))

    (batch,) = watching.seen
    assert batch.headers == (ottla.Headers(), ottla.Headers({"n": "1"}))
    assert (batch.topic, batch.partition, batch.base_offset) == ("orders", 3, 70)
    assert (batch.began_ms, batch.error) == (NOW_MS, None)


def test_a_record_that_comes_when_its_batch_is_answered_is_told_on_its_own() -> None:
    watching = Batches()
    made, delivery = outgoing(watching), Delivery("orders", 3, lambda: None)
    failure = ottla.DeadlineError("too late")
    made.follow(delivery, 0, made.ready("orders", b"v").record)
    delivery.settle(Outcome(0, 2, -1, -1, failure))

    made.follow(delivery, 1, made.ready("orders", b"v").record)

    assert [len(batch.headers) for batch in watching.seen] == [1, 1]
    assert {batch.error for batch in watching.seen} == {failure}


def test_a_base_offset_is_that_of_the_first_record_that_is_told_of() -> None:
    watching = Batches()
    made, delivery = outgoing(watching), Delivery("orders", 3, lambda: None)
    record = made.ready("orders", b"v").record
    made.follow(delivery, 2, record)  # another thread was faster than that of the record before
    made.follow(delivery, 1, record)
    delivery.settle(Outcome(0, 4, 70, -1, None))

    made.follow(delivery, 3, record)

    assert [batch.base_offset for batch in watching.seen] == [71, 73]


def test_an_interceptor_pays_only_for_what_it_wants_to_know() -> None:
    made, delivery = outgoing(Batches()), Delivery("orders", 3, lambda: None)
    record = made.ready("orders", b"v").record

    for number in range(5):
        made.follow(delivery, number, record)

    assert len(delivery._listeners) == 1, "one for the batch, none for each record"


def test_functions_do_as_serializers() -> None:
    made = outgoing(value=serde_of("value", UNSET, lambda text: text.upper().encode()))
    assert made.ready("orders", "espresso").record[2] == b"ESPRESSO"


@pytest.mark.parametrize(
    ("serde", "serializer"), [(UTF8, str.encode), (UNSET, "utf8"), (object(), None)]
)
def test_serdes_that_cannot_work_are_refused(serde: Any, serializer: Any) -> None:
    with pytest.raises(ConfigError, match="value_"):
        serde_of("value", serde, serializer)


@pytest.mark.parametrize("serializer", [lambda value: "text", lambda value: 1 / 0])
def test_what_a_serde_does_wrong_is_told_with_the_topic(serializer: Any) -> None:
    made = outgoing(value=serde_of("value", UNSET, serializer))
    with pytest.raises(SerializationError, match="value for topic 'orders'"):
        made.ready("orders", "x")


def test_the_constructor_takes_exactly_the_settings_there_are() -> None:
    declared = {field.name for field in dataclasses.fields(ProducerConfig)}
    assert set(ProducerSettings.__annotations__) == declared - {"bootstrap_servers"} | {"config"}
