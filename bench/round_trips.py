"""How long one record takes: until it is acknowledged, or until somebody else has it.

One after the other, without lingering: our producer, too, sends at once when somebody waits.
"""

import time
from abc import abstractmethod
from typing import Any

from bench.blast import TIMEOUT_S, WrongAnswerError
from bench.contest import WAIT_S, Contestant, Looped, Stopwatch, Taken


class RoundTrip(Contestant):
    """`count` records, each sent when the one before has arrived."""

    def round(self, count: int) -> Taken:
        watch, waits_s = Stopwatch(), []
        for value in self.values[:count]:
            begin = time.perf_counter()
            self.trip(value)
            waits_s.append(time.perf_counter() - begin)
        taken = watch.taken(count)
        taken.waits_s = waits_s
        return taken

    @abstractmethod
    def trip(self, value: bytes) -> None: ...


class LoopedRoundTrip(Looped):
    """The same, with `await`."""

    def round(self, count: int) -> Taken:
        return self.run(self._round(count))

    async def _round(self, count: int) -> Taken:
        watch, waits_s = Stopwatch(), []
        for value in self.values[:count]:
            begin = time.perf_counter()
            await self.trip(value)
            waits_s.append(time.perf_counter() - begin)
        taken = watch.taken(count)
        taken.waits_s = waits_s
        return taken

    @abstractmethod
    async def trip(self, value: bytes) -> None: ...


def check(found: bytes | None, sent: bytes) -> None:
    if found != sent:
        raise WrongAnswerError(f"sent {sent!r}, and {found!r} came")


# Until it is acknowledged


class OttlaSendAndWait(RoundTrip):
    title = "`ottla.Producer.send(…).result()`"

    def open(self) -> None:
        import ottla

        self._producer: ottla.Producer = ottla.Producer(self.address)

    def trip(self, value: bytes) -> None:
        self._producer.send(self.topic, value).result(TIMEOUT_S)

    def close(self) -> None:
        self._producer.close()


class OttlaAsyncSend(LoopedRoundTrip):
    title = "`await ottla.AsyncProducer.send`"

    def open(self) -> None:
        import ottla

        self._producer: ottla.AsyncProducer = ottla.AsyncProducer(self.address)

    async def trip(self, value: bytes) -> None:
        await self._producer.send(self.topic, value)

    def close(self) -> None:
        self.run(self._producer.aclose())
        super().close()


class ConfluentProduceAndFlush(RoundTrip):
    title = "confluent-kafka `produce`, `flush`"
    needs = "confluent_kafka"

    def open(self) -> None:
        self._producer = confluent_producer(self.address)

    def trip(self, value: bytes) -> None:
        self._producer.produce(self.topic, value)
        if self._producer.flush(TIMEOUT_S):
            raise WrongAnswerError("not written")

    def close(self) -> None:
        self._producer.close()


class AiokafkaSendAndWait(LoopedRoundTrip):
    title = "aiokafka `send_and_wait`"
    needs = "aiokafka"

    def open(self) -> None:
        self._producer = self.run(aiokafka_producer(self.address))

    async def trip(self, value: bytes) -> None:
        await self._producer.send_and_wait(self.topic, value)

    def close(self) -> None:
        self.run(self._producer.stop())
        super().close()


# Until somebody else has it


class OttlaSendToPoll(RoundTrip):
    title = "`ottla.Producer.send` to `Consumer.poll`"

    def open(self) -> None:
        import ottla

        self._producer: ottla.Producer = ottla.Producer(self.address, linger_ms=0)
        self._consumer: ottla.Consumer = ottla.Consumer(bootstrap_servers=self.address)
        self._consumer.assign({ottla.TopicPartition(self.topic, 0): 0})

    def trip(self, value: bytes) -> None:
        self._producer.send(self.topic, value)
        (record,) = self._consumer.poll(WAIT_S)
        check(record.value, value)

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()


class OttlaAsyncSendToPoll(LoopedRoundTrip):
    title = "`ottla.AsyncProducer.enqueue` to `AsyncConsumer.poll`"

    def open(self) -> None:
        self.run(self._open())

    async def _open(self) -> None:
        import ottla

        self._producer: ottla.AsyncProducer = ottla.AsyncProducer(self.address, linger_ms=0)
        self._consumer: ottla.AsyncConsumer = ottla.AsyncConsumer(bootstrap_servers=self.address)
        await self._consumer.assign({ottla.TopicPartition(self.topic, 0): 0})

    async def trip(self, value: bytes) -> None:
        await self._producer.enqueue(self.topic, value)
        (record,) = await self._consumer.poll(WAIT_S)
        check(record.value, value)

    def close(self) -> None:
        self.run(self._close())
        super().close()

    async def _close(self) -> None:
        await self._producer.aclose()
        await self._consumer.aclose()


class ConfluentProduceToPoll(RoundTrip):
    title = "confluent-kafka `produce` to `poll`"
    needs = "confluent_kafka"

    def open(self) -> None:
        import confluent_kafka

        self._producer = confluent_producer(self.address)
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "bench",
                "enable.auto.commit": False,
                "fetch.queue.backoff.ms": 5,
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(self.topic, 0, 0)])

    def trip(self, value: bytes) -> None:
        self._producer.produce(self.topic, value)
        message = self._consumer.poll(WAIT_S)
        check(None if message is None else message.value(), value)

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()


class AiokafkaSendToGetone(LoopedRoundTrip):
    title = "aiokafka `send` to `getone`"
    needs = "aiokafka"

    def open(self) -> None:
        self.run(self._open())

    async def _open(self) -> None:
        import aiokafka

        self._producer = await aiokafka_producer(self.address)
        self._consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.address, enable_auto_commit=False, group_id=None
        )
        await self._consumer.start()
        partition = aiokafka.TopicPartition(self.topic, 0)
        self._consumer.assign([partition])
        await self._consumer.seek_to_beginning(partition)

    async def trip(self, value: bytes) -> None:
        await self._producer.send(self.topic, value)
        record = await self._consumer.getone()
        check(record.value, value)

    def close(self) -> None:
        self.run(self._close())
        super().close()

    async def _close(self) -> None:
        await self._producer.stop()
        await self._consumer.stop()


def confluent_producer(address: str) -> Any:
    import confluent_kafka

    return confluent_kafka.Producer(
        {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 0}
    )


async def aiokafka_producer(address: str) -> Any:
    import aiokafka

    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=address, enable_idempotence=True, linger_ms=0
    )
    await producer.start()
    return producer


ROUND_TRIPS: tuple[type[Contestant], ...] = (
    OttlaSendAndWait,
    OttlaAsyncSend,
    ConfluentProduceAndFlush,
    AiokafkaSendAndWait,
    OttlaSendToPoll,
    OttlaAsyncSendToPoll,
    ConfluentProduceToPoll,
    AiokafkaSendToGetone,
)
