"""The group coordinators of this broker: one shard for each partition of `__consumer_offsets`.

The topic is created when the first group asks for its coordinator, with Kafka's settings for it.  A
group belongs to the partition that the hash of its name says, and whoever leads that partition
coordinates it; on one node that is always us.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.broker.partition import Partition
from ottla.broker.shard import Shard
from ottla.cluster.controller import NewTopic
from ottla.coordinator.effects import Effect, Ticket
from ottla.coordinator.group.classic import Caller
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.errors import ErrorCode, StorageError
from ottla.model import CONSUMER_OFFSETS_TOPIC, coordinator_partition

if TYPE_CHECKING:
    from ottla.broker.context import Context, Node

log = logging.getLogger(__name__)

R = TypeVar("R")
A = TypeVar("A")

_TOPIC_SETTINGS: Final = (
    ("cleanup.policy", "compact"),
    ("compression.type", "producer"),
)


class GroupShard(Shard):
    """A shard whose machine coordinates groups."""

    def __init__(self, machine: GroupCoordinator, partition: Partition, node: "Node") -> None:
        super().__init__(machine, partition, node.ports.clock, node.flusher)
        self.machine = machine
        self._deleted_topics: set[str] = set()  # while it loads

    async def load(self) -> None:
        """Read the log, and forget the offsets of topics that were deleted meanwhile."""
        await super().load()
        self.tell(self.machine.on_topics_deleted(frozenset(self._deleted_topics)))
        self._deleted_topics.clear()

    def on_topic_deleted(self, name: str) -> None:
        """Forget the offsets of a topic, now or when all of them are known."""
        if self.is_loaded:
            self.tell(self.machine.on_topics_deleted(frozenset({name})))
        else:
            self._deleted_topics.add(name)


class Groups:
    """Finds the shard of a group, creating and loading what is missing."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._shards: dict[int, GroupShard] = {}
        self._loading: set[asyncio.Task[None]] = set()
        self._creation: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to load the shards of a topic that exists; requests need not wait for all."""
        if CONSUMER_OFFSETS_TOPIC in self._node.controller.image.topics:
            self._open_shards()

    async def ensure_topic(self) -> None:
        """Create `__consumer_offsets` if this is its first use."""
        if self._creation is None or self._creation.done():
            if CONSUMER_OFFSETS_TOPIC in self._node.controller.image.topics:
                return
            self._creation = asyncio.get_running_loop().create_task(self._create_topic())
        # Others wait for it too: it goes on when the client that asked first is gone.
        await asyncio.shield(self._creation)

    async def find(self, group_id: str) -> GroupShard | ErrorCode:
        """The shard of a group, or the error code to answer."""
        await self.ensure_topic()
        topic = self._node.controller.image.topics.get(CONSUMER_OFFSETS_TOPIC)
        if topic is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        shard = self._shards.get(coordinator_partition(group_id, len(topic.partitions)))
        if shard is None or shard.is_broken:
            self._open_shards()
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return shard if shard.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def all_loaded(self) -> list[GroupShard] | ErrorCode:
        """All shards, for requests about all groups."""
        if any(not shard.is_loaded for shard in self._shards.values()):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return list(self._shards.values())

    def on_topic_deleted(self, name: str) -> None:
        """A topic is gone, and so are the offsets that groups have committed for it."""
        for shard in self._shards.values():
            if name == CONSUMER_OFFSETS_TOPIC:
                shard.give_up(StorageError("its topic was deleted"))
            else:
                shard.on_topic_deleted(name)

    def close(self) -> None:
        """Stop all shards; what they persisted is in their logs."""
        if self._creation is not None:
            self._creation.cancel()
        for task in self._loading:
            task.cancel()
        for shard in self._shards.values():
            shard.close()

    async def _create_topic(self) -> None:
        groups = self._node.config.groups
        new = NewTopic(
            name=CONSUMER_OFFSETS_TOPIC,
            partition_count=groups.offsets_partitions,
            configs=(
                *_TOPIC_SETTINGS,
                ("segment.bytes", str(groups.offsets_segment_bytes)),
            ),
        )
        (outcome,) = await self._node.controller.create_topics([new])
        if outcome.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            log.error(
                "topic not created: topic=%s error=%s %s",
                CONSUMER_OFFSETS_TOPIC,
                outcome.error.name,
                outcome.message,
            )
            return
        self._open_shards()
        await asyncio.gather(*self._loading)

    def _open_shards(self) -> None:
        topic = self._node.controller.image.topics[CONSUMER_OFFSETS_TOPIC]
        for partition in topic.partitions:
            found = self._node.partitions.find(CONSUMER_OFFSETS_TOPIC, partition.index)
            current = self._shards.get(partition.index)
            if isinstance(found, ErrorCode) or (current is not None and not current.is_broken):
                continue
            machine = GroupCoordinator(
                self._node.config.groups, self._node.ports.entropy.random_bytes
            )
            shard = GroupShard(machine, found, self._node)
            self._shards[partition.index] = shard
            task = asyncio.get_running_loop().create_task(shard.load())
            self._loading.add(task)
            task.add_done_callback(self._on_load_ended)

    def _on_load_ended(self, task: "asyncio.Task[None]") -> None:
        self._loading.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("coordinator not loaded, its groups have to wait", exc_info=error)


Verb = Callable[[GroupCoordinator, R, Caller, Ticket, int], list[Effect]]
"""A method of the coordinator, e.g. `GroupCoordinator.join`."""


async def ask(
    context: "Context",
    group_id: str,
    verb: Verb[R],
    request: R,
    refuse: Callable[[ErrorCode], A],
) -> A:
    """Put one group's request to its coordinator; `refuse` makes the response if there is none."""
    shard = await context.node.groups.find(group_id)
    if isinstance(shard, ErrorCode):
        return refuse(shard)
    answer: A = await put(shard, context, verb, request)
    return answer


async def put(shard: GroupShard, context: "Context", verb: Verb[R], request: R) -> Any:
    """Put a request to the coordinator of one shard."""
    caller, machine = caller_of(context), shard.machine
    return await shard.ask(lambda ticket, now_ms: verb(machine, request, caller, ticket, now_ms))


def caller_of(context: "Context") -> Caller:
    """Who is asking, as the coordinators remember it."""
    return Caller(
        client_id=context.client_id or "",
        client_host=f"/{context.session.peer[0]}",
        version=context.version,
    )
