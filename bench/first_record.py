"""How soon a broker that has just been started acknowledges a record, whoever's broker it is.

Asked by bare requests, those of a client that connects: what there is, where the topic is, who the
producer is, and then the record.  Where nobody listens yet, or the answer is that it cannot be done
now, it is tried again two milliseconds later; no client's own pauses are in the figure.
"""

import socket
import time
from typing import Any, Final

from bench.blast import connected, framed, produce_request, trip
from ottla.errors import WireError
from ottla.records.builder import BatchOptions, build
from ottla.wire.header import decode_response
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.registry import ApiKey, api

PAUSE_S: Final = 0.002
PATIENCE_S: Final = 120.0
VERSIONS: Final = {
    ApiKey.API_VERSIONS: 3,
    ApiKey.METADATA: 9,
    ApiKey.INIT_PRODUCER_ID: 3,
    ApiKey.PRODUCE: 9,
}


class NotYetError(Exception):
    """The broker is there, but cannot do what it was asked for."""


def acknowledged(port: int, topic: str) -> float:
    """Write one record as soon as that can be done; the moment at which it was acknowledged.

    The topic must exist.  Called right after the process was started.
    """
    deadline_s = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < deadline_s:
        try:
            with connected(port) as connection:
                return _write_one(connection, topic, deadline_s)
        except (OSError, WireError):
            time.sleep(PAUSE_S)
    raise TimeoutError(f"no record was acknowledged at port {port} in {PATIENCE_S:g} s")


def _write_one(connection: socket.socket, topic: str, deadline_s: float) -> float:
    us = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    _insist(connection, ApiKey.API_VERSIONS, us, deadline_s)
    where = MetadataRequest(topics=(MetadataRequestTopic(name=topic),))
    _insist(connection, ApiKey.METADATA, where, deadline_s)
    who = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    producer = _insist(connection, ApiKey.INIT_PRODUCER_ID, who, deadline_s)
    options = BatchOptions(
        producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, base_sequence=0
    )
    batch = build([(int(time.time() * 1000), None, b"record", ())], options)
    request = produce_request(bytes(batch), VERSIONS[ApiKey.PRODUCE], topic)
    _insist_on(connection, ApiKey.PRODUCE, request, deadline_s)
    return time.perf_counter()


def _insist(connection: socket.socket, key: ApiKey, body: Any, deadline_s: float) -> Any:
    return _insist_on(connection, key, framed(body, VERSIONS[key]), deadline_s)


def _insist_on(connection: socket.socket, key: ApiKey, request: bytes, deadline_s: float) -> Any:
    """Ask until there is an answer without an error."""
    while True:
        answer = decode_response(api(key), VERSIONS[key], trip(connection, request))[1]
        if not (errors := _errors_in(key, answer)):
            return answer
        if time.perf_counter() > deadline_s:
            raise NotYetError(f"{key.name}: error codes {errors}")
        time.sleep(PAUSE_S)


def _errors_in(key: ApiKey, answer: Any) -> list[int]:
    match key:
        case ApiKey.METADATA:
            topics = answer.topics
            codes = [topic.error_code for topic in topics]
            codes += [part.error_code for topic in topics for part in topic.partitions]
        case ApiKey.PRODUCE:
            codes = [part.error_code for t in answer.responses for part in t.partition_responses]
        case _:
            codes = [answer.error_code]
    return [code for code in codes if code]
