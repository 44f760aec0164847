"""Other people's clients behind one small face, so that each test runs with all of them.

A client is what its users would write: its own producer and consumer, with their defaults; but
producers are idempotent wherever they wait for all replicas, as clients since 2021 are by default.
"""

import asyncio
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import confluent_kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition

with warnings.catch_warnings():
    # It reads its schemas with functions that were deprecated in Python 3.11 and 3.12 only.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as KafkaTopicPartition

TIMEOUT_S: Final = 90
LARGEST_BYTES: Final = 8 * 1024 * 1024
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

Headers = tuple[tuple[str, bytes | None], ...]


class Message(NamedTuple):
    """A record as users see it."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int = 0


class Received(NamedTuple):
    """A record as it came back."""

    offset: int
    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp_ms: int
    partition: int
    is_append_time: bool

    def matches(self, message: Message) -> bool:
        return (self.value, self.key, self.headers, self.partition) == (
            message.value,
            message.key,
            message.headers,
            message.partition,
        ) and message.timestamp_ms in (None, self.timestamp_ms)


class Client(ABC):
    """One client library."""

    name: ClassVar[str]

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    @abstractmethod
    def write(
        self, topic: str, messages: Iterable[Message], *, codec: str = "none", acks: int = -1
    ) -> list[int]:
        """Produce the messages, wait for all of them, return their offsets."""

    @abstractmethod
    def read(
        self, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Received]:
        """Consume `count` records from `offset` on, without a group."""


class Confluent(Client):
    """confluent-kafka, which is librdkafka."""

    name = "confluent-kafka"

    def write(
        self, topic: str, messages: Iterable[Message], *, codec: str = "none", acks: int = -1
    ) -> list[int]:
        settings = {
            "bootstrap.servers": self.bootstrap_servers,
            "compression.type": codec,
            "acks": acks,
            "linger.ms": 5,
            "message.max.bytes": LARGEST_BYTES,
            "enable.idempotence": acks == -1,
        }
        producer = confluent_kafka.Producer(settings)
        delivered: list[Any] = []
        for message in messages:
            producer.produce(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                timestamp=message.timestamp_ms or 0,
                partition=message.partition,
                on_delivery=lambda error, sent: delivered.append((error, sent)),
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert [error for error, _ in delivered if error is not None] == []
        return [sent.offset() for _, sent in delivered]

    def read(
        self, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Received]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.message.max.bytes": LARGEST_BYTES,
            }
        )
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
            received: list[Received] = []
            deadline = time.monotonic() + TIMEOUT_S
            while len(received) < count and time.monotonic() < deadline:
                for message in consumer.consume(count - len(received), timeout=1):
                    assert message.error() is None, message.error()
                    received.append(self._received(message))
            return received
        finally:
            consumer.close()

    @staticmethod
    def _received(message: Any) -> Received:
        kind, timestamp_ms = message.timestamp()
        return Received(
            message.offset(),
            message.value(),
            message.key(),
            tuple(message.headers() or ()),
            timestamp_ms,
            message.partition(),
            kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME,
        )


class KafkaPython(Client):
    """kafka-python."""

    name = "kafka-python"

    def write(
        self, topic: str, messages: Iterable[Message], *, codec: str = "none", acks: int = -1
    ) -> list[int]:
        settings = {
            "bootstrap_servers": self.bootstrap_servers,
            "compression_type": None if codec == "none" else codec,
            "acks": "all" if acks == -1 else acks,
            "linger_ms": 5,
            "max_request_size": LARGEST_BYTES,
            "enable_idempotence": acks == -1,
        }
        producer = KafkaProducer(**settings)
        try:
            sent = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    timestamp_ms=message.timestamp_ms,
                    partition=message.partition,
                )
                for message in messages
            ]
            return [future.get(timeout=TIMEOUT_S).offset for future in sent]
        finally:
            producer.close(timeout=TIMEOUT_S)

    def read(
        self, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Received]:
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap_servers,
            auto_offset_reset="none",
            max_partition_fetch_bytes=LARGEST_BYTES,
        )
        try:
            assigned = KafkaTopicPartition(topic, partition)
            consumer.assign([assigned])
            consumer.seek(assigned, offset)
            received: list[Received] = []
            deadline = time.monotonic() + TIMEOUT_S
            while len(received) < count and time.monotonic() < deadline:
                for messages in consumer.poll(1_000).values():
                    received += map(_received, messages)
            return received[:count]
        finally:
            consumer.close()


class Aiokafka(Client):
    """aiokafka, on a loop of its own for each call."""

    name = "aiokafka"

    def write(
        self, topic: str, messages: Iterable[Message], *, codec: str = "none", acks: int = -1
    ) -> list[int]:
        return asyncio.run(self._write(topic, list(messages), codec, acks))

    def read(
        self, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Received]:
        return asyncio.run(self._read(topic, count, partition, offset))

    async def _write(
        self, topic: str, messages: Sequence[Message], codec: str, acks: int
    ) -> list[int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap_servers,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == -1 else acks,
            linger_ms=5,
            max_request_size=LARGEST_BYTES,
            enable_idempotence=acks == -1,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    timestamp_ms=message.timestamp_ms,
                    partition=message.partition,
                )
                for message in messages
            ]
            answers = await asyncio.wait_for(asyncio.gather(*sent), TIMEOUT_S)
            return [-1 if answer is None else answer.offset for answer in answers]
        finally:
            await producer.stop()

    async def _read(self, topic: str, count: int, partition: int, offset: int) -> list[Received]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap_servers,
            auto_offset_reset="none",
            enable_auto_commit=False,
            max_partition_fetch_bytes=LARGEST_BYTES,
        )
        await consumer.start()
        try:
            assigned = AioTopicPartition(topic, partition)
            consumer.assign([assigned])
            consumer.seek(assigned, offset)
            received: list[Received] = []
            async with asyncio.timeout(TIMEOUT_S):
                while len(received) < count:
                    for messages in (await consumer.getmany(timeout_ms=1_000)).values():
                        received += map(_received, messages)
            return received[:count]
        finally:
            await consumer.stop()


def _received(record: Any) -> Received:
    """kafka-python and aiokafka name the fields alike."""
    return Received(
        record.offset,
        record.value,
        record.key,
        tuple(record.headers),
        record.timestamp,
        record.partition,
        record.timestamp_type == 1,
    )


CLIENTS: Final[tuple[type[Client], ...]] = (Confluent, KafkaPython, Aiokafka)
