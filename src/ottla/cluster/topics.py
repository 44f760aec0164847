"""What a new topic, or a grown one, would be; or why it cannot be.

Pure: the functions here look at brokers and settings, and answer with partitions or a `Refusal`.
`ottla.cluster.topic_requests` decides on whole requests with them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

from ottla.cluster.decision import Refusal
from ottla.cluster.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from ottla.cluster.placement import place
from ottla.errors import ErrorCode
from ottla.model import INTERNAL_TOPICS, collision_key, topic_name_error
from ottla.values import dataclass

BROKER_DECIDES: Final = -1
MAX_PARTITIONS_PER_REQUEST: Final = 10_000
_METADATA_TOPIC: Final = "__cluster_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """What a client, or the broker itself, wants to create."""

    name: str
    partition_count: int = BROKER_DECIDES
    replication_factor: int = BROKER_DECIDES
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    """Partition index and brokers, if the client places replicas itself."""
    configs: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """How many partitions a topic shall have, all in all."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None
    """The brokers of each new partition, if the client places replicas itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOutcome:
    """What became of one topic of a request."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic: TopicImage | None = None
    """The topic as it is now, or was before it was deleted; None if the request was refused."""

    def but(self, refusal: Refusal) -> Self:
        """The same topic, refused."""
        return replace(self, error=refusal.error, message=refusal.message, topic=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What the broker's settings say where a request says nothing."""

    partition_count: int
    replication_factor: int
    start: float = 0.0
    """Where on the ring of brokers placement begins, in [0, 1)."""


def too_many_partitions(wanted: Iterable[int]) -> Refusal | None:
    """The whole request is refused if it would create more partitions than one should."""
    total = sum(count for count in wanted if count > 0)
    if total <= MAX_PARTITIONS_PER_REQUEST:
        return None
    return Refusal(
        ErrorCode.POLICY_VIOLATION,
        f"{total} partitions in one request, {MAX_PARTITIONS_PER_REQUEST} are allowed",
    )


def partitions_wanted(new: NewTopic, defaults: Defaults) -> int:
    """How many partitions a new topic would have; it may be an illegal number."""
    if new.assignments:
        return len(new.assignments)
    is_default = new.partition_count == BROKER_DECIDES
    return defaults.partition_count if is_default else new.partition_count


def name_refusal(name: str, image: ClusterImage, taken: Mapping[str, str]) -> Refusal | None:
    """Why a topic of this name cannot be created; `taken` is collision key -> topic."""
    if (reason := topic_name_error(name)) is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name == _METADATA_TOPIC:
        return Refusal(ErrorCode.INVALID_REQUEST, f"{name} is reserved")
    if name in image.topics:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
    if (other := taken.get(collision_key(name))) is not None:
        return Refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic {name!r} collides with {other!r}: metrics cannot tell '.' from '_'",
        )
    return None


def new_partitions(
    new: NewTopic, brokers: Mapping[int, BrokerImage], defaults: Defaults
) -> tuple[PartitionImage, ...] | Refusal:
    """The partitions of a new topic."""
    if new.assignments:
        return _assigned(new, brokers)
    if new.replication_factor < BROKER_DECIDES or new.replication_factor == 0:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {new.replication_factor} is not positive, or -1 for the default",
        )
    if new.partition_count < BROKER_DECIDES or new.partition_count == 0:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"{new.partition_count} partitions: it must be positive, or -1 for the default",
        )
    factor = new.replication_factor
    if factor == BROKER_DECIDES:
        factor = defaults.replication_factor
    indexes = range(partitions_wanted(new, defaults))
    return _placed(indexes, factor, brokers, defaults.start)


def grown(
    topic: TopicImage, wanted: NewPartitions, brokers: Mapping[int, BrokerImage], start: float
) -> TopicImage | Refusal:
    """A topic with more partitions."""
    if topic.name in INTERNAL_TOPICS:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"the partitions of {topic.name!r} are fixed: what is in them is found by hashing",
        )
    existing = len(topic.partitions)
    if wanted.count <= existing:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {topic.name!r} has {existing} partitions; {wanted.count} are not more",
        )
    indexes = range(existing, wanted.count)
    if wanted.assignments is None:
        added = _placed(indexes, topic.replication_factor, brokers, start)
    elif len(wanted.assignments) != len(indexes):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{len(indexes)} partitions are added, but {len(wanted.assignments)} assigned",
        )
    else:
        added = _checked(
            list(zip(indexes, wanted.assignments, strict=True)), brokers, topic.replication_factor
        )
    if isinstance(added, Refusal):
        return added
    return replace(topic, partitions=(*topic.partitions, *added))


def _placed(
    indexes: range, factor: int, brokers: Mapping[int, BrokerImage], start: float
) -> tuple[PartitionImage, ...] | Refusal:
    if factor > len(brokers):
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} needs as many brokers, there are {len(brokers)}",
        )
    placed = place(brokers, indexes, factor, start=start)
    return tuple(_partition(i, replicas) for i, replicas in zip(indexes, placed, strict=True))


def _assigned(
    new: NewTopic, brokers: Mapping[int, BrokerImage]
) -> tuple[PartitionImage, ...] | Refusal:
    if (new.replication_factor, new.partition_count) != (BROKER_DECIDES, BROKER_DECIDES):
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            "with a manual assignment, partitions and replication factor must be -1",
        )
    by_index = dict(new.assignments)
    if sorted(index for index, _ in new.assignments) != list(range(len(new.assignments))):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"partitions {sorted(by_index)} are not 0, 1, 2 and so on, each once",
        )
    return _checked(sorted(by_index.items()), brokers, len(by_index[0]))


def _checked(
    assignments: Sequence[tuple[int, Sequence[int]]],
    brokers: Mapping[int, BrokerImage],
    factor: int,
) -> tuple[PartitionImage, ...] | Refusal:
    """The partitions of a manual assignment, each with `factor` replicas."""
    for index, replicas in assignments:
        problem = _assignment_problem(replicas, brokers, factor)
        if problem:
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index}: {problem}")
    return tuple(_partition(index, tuple(replicas)) for index, replicas in assignments)


def _assignment_problem(
    replicas: Sequence[int], brokers: Mapping[int, BrokerImage], factor: int
) -> str:
    if not replicas:
        return "no replicas"
    if unknown := [node_id for node_id in replicas if node_id not in brokers]:
        return f"there is no broker {unknown[0]}"
    if len(set(replicas)) != len(replicas):
        return f"a broker occurs twice in {list(replicas)}"
    if len(replicas) != factor:
        return f"{len(replicas)} replicas, other partitions have {factor}"
    return ""


def _partition(index: int, replicas: tuple[int, ...]) -> PartitionImage:
    return PartitionImage(
        index=index, leader=replicas[0], leader_epoch=0, replicas=replicas, isr=replicas
    )
