"""The cluster as one broker sees it: brokers, topics, leaders and settings, immutable.

An image never changes; `ottla.cluster.changes` makes the next one.  So whoever holds an image can
read it across an `await`, and two lookups in it always agree.
"""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final

from ottla.model import INTERNAL_TOPICS
from ottla.values import dataclass

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """A registered broker, and the address that clients are told."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    index: int
    leader: int
    leader_epoch: int
    """Grows whenever the leader changes."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0
    """Grows whenever anything about the partition changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...]
    overrides: Mapping[str, str] = field(default_factory=dict)
    """The settings that were given for this topic; `Controller.topic_config` has them all."""
    is_internal: bool = False

    @property
    def replication_factor(self) -> int:
        """Of the first partition: all partitions are created alike."""
        return len(self.partitions[0].replicas)

    @staticmethod
    def has_internal_name(name: str) -> bool:
        """Whether the broker itself writes the topic of this name."""
        return name in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    cluster_id: str
    controller_id: int
    brokers: Mapping[int, BrokerImage]
    topics: Mapping[str, TopicImage]
    broker_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Settings given while running: by node id as text, and by "" for all brokers."""
    features: Mapping[str, int] = field(default_factory=dict)
    """Finalized features and their levels."""
    next_producer_id: int = 0
    names: Mapping[bytes, str] = field(default_factory=dict)
    """Topic id -> name; derived where it is not given."""

    def __post_init__(self) -> None:
        if len(self.names) != len(self.topics):
            names = {topic.topic_id: name for name, topic in self.topics.items()}
            object.__setattr__(self, "names", names)
        assert len(self.names) == len(self.topics), "two topics have one id"

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.names.get(topic_id)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        name = self.names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]
