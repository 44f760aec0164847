"""A load generator that costs next to nothing: requests are made before, and answers are counted.

All answers of a run have the same size, so that counting bytes counts answers.  What is in them
is looked at once, before anything is timed.
"""

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.records.builder import build
from ottla.wire.frame import SIZE, with_size
from ottla.wire.header import decode_response, encode_request
from ottla.wire.messages import create_topics, fetch, list_offsets, produce
from ottla.wire.registry import ApiKey, api

TOPIC = "bench"
RECORD_BYTES = 1000
BUFFER_BYTES = 1024 * 1024
TIMEOUT_S = 60.0
OFFSETS_VERSION = 5
READ_COMMITTED, LATEST = 1, -1

Bytes = bytes | bytearray


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests of equal size, sent over and over, `depth` of them under way at a time."""

    requests: Sequence[Bytes]
    response_bytes: int
    depth: int


class WrongAnswerError(Exception):
    """The server did not do what it was asked for, so its speed says nothing."""


def framed(body: Any, version: int) -> bytes:
    parts = encode_request(body, version, correlation_id=7, client_id="bench")
    return b"".join(with_size(parts))


def batch_of(size_bytes: int) -> bytes:
    """A batch of about `size_bytes`; of one record of 100 bytes where that is too little."""
    count = size_bytes // RECORD_BYTES
    value = b"v" * (RECORD_BYTES - 10 if count else 100)
    return bytes(build([(int(time.time() * 1000), None, value, ())] * max(count, 1)))


def produce_request(batch: bytes, version: int = 9, topic: str = TOPIC) -> bytes:
    data = produce.PartitionProduceData(index=0, records=batch)
    written = produce.TopicProduceData(name=topic, partition_data=(data,))
    body = produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(written,))
    return framed(body, version)


def fetch_request(offset: int, batch_bytes: int, version: int = 12, topic: str = TOPIC) -> bytes:
    """For exactly the batch at `offset`."""
    wanted = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=batch_bytes)
    body = fetch.FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=batch_bytes,
        topics=(fetch.FetchTopic(topic=topic, partitions=(wanted,)),),
    )
    return framed(body, version)


def connected(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def trip(connection: socket.socket, request: Bytes) -> Bytes:
    """One request and the frame that answers it."""
    connection.sendall(request)
    return exactly(connection, SIZE.unpack(exactly(connection, SIZE.size))[0])


def exactly(connection: socket.socket, size_bytes: int) -> Bytes:
    """So many bytes, however they come."""
    buffer = bytearray(size_bytes)
    view, filled = memoryview(buffer), 0
    while filled < size_bytes:
        received = connection.recv_into(view[filled:])
        if not received:
            raise WrongAnswerError(f"closed after {filled} of {size_bytes} bytes")
        filled += received
    return buffer


def ask(port: int, request: Bytes, key: ApiKey, version: int) -> tuple[Any, int]:
    """One request and its answer, decoded; and how many bytes the answer had, with its size."""
    with connected(port) as connection, connection.makefile("rb") as answers:
        connection.sendall(request)
        (size_bytes,) = SIZE.unpack(answers.read(SIZE.size))
        frame = answers.read(size_bytes)
    return decode_response(api(key), version, frame)[1], SIZE.size + size_bytes


def create_topic(
    port: int, partition_count: int, name: str = TOPIC, configs: Mapping[str, str] | None = None
) -> None:
    topic = create_topics.CreatableTopic(
        name=name,
        num_partitions=partition_count,
        replication_factor=1,
        assignments=(),
        configs=tuple(
            create_topics.CreatableTopicConfig(name=key, value=value)
            for key, value in (configs or {}).items()
        ),
    )
    body = create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=60_000)
    answer, _ = ask(port, framed(body, 7), ApiKey.CREATE_TOPICS, 7)
    if answer.topics[0].error_code:
        raise WrongAnswerError(f"topic not created: {answer.topics[0]}")


def check_end(port: int, expected: int, topic: str = TOPIC) -> None:
    """Whether so many records and markers are in the topic, for those who read committed."""
    found = end_offset(port, topic)
    if found != expected:
        raise WrongAnswerError(f"{topic} ends at {found}, not at {expected}")


def end_offset(port: int, topic: str = TOPIC, partition: int = 0) -> int:
    """Where a partition ends, for those who read committed."""
    wanted = list_offsets.ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=-1, timestamp=LATEST
    )
    body = list_offsets.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=READ_COMMITTED,
        topics=(list_offsets.ListOffsetsTopic(name=topic, partitions=(wanted,)),),
    )
    answer, _ = ask(port, framed(body, OFFSETS_VERSION), ApiKey.LIST_OFFSETS, OFFSETS_VERSION)
    found: int = answer.topics[0].partitions[0].offset
    return found


def blast(connection: socket.socket, load: Load, count: int) -> float:
    """Send `count` requests and wait for their answers: the seconds it took."""
    requests, depth = load.requests, load.depth
    buffer = bytearray(BUFFER_BYTES)
    begin = time.perf_counter()
    sent, answered, left_bytes = 0, 0, 0
    while answered < count:
        room = min(answered + depth, count) - sent
        if room:
            connection.sendall(b"".join(requests[(sent + n) % len(requests)] for n in range(room)))
            sent += room
        received = connection.recv_into(buffer)
        if not received:
            raise WrongAnswerError(f"closed after {answered} of {count} answers")
        more, left_bytes = divmod(left_bytes + received, load.response_bytes)
        answered += more
    if left_bytes:
        raise WrongAnswerError(f"{left_bytes} bytes more than {count} answers have")
    return time.perf_counter() - begin
