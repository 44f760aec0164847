"""An administrator who never rests: topics come and go, records are deleted, settings change.

None of it may harm the topics that the producers write to, except that records are deleted where
that was asked for; what was asked for is kept in `Bounds`.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.errors import ErrorCode
from ottla.ports import Ports
from ottla.records.builder import build
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.simulation.broker_clients import (
    ALL_REPLICAS,
    LATEST,
    LEADER_ONLY,
    LIST_OFFSETS_VERSION,
    Link,
    Spot,
)
from tests.simulation.journal import Journal

NOISE_TOPICS: Final = ("noise-a", "noise-b")
SETTINGS: Final = {
    "segment.ms": ("60", "200", "5000"),
    "index.interval.bytes": ("0", "500", "4096"),
    "segment.index.bytes": ("64", "10485760"),
    "max.message.bytes": ("100000", "1048588"),
}
COMPACTION: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
TOPIC_RESOURCE: Final = 2
SET: Final = 0


@dataclass(slots=True)
class Bounds:
    """How far records may have been deleted, and which topics there must be."""

    deleted_below: dict[str, int] = field(default_factory=dict)
    topics: dict[str, bool | None] = field(default_factory=dict)
    """Whether a topic of the noise exists; None where no answer came."""

    def violations(self, start_offsets: Mapping[str, int]) -> list[str]:
        """Which partitions begin later than anybody asked for."""
        return [
            f"{spot} begins at {start_offsets[spot]}, but only {below} was asked for"
            for spot, below in self.deleted_below.items()
            if start_offsets[spot] > below
        ]


class Admin:
    """Asks for one thing at a time."""

    def __init__(
        self, ports: Ports, name: str, journal: Journal, rng: random.Random, bounds: Bounds
    ) -> None:
        self._link = Link(ports, name)
        self._clock = ports.clock
        self._journal = journal
        self._rng = rng
        self._bounds = bounds
        self._lost_count = 0

    async def make_noise(self, altered: str, trimmed: Spot) -> None:
        """Change settings of topic `altered`, delete from `trimmed`, and use topics of its own."""
        acts: list[Callable[[], Awaitable[None]]] = [
            self._create_noise,
            self._fill_noise,
            self._delete_noise,
            lambda: self._delete_records(trimmed),
            lambda: self._alter(altered),
        ]
        while True:
            await asyncio.sleep(self._rng.uniform(0, 0.12))
            await self._rng.choice(acts)()

    async def create(self, name: str, partition_count: int, settings: Mapping[str, str]) -> bool:
        """Create a topic; whether that was acknowledged."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partition_count,
            replication_factor=1,
            assignments=(),
            configs=tuple(
                CreatableTopicConfig(name=setting, value=value)
                for setting, value in settings.items()
            ),
        )
        answer = await self._link.ask(CreateTopicsRequest(topics=(topic,)), 7)
        if answer is None:
            return False
        code = ErrorCode(answer.topics[0].error_code)
        self._journal.done[f"create {code.name}"] += 1
        return code is ErrorCode.NONE

    async def delete(self, name: str) -> bool:
        """Delete a topic; whether that was acknowledged."""
        return await self._ask_to_delete(name) is ErrorCode.NONE

    async def _ask_to_delete(self, name: str) -> ErrorCode | None:
        answer = await self._link.ask(DeleteTopicsRequest(topic_names=(name,), timeout_ms=1000), 5)
        if answer is None:
            return None
        code = ErrorCode(answer.responses[0].error_code)
        self._journal.done[f"delete {code.name}"] += 1
        return code

    async def fill(self, name: str, acks: int) -> ErrorCode | None:
        """Write a record that nobody will look for; the error code, or None without an answer."""
        batch = build([(self._clock.now_ms(), b"key", b"x" * 200, ())])
        data = PartitionProduceData(index=0, records=batch)
        request = ProduceRequest(
            acks=acks,
            timeout_ms=1000,
            topic_data=(TopicProduceData(name=name, partition_data=(data,)),),
        )
        answer = await self._link.ask(request, 9)
        if answer is None:
            self._lost_count += 1
            return None
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    async def _create_noise(self) -> None:
        name = self._rng.choice(NOISE_TOPICS)
        before = self._bounds.topics.get(name, False)
        self._bounds.topics[name] = None
        settings = self._rng.choice(({}, COMPACTION))
        if await self.create(name, self._rng.randint(1, 2), settings):
            if before is True:
                self._journal.violate(f"{name} was created, though it existed")
            self._bounds.topics[name] = True
            await self._expect_empty(name)

    async def _expect_empty(self, name: str) -> None:
        """A new topic has nothing of an older one of that name, but what was still on its way."""
        asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
        request = ListOffsetsRequest(
            replica_id=-1, topics=(ListOffsetsTopic(name=name, partitions=(asked,)),)
        )
        answer = await self._link.ask(request, LIST_OFFSETS_VERSION)
        if answer is not None and answer.topics[0].partitions[0].offset > self._lost_count:
            self._journal.violate(f"{name} is new, and has records of an old one")

    async def _fill_noise(self) -> None:
        name = self._rng.choice(NOISE_TOPICS)
        for _ in range(self._rng.randint(1, 3)):
            code = await self.fill(name, self._rng.choice((ALL_REPLICAS, LEADER_ONLY)))
            if code is not None:
                self._journal.done[f"fill {code.name}"] += 1

    async def _delete_noise(self) -> None:
        name = self._rng.choice(NOISE_TOPICS)
        before = self._bounds.topics.get(name, False)
        self._bounds.topics[name] = None
        code = await self._ask_to_delete(name)
        if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            if before is (code is not ErrorCode.NONE):
                self._journal.violate(f"deleting {name}: {code.name}, but it exists: {before}")
            self._bounds.topics[name] = False

    async def _delete_records(self, spot: Spot) -> None:
        """Delete a little more than before; an offset that is not there yet is refused."""
        highest = self._bounds.deleted_below.get(str(spot), 0)
        offset = highest + self._rng.randint(1, 6)
        self._bounds.deleted_below[str(spot)] = offset
        asked = DeleteRecordsPartition(partition_index=spot.index, offset=offset)
        request = DeleteRecordsRequest(
            topics=(DeleteRecordsTopic(name=spot.topic, partitions=(asked,)),), timeout_ms=1000
        )
        answer = await self._link.ask(request, 2)
        if answer is None:
            return
        result = answer.topics[0].partitions[0]
        self._journal.done[f"delete records {ErrorCode(result.error_code).name}"] += 1
        if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._bounds.deleted_below[str(spot)] = highest
        elif result.error_code == ErrorCode.NONE and result.low_watermark < offset:
            self._journal.violate(f"{spot} begins at {result.low_watermark}, not at {offset}")

    async def _alter(self, topic: str) -> None:
        name = self._rng.choice(sorted(SETTINGS))
        config = AlterableConfig(
            name=name, config_operation=SET, value=self._rng.choice(SETTINGS[name])
        )
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configs=(config,)
        )
        answer = await self._link.ask(
            IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1
        )
        if answer is not None:
            code = ErrorCode(answer.responses[0].error_code)
            self._journal.done[f"alter {code.name}"] += 1
            if code is not ErrorCode.NONE:
                self._journal.violate(f"alter {config}: {answer.responses[0].error_message}")
