"""Consumers that are timed; each value's length is added up, and must come out right.

Everybody may fetch as much of a partition at once as ours does by default.

The consumer of confluent-kafka may fetch ahead as far as it likes, and looks for room every 5 ms:
with its defaults it stalls for up to a second, which would flatter us four times over.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from bench.blast import WrongAnswerError
from bench.contest import WAIT_S, Contestant, Looped, Stopwatch, Taken

FETCH_BYTES = 2 * 1024 * 1024
POLL_RECORDS = 500
"""What our consumer, kafka-python's and Java's return at once by default."""


class Tally:
    """Adds up what is read; the clock runs from the first step to the last."""

    def __init__(self, wanted: int, record_bytes: int) -> None:
        self._wanted = wanted
        self._record_bytes = record_bytes
        self._watch: Stopwatch | None = None
        self._count = 0
        self.taken: Taken | None = None

    def is_enough(self, record_count: int, value_bytes: int) -> bool:
        """Count what came in one step; what came in the first was there when the clock began."""
        if value_bytes != record_count * self._record_bytes:
            raise WrongAnswerError(f"{record_count} records have {value_bytes} bytes")
        if self._watch is None:
            self._watch = Stopwatch()
            return False
        self._count += record_count
        if self._count < self._wanted:
            return False
        self.taken = self._watch.taken(self._count)
        return True


class Reading(Contestant):
    """Reads `count` records from the beginning, with a new consumer each time.

    The clock runs from when the first records are in hand until at least `count` more are: how long
    it takes to connect is another question, and nothing was fetched much before.
    """

    def open(self) -> None:
        """Consumers are made in rounds."""

    def close(self) -> None:
        """And closed there, outside of what is timed."""

    def round(self, count: int) -> Taken:
        tally = Tally(count, self.record_bytes)
        self.read(tally)
        if tally.taken is None:
            raise WrongAnswerError(f"there were no {count} records to read")
        return tally.taken

    @abstractmethod
    def read(self, tally: Tally) -> None:
        """Read from the beginning until the tally has enough, or nothing more comes."""


class OttlaReading(Reading):
    def read(self, tally: Tally) -> None:
        import ottla

        consumer: ottla.Consumer = ottla.Consumer(bootstrap_servers=self.address)
        try:
            consumer.assign({ottla.TopicPartition(self.topic, 0): 0})
            self.read_all(consumer, tally)
        finally:
            consumer.close()

    @abstractmethod
    def read_all(self, consumer: Any, tally: Tally) -> None: ...


class OttlaIteration(OttlaReading):
    title = "`for record in ottla.Consumer`"

    def read_all(self, consumer: Any, tally: Tally) -> None:
        size_bytes = 0
        for number, record in enumerate(consumer, 1):
            size_bytes += len(record.value)
            if number % POLL_RECORDS == 0:
                if tally.is_enough(POLL_RECORDS, size_bytes):
                    return
                size_bytes = 0


class OttlaBatches(OttlaReading):
    title = "`ottla.Consumer.batches`"

    def read_all(self, consumer: Any, tally: Tally) -> None:
        for batch in consumer.batches(WAIT_S):
            size_bytes = 0
            for record in batch:
                size_bytes += len(record.value)
            if tally.is_enough(len(batch), size_bytes):
                return


class OttlaPollArrow(OttlaReading):
    title = "`ottla.Consumer.poll_arrow`"
    needs = "pyarrow"

    def read_all(self, consumer: Any, tally: Tally) -> None:
        from pyarrow import compute

        while (rows := consumer.poll_arrow(WAIT_S)) is not None:
            lengths = compute.binary_length(rows.column("value"))
            if tally.is_enough(rows.num_rows, compute.sum(lengths).as_py()):
                return


class ConfluentConsume(Reading):
    title = f"confluent-kafka `consume({POLL_RECORDS})`"
    needs = "confluent_kafka"

    def read(self, tally: Tally) -> None:
        import confluent_kafka

        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "bench",
                "enable.auto.commit": False,
                "queued.min.messages": 10_000_000,
                "fetch.queue.backoff.ms": 5,
                "max.partition.fetch.bytes": FETCH_BYTES,
            }
        )
        try:
            consumer.assign([confluent_kafka.TopicPartition(self.topic, 0, 0)])
            while messages := consumer.consume(POLL_RECORDS, WAIT_S):
                size_bytes = 0
                for message in messages:
                    if message.error() is not None:
                        raise WrongAnswerError(str(message.error()))
                    size_bytes += len(message.value() or b"")
                if tally.is_enough(len(messages), size_bytes):
                    return
        finally:
            consumer.close()


class KafkaPythonPoll(Reading):
    title = "kafka-python `poll`"
    needs = "kafka"

    def read(self, tally: Tally) -> None:
        import kafka

        consumer: Any = kafka.KafkaConsumer(
            bootstrap_servers=self.address,
            enable_auto_commit=False,
            group_id=None,
            max_partition_fetch_bytes=FETCH_BYTES,
        )
        try:
            partition = kafka.TopicPartition(self.topic, 0)
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            while found := consumer.poll(timeout_ms=int(WAIT_S * 1000)):
                if tally.is_enough(*_added_up(found)):
                    return
        finally:
            consumer.close()


class AiokafkaGetmany(Looped, Reading):
    title = "aiokafka `getmany`"
    needs = "aiokafka"

    def read(self, tally: Tally) -> None:
        self.run(self._read(tally))

    async def _read(self, tally: Tally) -> None:
        import aiokafka

        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.address,
            enable_auto_commit=False,
            group_id=None,
            max_partition_fetch_bytes=FETCH_BYTES,
        )
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(self.topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            while found := await consumer.getmany(timeout_ms=int(WAIT_S * 1000)):
                if tally.is_enough(*_added_up(found)):
                    return
        finally:
            await consumer.stop()


def _added_up(found: Mapping[Any, Sequence[Any]]) -> tuple[int, int]:
    record_count = size_bytes = 0
    for records in found.values():
        record_count += len(records)
        for record in records:
            size_bytes += len(record.value)
    return record_count, size_bytes


READERS: tuple[type[Contestant], ...] = (
    OttlaIteration,
    OttlaBatches,
    OttlaPollArrow,
    ConfluentConsume,
    KafkaPythonPoll,
    AiokafkaGetmany,
)
