"""Each client library's calls around committed offsets, behind one small face."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final, TypeVar

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.admin as kafka_admin
from aiokafka.admin import AIOKafkaAdminClient

TIMEOUT_S: Final = 90
T = TypeVar("T")


class GroupClient(ABC):
    """One client library."""

    name: ClassVar[str]

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    @abstractmethod
    def commit(self, group: str, topic: str, offset: int, metadata: str = "") -> None:
        """Commit an offset of partition 0, as a consumer that assigned itself."""

    @abstractmethod
    def committed(self, group: str, topic: str) -> int | None:
        """What is committed for partition 0."""

    @abstractmethod
    def consume(self, group: str, topic: str, count: int) -> list[int]:
        """Join, read so many records, commit automatically on leaving: the offsets read."""

    @abstractmethod
    def groups(self) -> set[str]:
        """The names of all groups."""

    @abstractmethod
    def state(self, group: str) -> str:
        """The state of a group, as the protocol words it."""


class ConfluentGroups(GroupClient):
    """confluent-kafka, which is librdkafka."""

    name = "confluent-kafka"

    def commit(self, group: str, topic: str, offset: int, metadata: str = "") -> None:
        consumer = self._consumer(group)
        place = confluent_kafka.TopicPartition(topic, 0, offset, metadata)
        (committed,) = consumer.commit(offsets=[place], asynchronous=False)
        assert committed.error is None, committed.error
        consumer.close()

    def committed(self, group: str, topic: str) -> int | None:
        consumer = self._consumer(group)
        (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=TIMEOUT_S)
        consumer.close()
        assert found.error is None, found.error
        return None if found.offset == confluent_kafka.OFFSET_INVALID else found.offset

    def consume(self, group: str, topic: str, count: int) -> list[int]:
        consumer = self._consumer(group, **{"enable.auto.commit": True})
        consumer.subscribe([topic])
        read: list[int] = []
        while len(read) < count:
            (message,) = consumer.consume(1, timeout=TIMEOUT_S)
            assert message.error() is None, message.error()
            offset = message.offset()
            assert offset is not None
            read.append(offset)
        consumer.close()
        return read

    def groups(self) -> set[str]:
        admin = self._admin()  # without a name it would end before its answer is there
        listed = admin.list_consumer_groups().result(TIMEOUT_S)
        assert listed.errors == [], listed.errors
        return {group.group_id for group in listed.valid}

    def state(self, group: str) -> str:
        admin = self._admin()
        described = admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
        return {"DEAD": "Dead", "EMPTY": "Empty", "STABLE": "Stable"}[described.state.name]

    def _consumer(self, group: str, **settings: Any) -> confluent_kafka.Consumer:
        given = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        return confluent_kafka.Consumer({**given, **settings})

    def _admin(self) -> confluent_kafka.admin.AdminClient:
        return confluent_kafka.admin.AdminClient({"bootstrap.servers": self.bootstrap_servers})


class KafkaPythonGroups(GroupClient):
    """kafka-python."""

    name = "kafka-python"

    def commit(self, group: str, topic: str, offset: int, metadata: str = "") -> None:
        consumer = self._consumer(group)
        place = kafka.TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.commit({place: kafka.OffsetAndMetadata(offset, metadata, -1)})
        consumer.close()

    def committed(self, group: str, topic: str) -> int | None:
        consumer = self._consumer(group)
        found: int | None = consumer.committed(kafka.TopicPartition(topic, 0))
        consumer.close()
        return found

    def consume(self, group: str, topic: str, count: int) -> list[int]:
        consumer = self._consumer(group, enable_auto_commit=True, max_poll_records=1)
        consumer.subscribe([topic])
        read: list[int] = []
        while len(read) < count:
            polled = consumer.poll(TIMEOUT_S * 1000)
            assert polled, "nothing came"
            read += [record.offset for records in polled.values() for record in records]
        consumer.close()
        return read

    def groups(self) -> set[str]:
        return self._with_admin(lambda admin: {g["group_id"] for g in admin.list_groups()})

    def state(self, group: str) -> str:
        found: str = self._with_admin(
            lambda admin: admin.describe_groups([group])[group]["group_state"]
        )
        return found

    def _consumer(self, group: str, **settings: Any) -> Any:
        given = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **settings}
        return kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap_servers, group_id=group, **given
        )

    def _with_admin(self, act: Callable[[Any], T]) -> T:
        admin = kafka_admin.KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            return act(admin)
        finally:
            admin.close()


class AiokafkaGroups(GroupClient):
    """aiokafka, on a loop of its own for each call."""

    name = "aiokafka"

    def commit(self, group: str, topic: str, offset: int, metadata: str = "") -> None:
        async def act(consumer: Any) -> None:
            place = aiokafka.TopicPartition(topic, 0)
            consumer.assign([place])
            await consumer.commit({place: (offset, metadata)})

        self._with_consumer(group, act)

    def committed(self, group: str, topic: str) -> int | None:
        async def act(consumer: Any) -> int | None:
            found: int | None = await consumer.committed(aiokafka.TopicPartition(topic, 0))
            return found

        return self._with_consumer(group, act)

    def consume(self, group: str, topic: str, count: int) -> list[int]:
        async def act(consumer: Any) -> list[int]:
            consumer.subscribe([topic])
            async with asyncio.timeout(TIMEOUT_S):
                return [(await consumer.getone()).offset for _ in range(count)]

        return self._with_consumer(group, act, enable_auto_commit=True)

    def groups(self) -> set[str]:
        async def act(admin: Any) -> set[str]:
            return {group_id for group_id, _ in await admin.list_consumer_groups()}

        return self._with_admin(act)

    def state(self, group: str) -> str:
        async def act(admin: Any) -> str:
            (described,) = await admin.describe_consumer_groups([group])
            state: str = described.groups[0][2]
            return state

        return self._with_admin(act)

    def _with_consumer(self, group: str, act: Callable[[Any], Awaitable[T]], **settings: Any) -> T:
        given = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **settings}

        async def run() -> T:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap_servers, group_id=group, **given
            )
            await consumer.start()
            try:
                return await act(consumer)
            finally:
                await consumer.stop()

        return asyncio.run(run())

    def _with_admin(self, act: Callable[[Any], Awaitable[T]]) -> T:
        async def run() -> T:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
            await admin.start()
            try:
                return await act(admin)
            finally:
                await admin.close()

        return asyncio.run(run())


GROUP_CLIENTS: Final[tuple[type[GroupClient], ...]] = (
    ConfluentGroups,
    KafkaPythonGroups,
    AiokafkaGroups,
)
