"""Each client library's transactions behind one small face, so that each test runs with all.

A producer is one that has called what its library calls `init_transactions`: whoever had its
transactional id before is fenced.  Readers read from the start of a partition up to where their
isolation level lets them, which they have to find out themselves.
"""

import asyncio
import gc
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Any, ClassVar, Final, Self

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors

from ottla.runtime.thread import LoopThread

TIMEOUT_S: Final = 90
TIMEOUT_MS: Final = 60_000
"""How long a transaction may take, where a test does not say otherwise."""


class TxnProducer(ABC):
    """A transactional producer.  Use it with `with`, or close it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        """Send records, and wait until they are acknowledged."""

    @abstractmethod
    def send_offsets(self, topic: str, offsets: Mapping[int, int], group: str) -> None:
        """Commit offsets as part of the transaction, in the name of no member of the group."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Let go of it, whatever became of its transaction."""


class TxnClient(ABC):
    """One client library."""

    name: ClassVar[str]

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    @abstractmethod
    def producer(self, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> TxnProducer:
        """The producer of a transactional id, ready to begin."""

    @abstractmethod
    def is_fenced(self, error: BaseException) -> bool:
        """Whether this is how the library says that there is another producer."""

    @abstractmethod
    def values(self, topic: str, *, partition: int = 0, committed: bool = True) -> list[bytes]:
        """What a consumer without a group reads, from the start to the end that it is shown."""

    @abstractmethod
    def end_offset(self, topic: str, *, partition: int = 0, committed: bool = True) -> int:
        """Where a consumer of this isolation level finds the end."""

    @abstractmethod
    def copy(self, source: str, target: str, group: str, producer: TxnProducer) -> int:
        """Read all that a group has not read, as its member, and send it on in a transaction.

        The transaction is left open, the offsets are in it; how many records there were.
        """


class _ConfluentProducer(TxnProducer):
    def __init__(self, bootstrap_servers: str, transactional_id: str, timeout_ms: int) -> None:
        self._bootstrap_servers = bootstrap_servers
        self.inner = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 0,
                "retry.backoff.ms": 10,
            }
        )
        self.inner.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        self.inner.begin_transaction()

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        for value in values:
            self.inner.produce(topic, value, partition=partition)
        # A fatal error is raised here.  Any other keeps the transaction from being committed.
        assert self.inner.flush(TIMEOUT_S) == 0

    def send_offsets(self, topic: str, offsets: Mapping[int, int], group: str) -> None:
        nobody = confluent_kafka.Consumer(
            {"bootstrap.servers": self._bootstrap_servers, "group.id": group}
        )
        places = [confluent_kafka.TopicPartition(topic, *item) for item in offsets.items()]
        try:
            metadata = nobody.consumer_group_metadata()
            self.inner.send_offsets_to_transaction(places, metadata, TIMEOUT_S)
        finally:
            nobody.close()

    def commit(self) -> None:
        self.inner.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        self.inner.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        del self.inner  # its own `close` would abort the transaction, and raises if it is fenced


class ConfluentTxn(TxnClient):
    """confluent-kafka, which is librdkafka."""

    name = "confluent-kafka"

    def producer(self, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> TxnProducer:
        return _ConfluentProducer(self.bootstrap_servers, transactional_id, timeout_ms)

    def is_fenced(self, error: BaseException) -> bool:
        told = error.args[0]
        return (
            isinstance(error, confluent_kafka.KafkaException)
            and told.fatal()
            and told.code() in (confluent_kafka.KafkaError._FENCED, _INVALID_PRODUCER_EPOCH)
        )

    def values(self, topic: str, *, partition: int = 0, committed: bool = True) -> list[bytes]:
        consumer = self._consumer("unused", committed=committed)
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
        try:
            return [message.value() or b"" for message in _up_to_end(consumer)]
        finally:
            consumer.close()

    def end_offset(self, topic: str, *, partition: int = 0, committed: bool = True) -> int:
        consumer = self._consumer("unused", committed=committed)
        try:
            place = confluent_kafka.TopicPartition(topic, partition)
            _, end = consumer.get_watermark_offsets(place, TIMEOUT_S)
            return int(end)
        finally:
            consumer.close()

    def copy(self, source: str, target: str, group: str, producer: TxnProducer) -> int:
        assert isinstance(producer, _ConfluentProducer)
        consumer = self._consumer(group, committed=True)
        consumer.subscribe([source])
        try:
            messages = _up_to_end(consumer)
            producer.begin()
            producer.send(target, *(message.value() or b"" for message in messages))
            producer.inner.send_offsets_to_transaction(
                consumer.position(consumer.assignment()),
                consumer.consumer_group_metadata(),
                TIMEOUT_S,
            )
            return len(messages)
        finally:
            consumer.close()

    def _consumer(self, group: str, *, committed: bool) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": group,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": _isolation(committed),
                "fetch.wait.max.ms": 10,
            }
        )


def _up_to_end(consumer: confluent_kafka.Consumer) -> list[confluent_kafka.Message]:
    """Everything up to where a consumer of one partition is told that it has reached the end."""
    found: list[confluent_kafka.Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        error = None if message is None else message.error()
        if error is not None:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            return found
        found += [] if message is None else [message]
    raise TimeoutError(f"no end after {len(found)} records")


class _KafkaPythonProducer(TxnProducer):
    def __init__(self, bootstrap_servers: str, transactional_id: str, timeout_ms: int) -> None:
        self.inner = kafka.KafkaProducer(
            bootstrap_servers=bootstrap_servers,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            retry_backoff_ms=10,
        )
        try:
            self.inner.init_transactions()
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        self.inner.begin_transaction()

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        sent = [self.inner.send(topic, value, partition=partition) for value in values]
        for future in sent:
            future.get(TIMEOUT_S)

    def send_offsets(self, topic: str, offsets: Mapping[int, int], group: str) -> None:
        self.inner.send_offsets_to_transaction(_kafka_python_offsets(topic, offsets), group)

    def commit(self) -> None:
        self.inner.commit_transaction()

    def abort(self) -> None:
        self.inner.abort_transaction()

    def close(self) -> None:
        self.inner.close(timeout=0)


class KafkaPythonTxn(TxnClient):
    """kafka-python."""

    name = "kafka-python"

    def producer(self, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> TxnProducer:
        return _KafkaPythonProducer(self.bootstrap_servers, transactional_id, timeout_ms)

    def is_fenced(self, error: BaseException) -> bool:
        return isinstance(
            error, (kafka.errors.ProducerFencedError, kafka.errors.InvalidProducerEpochError)
        )

    def values(self, topic: str, *, partition: int = 0, committed: bool = True) -> list[bytes]:
        consumer = self._consumer(None, committed=committed)
        place = kafka.TopicPartition(topic, partition)
        try:
            consumer.assign([place])
            consumer.seek(place, 0)
            end = consumer.end_offsets([place])[place]
            return [record.value for record in _read_to(consumer, {place: end})]
        finally:
            consumer.close()

    def end_offset(self, topic: str, *, partition: int = 0, committed: bool = True) -> int:
        consumer = self._consumer(None, committed=committed)
        place = kafka.TopicPartition(topic, partition)
        try:
            return int(consumer.end_offsets([place])[place])
        finally:
            consumer.close()

    def copy(self, source: str, target: str, group: str, producer: TxnProducer) -> int:
        assert isinstance(producer, _KafkaPythonProducer)
        consumer = self._consumer(group, committed=True)
        try:
            consumer.subscribe([source])
            place = kafka.TopicPartition(source, 0)
            end = consumer.end_offsets([place])[place]
            records = _read_to(consumer, {place: end})
            producer.begin()
            producer.send(target, *(record.value for record in records))
            offsets = _kafka_python_offsets(source, {0: consumer.position(place)})
            producer.inner.send_offsets_to_transaction(offsets, consumer.group_metadata())
            return len(records)
        finally:
            consumer.close()

    def _consumer(self, group: str | None, *, committed: bool) -> Any:
        return kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap_servers,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=_isolation(committed),
            fetch_max_wait_ms=10,
        )


def _kafka_python_offsets(topic: str, offsets: Mapping[int, int]) -> dict[Any, Any]:
    return {
        kafka.TopicPartition(topic, partition): kafka.OffsetAndMetadata(offset, "", -1)
        for partition, offset in offsets.items()
    }


def _read_to(consumer: Any, ends: Mapping[Any, int]) -> list[Any]:
    """kafka-python: all records until the position is at the end of each partition."""
    found: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        for records in consumer.poll(100).values():
            found += records
        places = consumer.assignment()
        if places and all(consumer.position(place) >= end for place, end in ends.items()):
            return found
    raise TimeoutError(f"no end after {len(found)} records")


class _AiokafkaProducer(TxnProducer):
    """On a loop of its own, because its heart must beat while nobody calls it."""

    def __init__(self, bootstrap_servers: str, transactional_id: str, timeout_ms: int) -> None:
        self.thread = LoopThread("aiokafka")

        async def start() -> aiokafka.AIOKafkaProducer:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap_servers,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                retry_backoff_ms=10,
            )
            try:
                await producer.start()
            except BaseException:
                await producer.stop()
                raise
            return producer

        try:
            self.inner = self.thread.call(start(), TIMEOUT_S)
        except BaseException:
            self.thread.close()
            raise

    def begin(self) -> None:
        self._call(self.inner.begin_transaction())

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        async def send() -> None:
            sent = [await self.inner.send(topic, value, partition=partition) for value in values]
            for future in sent:
                await future

        self._call(send())

    def send_offsets(self, topic: str, offsets: Mapping[int, int], group: str) -> None:
        places = {aiokafka.TopicPartition(topic, index): at for index, at in offsets.items()}
        self._call(self.inner.send_offsets_to_transaction(places, group))

    def commit(self) -> None:
        self._call(self.inner.commit_transaction())

    def abort(self) -> None:
        self._call(self.inner.abort_transaction())

    def close(self) -> None:
        try:
            self._call(self.inner.stop())
        finally:
            self.thread.close()
            del self.inner
            # Who was fenced leaves futures behind whose errors nobody asks for.  They complain when
            # they are collected, with a traceback, for which Python 3.11 parses source text; and in
            # the middle of an import, which parses some as well, that ends in a SystemError.
            gc.collect()

    def _call(self, work: Any) -> Any:
        return self.thread.call(work, TIMEOUT_S)


class AiokafkaTxn(TxnClient):
    """aiokafka."""

    name = "aiokafka"

    def producer(self, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> TxnProducer:
        return _AiokafkaProducer(self.bootstrap_servers, transactional_id, timeout_ms)

    def is_fenced(self, error: BaseException) -> bool:
        return isinstance(error, aiokafka.errors.ProducerFenced)

    def values(self, topic: str, *, partition: int = 0, committed: bool = True) -> list[bytes]:
        async def act(consumer: Any) -> list[bytes]:
            place = aiokafka.TopicPartition(topic, partition)
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            return [record.value for record in await _read_to_end(consumer, place)]

        found: list[bytes] = asyncio.run(self._with_consumer(None, committed, act))
        return found

    def end_offset(self, topic: str, *, partition: int = 0, committed: bool = True) -> int:
        async def act(consumer: Any) -> int:
            place = aiokafka.TopicPartition(topic, partition)
            return int((await consumer.end_offsets([place]))[place])

        return int(asyncio.run(self._with_consumer(None, committed, act)))

    def copy(self, source: str, target: str, group: str, producer: TxnProducer) -> int:
        place = aiokafka.TopicPartition(source, 0)

        async def act(consumer: Any) -> tuple[list[bytes], int]:
            consumer.subscribe([source])
            records = await _read_to_end(consumer, place)
            return [record.value for record in records], await consumer.position(place)

        values, position = asyncio.run(self._with_consumer(group, True, act))
        producer.begin()
        producer.send(target, *values)
        producer.send_offsets(source, {0: position}, group)
        return len(values)

    async def _with_consumer(self, group: str | None, committed: bool, act: Any) -> Any:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap_servers,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=_isolation(committed),
            fetch_max_wait_ms=10,
        )
        await consumer.start()
        try:
            return await act(consumer)
        finally:
            await consumer.stop()


async def _read_to_end(consumer: Any, place: Any) -> list[Any]:
    found: list[Any] = []
    async with asyncio.timeout(TIMEOUT_S):
        end = (await consumer.end_offsets([place]))[place]
        while place not in consumer.assignment() or await consumer.position(place) < end:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                found += records
    return found


def _isolation(committed: bool) -> str:
    return "read_committed" if committed else "read_uncommitted"


_INVALID_PRODUCER_EPOCH: Final = 47

TXN_CLIENTS: Final[tuple[type[TxnClient], ...]] = (ConfluentTxn, KafkaPythonTxn, AiokafkaTxn)
