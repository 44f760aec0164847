"""What a client knows of a cluster: brokers, topics, leaders.

A `ClusterView` is never changed, only replaced, so any thread may read the newest one without a
lock, and one that is held stays consistent.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import NamedTuple

from ottla.client.addresses import Address
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.values import dataclass
from ottla.wire.messages.metadata import (
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.schema import NO_UUID

NO_EPOCH = -1


class Node(NamedTuple):
    """A broker, and where it listens.  Ids below zero stand for addresses to bootstrap from."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    def __str__(self) -> str:
        return str(self.address) if self.node_id < 0 else f"broker {self.node_id} ({self.address})"


class Leader(NamedTuple):
    """Who leads a partition, and since which election."""

    node_id: int
    epoch: int


class PartitionView(NamedTuple):
    partition: int
    leader_id: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """A topic that exists; its partitions are sorted, and number `i` is at position `i`."""

    name: str
    topic_id: bytes = NO_UUID
    is_internal: bool = False
    partitions: tuple[PartitionView, ...] = ()
    available: tuple[int, ...] = ()
    """Partitions that have a leader."""

    @property
    def partition_count(self) -> int:
        return len(self.partitions)

    @property
    def has_id(self) -> bool:
        return self.topic_id != NO_UUID

    @classmethod
    def of(cls, told: MetadataResponseTopic, partitions: Iterable[PartitionView]) -> "TopicView":
        assert told.name is not None
        ordered = tuple(sorted(partitions, key=lambda p: p.partition))
        return cls(
            name=told.name,
            topic_id=told.topic_id,
            is_internal=told.is_internal,
            partitions=ordered,
            available=tuple(p.partition for p in ordered if p.leader_id is not None),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """One answer after another, put together."""

    version: int = 0
    """How many updates it has seen; 0: nothing is known yet."""
    cluster_id: str | None = None
    controller_id: int | None = None
    nodes: Mapping[int, Node] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, TopicView] = field(default_factory=lambda: MappingProxyType({}))
    errors: Mapping[str, ErrorCode] = field(default_factory=lambda: MappingProxyType({}))
    """Topics that were asked about and cannot be told of -> why."""
    names: Mapping[bytes, str] = field(default_factory=lambda: MappingProxyType({}))
    """Topic id -> name."""

    @property
    def is_known(self) -> bool:
        return bool(self.nodes)

    def partition(self, tp: TopicPartition) -> PartitionView | None:
        topic = self.topics.get(tp.topic)
        if topic is None or not 0 <= tp.partition < len(topic.partitions):
            return None
        return topic.partitions[tp.partition]

    def leader(self, tp: TopicPartition) -> Leader | None:
        """Who leads a partition; None if nobody does, or nobody knows."""
        node_id = self.leader_id(tp)
        if node_id is None:
            return None
        return Leader(node_id, self.topics[tp.topic].partitions[tp.partition].leader_epoch)

    def leader_id(self, tp: TopicPartition) -> int | None:
        """As `leader`, for who asks before every request, and for nothing else."""
        topic, partition = tp
        view = self.topics.get(topic)
        if view is None or not 0 <= partition < len(view.partitions):
            return None
        node_id = view.partitions[partition].leader_id
        return node_id if node_id in self.nodes else None


def partition_view(told: MetadataResponsePartition) -> PartitionView:
    """A partition, as a broker told of it."""
    return PartitionView(
        partition=told.partition_index,
        leader_id=told.leader_id if told.leader_id >= 0 else None,
        leader_epoch=told.leader_epoch,
        replicas=tuple(told.replica_nodes),
        isr=tuple(told.isr_nodes),
        offline_replicas=tuple(told.offline_replicas),
        error=ErrorCode.of(told.error_code),
    )
