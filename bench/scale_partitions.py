"""What idle partitions cost: to create, to start with, in memory, and beside traffic."""

import statistics
import time

from bench import growth
from bench.blast import WrongAnswerError, connected, create_topic, framed, trip
from bench.processes import Served, broker, data_dir
from bench.standing import first_answer
from ottla.records.builder import build
from ottla.wire.header import decode_response
from ottla.wire.messages import metadata, produce
from ottla.wire.registry import ApiKey, api

COUNTS = (1, 10, 100, 1_000, 10_000)
OF_A_TOPIC = 1_000
"""Partitions of one topic, at most: to create more of them in one request may take too long."""
IDLE_S = 3.0
ASKED_COUNT = 200
METADATA_COUNT = 5
METADATA_VERSION, PRODUCE_VERSION = 9, 9


def partitions() -> list[str]:
    return growth.table("partitions", [(count, _measured(count)) for count in COUNTS])


def _measured(count: int) -> growth.Figures:
    figures: growth.Figures = {}
    with data_dir() as folder:
        with broker(folder, "os") as server:
            begin = time.perf_counter()
            for first in range(0, count, OF_A_TOPIC):
                create_topic(server.port, min(count, OF_A_TOPIC), _topic_of(first))
            figures["to create, s"] = time.perf_counter() - begin
        with broker(folder, "os", is_killed=True) as server:
            figures["start after a clean stop, s"] = first_answer(server)
            server.settle()
            figures["memory, MB"] = server.resident_bytes / 1e6
            figures["CPU at rest, ms/s"] = _idle(server)
            figures["CPU of a Metadata of all, ms"] = _metadata_ms(server, count)
            figures["one record, p50, ms"] = _record_ms(server, count)
        with broker(folder, "os") as server:
            figures["start after a kill, s"] = first_answer(server)
    return figures


def _idle(server: Served) -> float:
    """What it does when nobody asks for anything."""
    before_ns, begin = server.cpu_ns, time.perf_counter()
    time.sleep(IDLE_S)
    return (server.cpu_ns - before_ns) / 1e6 / (time.perf_counter() - begin)


def _metadata_ms(server: Served, count: int) -> float:
    request = framed(metadata.MetadataRequest(topics=None), METADATA_VERSION)
    with connected(server.port) as connection:
        frame = trip(connection, request)  # which compiles the codec, too
        _, answer = decode_response(api(ApiKey.METADATA), METADATA_VERSION, frame)
        if (found := sum(len(topic.partitions) for topic in answer.topics)) != count:
            raise WrongAnswerError(f"{found} partitions of {count}")
        before_ns = server.cpu_ns
        for _ in range(METADATA_COUNT):
            trip(connection, request)
        return (server.cpu_ns - before_ns) / 1e6 / METADATA_COUNT


def _record_ms(server: Served, count: int) -> float:
    """A record to each of some partitions, one after the other, when each has got one before."""
    batch = bytes(build([(int(time.time() * 1000), None, b"v" * 100, ())]))
    places = [number * count // ASKED_COUNT for number in range(ASKED_COUNT)]
    requests = [_produce(place, batch) for place in places]
    waits_s = []
    with connected(server.port) as connection:
        for is_counted in (False, True):
            for request in requests:
                begin = time.perf_counter()
                frame = trip(connection, request)
                if is_counted:
                    waits_s.append(time.perf_counter() - begin)
        _, answer = decode_response(api(ApiKey.PRODUCE), PRODUCE_VERSION, frame)
    if error := answer.responses[0].partition_responses[0].error_code:
        raise WrongAnswerError(f"error code {error}")
    return statistics.median(waits_s) * 1e3


def _topic_of(place: int) -> str:
    return f"bench-{place // OF_A_TOPIC}"


def _produce(place: int, batch: bytes) -> bytes:
    data = produce.PartitionProduceData(index=place % OF_A_TOPIC, records=batch)
    topic = produce.TopicProduceData(name=_topic_of(place), partition_data=(data,))
    body = produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(topic,))
    return framed(body, PRODUCE_VERSION)
