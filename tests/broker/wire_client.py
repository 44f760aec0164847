"""A client that can say anything: requests as they should be, halves of them, or noise.

It is blocking and knows nothing but frames: what a well-behaved client would hide, tests want to
see.  Every read has a time limit, so a broker that should have answered fails the test.
"""

import socket
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self

from ottla.errors import ErrorCode
from ottla.records.batch import batches
from ottla.records.builder import BatchOptions, build
from ottla.wire.frame import SIZE
from ottla.wire.header import decode_response, encode_request
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.wire.registry import ApiKey, api

CREATE_VERSION: Final = 5
FETCH_VERSION: Final = 11
PRODUCE_VERSION: Final = 9
"""Versions with names, not ids, of topics, and with all the fields that tests look at."""

TIMEOUT_S: Final = 90.0
WHOLE_LOG_BYTES: Final = 64 * 1024 * 1024


class WireClient:
    """One connection.  Correlation ids count from 1."""

    def __init__(self, bootstrap_servers: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.address = bootstrap_servers
        host, _, port = bootstrap_servers.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._last_correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_frame(self, payload: bytes) -> None:
        self.send_bytes(framed(payload))

    def send(self, body: Any, version: int) -> int:
        """Send a request; return its correlation id."""
        self._last_correlation_id += 1
        self.send_frame(request_bytes(body, version, self._last_correlation_id))
        return self._last_correlation_id

    def receive(self, request: type[Any], version: int) -> tuple[int, Any]:
        """The next answer, read as the one to `request`: correlation id and body."""
        of = api(ApiKey(request.__api__.key))
        return decode_response(of, version, self.receive_frame())

    def receive_frame(self) -> bytes:
        (size_bytes,) = SIZE.unpack(self._exactly(SIZE.size))
        return self._exactly(size_bytes)

    def ask(self, body: Any, version: int) -> Any:
        """Send a request and return the body of its answer."""
        correlation_id = self.send(body, version)
        answered, answer = self.receive(type(body), version)
        assert answered == correlation_id
        return answer

    def is_closed_by_peer(self) -> bool:
        """Wait until the broker closes; False if it says something instead.

        A broker that does neither raises `TimeoutError`.
        """
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    @property
    def port(self) -> int:
        """Ours: how the broker's log names this connection."""
        return int(self._socket.getsockname()[1])

    def wait_for_bytes(self) -> None:
        """Wait until an answer begins to arrive, and leave it there."""
        assert self._socket.recv(1, socket.MSG_PEEK)

    def limit_receive_buffer(self, size_bytes: int) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)

    def is_closed_within(self, patience_s: float) -> bool:
        """Whether the broker closes that soon; it must not say anything."""
        try:
            self._socket.settimeout(patience_s)
            received = self._socket.recv(1)
        except TimeoutError:
            return False
        except ConnectionResetError:
            return True
        finally:
            self._socket.settimeout(TIMEOUT_S)
        assert not received
        return True

    def create_topic(
        self, name: str, *, partition_count: int = 1, **configs: str | int
    ) -> ErrorCode:
        """Create a topic with settings like `cleanup_policy="compact"`."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partition_count,
            replication_factor=1,
            assignments=(),
            configs=tuple(
                CreatableTopicConfig(name=key.replace("_", "."), value=str(value))
                for key, value in configs.items()
            ),
        )
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)
        (result,) = self.ask(request, CREATE_VERSION).topics
        return ErrorCode(result.error_code)

    def produce(
        self,
        topic: str,
        records: bytes | bytearray | None,
        *,
        partition: int = 0,
        acks: int = -1,
        version: int = PRODUCE_VERSION,
    ) -> PartitionProduceResponse:
        """Produce bytes, batch or not, to one partition."""
        answer = self.ask(produce_request(topic, records, partition=partition, acks=acks), version)
        result: PartitionProduceResponse = answer.responses[0].partition_responses[0]
        return result

    def fetch(self, topic: str, offset: int = 0, **changes: Any) -> PartitionData:
        """Fetch one partition; `changes` go to the partition or to the request."""
        answer = self.ask(fetch_request(topic, offset, **changes), FETCH_VERSION)
        assert answer.error_code == ErrorCode.NONE
        result: PartitionData = answer.responses[0].partitions[0]
        return result

    def values(self, topic: str, offset: int = 0, **changes: Any) -> list[bytes | None]:
        """The values of the records from `offset` on, as one fetch returns them."""
        fetched = self.fetch(topic, offset, **changes)
        assert fetched.error_code == ErrorCode.NONE, ErrorCode(fetched.error_code)
        return [
            None if record[3] is None else bytes(record[3])
            for batch in batches(bytes(fetched.records or b""), partial_tail=False)
            for record in batch.records()
            if record[0] >= offset
        ]

    def _exactly(self, size_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            more = self._socket.recv(min(size_bytes - len(data), 1 << 20))
            if not more:
                raise ConnectionError(f"closed after {len(data)} of {size_bytes} bytes")
            data += more
        return bytes(data)


def framed(payload: bytes) -> bytes:
    """The payload with its size in front."""
    return SIZE.pack(len(payload)) + payload


def request_bytes(body: Any, version: int, correlation_id: int = 1) -> bytes:
    """A request with its header, without the size in front."""
    parts = encode_request(body, version, correlation_id=correlation_id, client_id="bad-input")
    return b"".join(parts)


def batch_of(*values: bytes | None, key: bytes | None = b"k", **options: Any) -> bytearray:
    """A batch with one record for each value; `options` are those of `BatchOptions`."""
    return build(((1_700_000_000_000, key, value, ()) for value in values), BatchOptions(**options))


def produce_request(
    topic: str, records: bytes | bytearray | None, *, partition: int = 0, acks: int = -1
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
    )


def fetch_request(
    topic: str,
    offset: int = 0,
    *,
    partition: int = 0,
    partition_max_bytes: int = WHOLE_LOG_BYTES,
    current_leader_epoch: int = -1,
    **changes: Any,
) -> FetchRequest:
    """A fetch of one partition that does not wait, unless `changes` say so."""
    wanted = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=partition_max_bytes,
        current_leader_epoch=current_leader_epoch,
    )
    settings = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": WHOLE_LOG_BYTES, **changes}
    return FetchRequest(topics=(FetchTopic(topic=topic, partitions=(wanted,)),), **settings)


def frames_of(bodies: Iterable[Any], version: int) -> bytes:
    """Many requests in one piece, with correlation ids from 1 on."""
    return b"".join(
        framed(request_bytes(body, version, number)) for number, body in enumerate(bodies, 1)
    )
