"""The group coordinators of this broker: one shard for each partition of `__consumer_offsets`."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.broker.coordinators import Coordinators
from ottla.broker.partition import Partition
from ottla.broker.shard import Decision, Reply, Shard
from ottla.cluster.topics import NewTopic
from ottla.coordinator.caller import Caller
from ottla.coordinator.effects import Effect, Ticket
from ottla.coordinator.group.consumer.topics import Topics
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.errors import ErrorCode
from ottla.model import CONSUMER_OFFSETS_TOPIC

if TYPE_CHECKING:
    from ottla.broker.context import Context, Node

R = TypeVar("R")
A = TypeVar("A")

_TOPIC_SETTINGS: Final = (
    ("cleanup.policy", "compact"),
    ("compression.type", "producer"),
)


GROUP_OPERATIONS: Final = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""READ, DELETE, DESCRIBE and both for configs: without an authorizer everybody may."""


class GroupShard(Shard):
    """A shard whose machine coordinates groups."""

    def __init__(self, machine: GroupCoordinator, partition: Partition, node: "Node") -> None:
        super().__init__(machine, partition, node.ports.clock, node.ports.disk, node.flusher)
        self.machine = machine
        self._node = node
        self._deleted_topics: set[str] = set()  # while it loads

    async def load(self) -> None:
        """Read the log, and forget the offsets of topics that were deleted meanwhile.

        Those count, too, of which a crash kept us from hearing: our own metadata is never behind.
        """
        await super().load()
        if self.is_broken:
            return
        self.tell(self.machine.on_topics_deleted(frozenset(self._deleted_topics)))
        self._deleted_topics.clear()
        topics = self._node.controller.image.topics.values()
        self.tell(self.machine.on_topics_known({topic.name: topic.topic_id for topic in topics}))

    def on_topic_deleted(self, name: str) -> None:
        """Forget the offsets of a topic, now or when all of them are known."""
        if self.is_loaded:
            self.tell(self.machine.on_topics_deleted(frozenset({name})))
        else:
            self._deleted_topics.add(name)


class Groups(Coordinators[GroupShard]):
    """Finds the shard of a group, creating and loading what is missing."""

    topic = CONSUMER_OFFSETS_TOPIC

    def _new_topic(self) -> NewTopic:
        groups = self._node.config.groups
        return NewTopic(
            name=self.topic,
            partition_count=groups.offsets_partitions,
            configs=(
                *_TOPIC_SETTINGS,
                ("segment.bytes", str(groups.offsets_segment_bytes)),
            ),
        )

    def _new_shard(self, partition: Partition) -> GroupShard:
        machine = GroupCoordinator(
            self._node.config.groups,
            self._node.ports.entropy.random_bytes,
            topics=self._current_topics(),
            max_record_bytes=partition.config.max_message_bytes,
        )
        return GroupShard(machine, partition, self._node)

    def on_topics_changed(self) -> None:
        """Topics came, grew or went: all shards see the same, from now on."""
        topics = self._current_topics()
        for shard in self._shards.values():
            shard.machine.on_topics_changed(topics)

    def _current_topics(self) -> Topics:
        image = self._node.controller.image
        return Topics(image.topics, image.names)

    def on_marker(self, index: int, producer_id: int, *, committed: bool) -> None:
        """A transaction has ended in one partition of the topic: its offsets count, or never did.

        A shard that is not loaded finds the marker in its log.
        """
        shard = self._shards.get(index)
        if shard is not None and shard.is_loaded:
            shard.machine.apply_marker(producer_id, committed=committed)

    def on_topic_deleted(self, name: str) -> None:
        """A topic is gone, and so are the offsets that groups have committed for it."""
        super().on_topic_deleted(name)
        if name != self.topic:
            for shard in self._shards.values():
                shard.on_topic_deleted(name)


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
    decision = partial(_decision, caller=context.caller, verb=verb, request=request)
    return await context.node.groups.ask(group_id, decision, refuse)


def ask_at_once(
    context: "Context",
    group_id: str,
    verb: Verb[R],
    request: R,
    refuse: Callable[[ErrorCode], A],
) -> Reply[A]:
    """As `ask`, but it costs no task where the coordinator is there and need not wait."""
    shard = context.node.groups.loaded(group_id)
    if shard is None:
        return ask(context, group_id, verb, request, refuse)
    return shard.ask_at_once(_decision(shard, context.caller, verb, request), refuse)


async def put(shard: GroupShard, context: "Context", verb: Verb[R], request: R) -> Any:
    """Put a request to the coordinator of one shard."""
    return await shard.ask(_decision(shard, context.caller, verb, request))


def _decision(shard: GroupShard, caller: Caller, verb: Verb[R], request: R) -> Decision:
    machine = shard.machine
    return lambda ticket, now_ms: verb(machine, request, caller, ticket, now_ms)


def serves_consumer_groups(context: "Context") -> bool:
    """Whether groups of the new protocol may exist (`group.coordinator.rebalance.protocols`)."""
    return "consumer" in context.node.config.groups.rebalance_protocols
