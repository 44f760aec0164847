"""A Spark source that receives what a topic holds, drops it, and hands out Arrow built before.

Between `bench.prebuilt` and this lies the price of bringing the bytes here: the broker that sends
them and the loopback, with a plain socket and the fewest system calls.  Nothing is checked or
decoded.  Who reads a topic in Python cannot be faster, however little he does with it.
"""

import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import ottla
from bench.prebuilt import Prebuilt, built
from ottla.model import TopicPartition
from ottla.records.batch import batches
from ottla.spark.source.fetching import FETCH_BYTES
from ottla.wire.frame import SIZE
from ottla.wire.header import client_words, decode_response, encode_framed_request
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.registry import api_for

VERSION = 12
"""The last one that names topics."""
TIMEOUT_S = 60.0
_CLIENT = client_words("bench-received")


@dataclass(frozen=True)
class Whole(InputPartition):
    """A partition from its first record to its last."""

    number: int
    end_offset: int


class Received(DataSource):
    """Options: address, topic, recordBytes."""

    @classmethod
    def name(cls) -> str:
        return "received"

    def schema(self) -> StructType:
        return Prebuilt({}).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReceivedReader(dict(self.options))


class ReceivedReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._address = options["address"]
        self._topic = options["topic"]
        self._record_bytes = int(options["recordbytes"])

    def partitions(self) -> list[InputPartition]:
        with ottla.Admin(self._address) as admin:
            count = len(admin.describe_topic(self._topic).partitions)
            ends = admin.list_offsets([TopicPartition(self._topic, n) for n in range(count)])
        return [Whole(tp.partition, end or 0) for tp, end in sorted(ends.items())]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, Whole)
        ready = built(self._record_bytes)
        waiting = 0
        for row_count in self._received(partition):
            waiting += row_count
            while waiting >= ready.num_rows:
                yield ready
                waiting -= ready.num_rows
        if waiting:
            yield ready.slice(0, waiting)

    def _received(self, of: Whole) -> Iterator[int]:
        """How many records each answer has; the next one is asked for before."""
        host, _, port = self._address.rpartition(":")
        buffer = memoryview(bytearray(FETCH_BYTES * 2))
        position = 0
        with socket.create_connection((host, int(port)), TIMEOUT_S) as connection:
            connection.sendall(self._asked(of.number, position))
            while position < of.end_offset:
                last = next_offset(_frame(connection, buffer))
                if last < of.end_offset:
                    connection.sendall(self._asked(of.number, last))
                yield last - position
                position = last

    def _asked(self, partition: int, offset: int) -> bytes:
        wanted = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
        )
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            session_epoch=-1,
            topics=(FetchTopic(topic=self._topic, partitions=(wanted,)),),
        )
        parts, _ = encode_framed_request(request, VERSION, 0, _CLIENT)
        return b"".join(parts)


def next_offset(frame: memoryview) -> int:
    """The offset behind the last whole batch of an answer."""
    _, answer = decode_response(api_for(FetchRequest), VERSION, frame)
    assert isinstance(answer, FetchResponse)
    (data,) = (data for topic in answer.responses for data in topic.partitions)
    *_, last = batches(data.records or b"", partial_tail=True)
    return last.next_offset


def _frame(connection: socket.socket, buffer: memoryview) -> memoryview:
    """One answer, in the buffer that the one before was in."""
    _fill(connection, buffer[: SIZE.size])
    (size_bytes,) = SIZE.unpack_from(buffer)
    _fill(connection, buffer[:size_bytes])
    return buffer[:size_bytes]


def _fill(connection: socket.socket, room: memoryview) -> None:
    while len(room):
        count = connection.recv_into(room)
        if not count:
            raise ConnectionError("the broker closed the connection")
        room = room[count:]
