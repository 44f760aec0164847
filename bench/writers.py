"""Producers that are timed; a round is over when all of its records are acknowledged.

Everybody lingers 5 ms for batches, and may make them as large as ours are by default, or larger
where that is its own default.  confluent-kafka may queue as much as it likes.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from bench.blast import TIMEOUT_S, WrongAnswerError
from bench.contest import VALUE_COUNT, Contestant, Looped, Stopwatch, Taken

ARROW_ROWS = 100_000
"""In a table that is sent: ten times all values."""
LINGER_MS = 5
BATCH_BYTES = 256 * 1024


class Writing(Contestant):
    """Writes `count` records; a round is over when all of them are acknowledged."""

    def round(self, count: int) -> Taken:
        watch = Stopwatch()
        self.write(count)
        return watch.taken(count)

    @abstractmethod
    def write(self, count: int) -> None: ...

    def each_value(self, count: int) -> Iterator[bytes]:
        for _ in range(count // VALUE_COUNT):
            yield from self.values


class OttlaWriting(Writing):
    def open(self) -> None:
        import ottla

        self.producer: ottla.Producer = ottla.Producer(self.address)
        self.producer.partitions_for(self.topic)

    def close(self) -> None:
        self.producer.close()


class OttlaSend(OttlaWriting):
    title = "`ottla.Producer.send`"

    def write(self, count: int) -> None:
        send, topic = self.producer.send, self.topic
        for value in self.each_value(count):
            send(topic, value)
        self.producer.flush()


class OttlaSendMany(OttlaWriting):
    title = "`ottla.Producer.send_many`"

    def write(self, count: int) -> None:
        for _ in range(count // VALUE_COUNT):
            self.producer.send_many(self.topic, self.values)
        self.producer.flush()


class OttlaSendArrow(OttlaWriting):
    title = "`ottla.Producer.send_arrow`"
    needs = "pyarrow"

    def open(self) -> None:
        import pyarrow as pa

        super().open()
        column = pa.array(self.values * (ARROW_ROWS // VALUE_COUNT), pa.binary())
        self._rows = pa.record_batch({"value": column})

    def write(self, count: int) -> None:
        for _ in range(count // ARROW_ROWS):
            self.producer.send_arrow(self.topic, self._rows)
        self.producer.flush()


class OttlaAsyncEnqueue(Looped, Writing):
    title = "`ottla.AsyncProducer.enqueue`"

    def open(self) -> None:
        import ottla

        self._producer: ottla.AsyncProducer = ottla.AsyncProducer(self.address)
        self.run(self._producer.partitions_for(self.topic))

    def write(self, count: int) -> None:
        self.run(self._write(count))

    async def _write(self, count: int) -> None:
        enqueue, topic = self._producer.enqueue, self.topic
        for value in self.each_value(count):
            await enqueue(topic, value)
        await self._producer.flush()

    def close(self) -> None:
        self.run(self._producer.aclose())
        super().close()


class ConfluentWriting(Writing):
    needs = "confluent_kafka"

    def open(self) -> None:
        import confluent_kafka

        settings: dict[str, Any] = {
            "bootstrap.servers": self.address,
            "enable.idempotence": True,
            "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": 10_000_000,
        }
        self.producer = confluent_kafka.Producer(settings)
        self.producer.list_topics(self.topic, timeout=TIMEOUT_S)

    def flush(self) -> None:
        if self.producer.flush(TIMEOUT_S):
            raise WrongAnswerError("not everything was written")

    def close(self) -> None:
        self.producer.close()


class ConfluentProduce(ConfluentWriting):
    title = "confluent-kafka `produce`"

    def write(self, count: int) -> None:
        produce, topic = self.producer.produce, self.topic
        for value in self.each_value(count):
            produce(topic, value)
        self.flush()


class ConfluentProduceBatch(ConfluentWriting):
    title = "confluent-kafka `produce_batch`"

    def write(self, count: int) -> None:
        for _ in range(count // VALUE_COUNT):
            messages = [{"value": value} for value in self.values]
            if self.producer.produce_batch(self.topic, messages) != VALUE_COUNT:
                raise WrongAnswerError("not everything was taken")
        self.flush()


class KafkaPythonSend(Writing):
    title = "kafka-python `send`"
    needs = "kafka"

    def open(self) -> None:
        import kafka

        self._producer: Any = kafka.KafkaProducer(
            bootstrap_servers=self.address,
            acks="all",
            linger_ms=LINGER_MS,
            batch_size=BATCH_BYTES,
        )
        self._producer.partitions_for(self.topic)

    def write(self, count: int) -> None:
        send, topic = self._producer.send, self.topic
        for value in self.each_value(count):
            send(topic, value)
        self._producer.flush(TIMEOUT_S)

    def close(self) -> None:
        self._producer.close()


class AiokafkaSend(Looped, Writing):
    title = "aiokafka `send`"
    needs = "aiokafka"

    def open(self) -> None:
        import aiokafka

        async def started() -> Any:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=self.address,
                enable_idempotence=True,
                linger_ms=LINGER_MS,
                max_batch_size=BATCH_BYTES,
            )
            await producer.start()
            return producer

        self._producer = self.run(started())

    def write(self, count: int) -> None:
        self.run(self._write(count))

    async def _write(self, count: int) -> None:
        send, topic = self._producer.send, self.topic
        for value in self.each_value(count):
            await send(topic, value)
        await self._producer.flush()

    def close(self) -> None:
        self.run(self._producer.stop())
        super().close()


WRITERS: tuple[type[Contestant], ...] = (
    OttlaSend,
    OttlaSendMany,
    OttlaSendArrow,
    OttlaAsyncEnqueue,
    ConfluentProduce,
    ConfluentProduceBatch,
    KafkaPythonSend,
    AiokafkaSend,
)
