"""Topics: creating, listing, describing, growing and deleting them.

A topic exists when the controller says so; brokers hear of it a moment later.  `create_topic`
returns when they have, so that whoever goes on to use the topic finds it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ottla.client.admin.calling import Caller, NoLeaderError, together
from ottla.client.admin.configs import ConfigEntry, ConfigValue, text_of, topic_configs
from ottla.client.admin.outcomes import Results, all_or_raise, outcome_of
from ottla.client.admin.positions import EARLIEST, LATEST, offsets_at
from ottla.client.targets import CONTROLLER
from ottla.errors import (
    ErrorCode,
    OttlaError,
    RequestError,
    UnknownTopicError,
    exception_for,
    raise_for_code,
)
from ottla.model import TopicPartition, uuid_text
from ottla.values import dataclass
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from ottla.wire.schema import NO_UUID

_DEFAULT: Final = -1
_DOUBT: Final = "An earlier attempt of this call got no answer: it may have been the one."


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """A partition: who has it, and which offsets it has."""

    id: int
    leader: int | None
    """None while nobody leads it; then its offsets are not known."""
    leader_epoch: int | None
    """How often it had another leader; None: the broker does not tell."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start_offset: int | None
    end_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic, its partitions by number, and all of its settings."""

    name: str
    topic_id: str
    """As Kafka writes it, 22 characters."""
    internal: bool
    replication_factor: int
    """Of its first partition."""
    partitions: tuple[PartitionInfo, ...]
    config: Mapping[str, str]


Offsets = Mapping[TopicPartition, int | OttlaError]


async def create_topic(
    caller: Caller,
    name: str,
    *,
    partitions: int = 1,
    replication_factor: int = _DEFAULT,
    config: Mapping[str, ConfigValue] | None = None,
    assignments: Mapping[int, Sequence[int]] | None = None,
    exists_ok: bool = False,
    dry_run: bool = False,
) -> TopicInfo:
    """Create a topic, and wait until the brokers know it.

    Args:
        name: Its name.
        partitions: How many partitions it has; -1: as many as the broker finds right.
        replication_factor: How many brokers have each of them; -1: as the broker is set.
        config: Settings that are not to have their defaults.
        assignments: Partition -> the brokers that have it, first its preferred leader, in place of
            `partitions` and `replication_factor`.
        exists_ok: If there is one of that name, describe it as it is.
        dry_run: Only say what it would be like.

    Raises:
        TopicExistsError: There is a topic of that name.
        RequestError: The name, a setting or a number is not allowed.
    """
    wanted = CreatableTopic(
        name=name,
        num_partitions=_DEFAULT if assignments else partitions,
        replication_factor=_DEFAULT if assignments else replication_factor,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=tuple(brokers))
            for index, brokers in (assignments or {}).items()
        ),
        configs=tuple(
            CreatableTopicConfig(name=key, value=text_of(value))
            for key, value in (config or {}).items()
        ),
    )
    answer = await caller.call(
        CreateTopicsRequest(topics=(wanted,), timeout_ms=caller.answer_ms, validate_only=dry_run),
        CreateTopicsResponse,
        to=CONTROLLER,
        failure=lambda got: got.topics[0].error_code,
    )
    (result,) = answer.topics
    if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and exists_ok:
        return await describe_topic(caller, name)
    if result.error_code != ErrorCode.NONE:
        error = exception_for(result.error_code, result.error_message or f"topic {name!r}")
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and caller.has_doubt:
            error.add_note(_DOUBT)
        raise error
    return _imagined(result) if dry_run else await _known(caller, name)


async def delete_topic(caller: Caller, *names: str, missing_ok: bool = False) -> None:
    """Delete topics and everything in them.

    If one cannot be deleted the others are all the same; the error has notes about them.

    Raises:
        UnknownTopicError: There is no such topic, and `missing_ok` is False.
    """

    async def attempt(pending: Sequence[str]) -> dict[str, bool | OttlaError]:
        answer = await caller.ask(
            DeleteTopicsRequest(
                topics=tuple(DeleteTopicState(name=name, topic_id=NO_UUID) for name in pending),
                topic_names=tuple(pending),
                timeout_ms=caller.answer_ms,
            ),
            DeleteTopicsResponse,
            to=CONTROLLER,
        )
        return {
            told.name or "": outcome_of(
                told.error_code, told.error_message or f"topic {told.name!r}", True
            )
            for told in answer.responses
        }

    outcomes = await caller.settle(names, attempt, what="deleting topics", to=CONTROLLER)
    for name, outcome in outcomes.items():
        # An attempt without an answer may have deleted it: then it is gone, as it should be.
        if isinstance(outcome, UnknownTopicError) and (missing_ok or caller.has_doubt):
            outcomes[name] = True
    all_or_raise(outcomes)


async def list_topics(caller: Caller, *, internal: bool = False) -> list[str]:
    """The names of all topics that we may see, sorted; with `internal`, of the brokers' own too."""
    topics = await caller.topics(None)
    return sorted(name for name, topic in topics.items() if internal or not topic.is_internal)


async def list_partitions(
    caller: Caller, topics: Collection[str], *, missing_ok: bool = False
) -> list[TopicPartition]:
    """All partitions of some topics, sorted; with `missing_ok`, of those that exist.

    Raises:
        UnknownTopicError: There is no such topic.
    """
    told = await caller.topics(topics) if topics else {}
    found: list[TopicPartition] = []
    for name in topics:
        code = told[name].error_code if name in told else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not missing_ok:
            raise_for_code(code, f"topic {name!r}")
            found += [TopicPartition(name, p.partition_index) for p in told[name].partitions]
    return sorted(found)


async def describe_topic(caller: Caller, name: str) -> TopicInfo:
    """Partitions, leaders, offsets and settings of a topic.

    Raises:
        UnknownTopicError: There is no such topic.
    """
    return (await describe_topics(caller, (name,)))[name]


async def describe_topics(caller: Caller, names: Collection[str]) -> Results[str, TopicInfo]:
    """As `describe_topic`, for several topics at once; what fails is in `errors` of the result."""
    told = await caller.topics(names) if names else {}
    topics = {name: topic for name, topic in told.items() if topic.error_code == ErrorCode.NONE}
    partitions = [
        TopicPartition(name, partition.partition_index)
        for name, topic in topics.items()
        for partition in topic.partitions
    ]
    starts, ends = await together(
        offsets_at(caller, partitions, timestamp_ms, waits_for_leaders=False, told=topics)
        for timestamp_ms in (EARLIEST, LATEST)
    )
    configs = await topic_configs(caller, topics)
    outcomes: dict[str, TopicInfo | OttlaError] = {}
    for name in names:
        topic = told.get(name)
        if topic is None or topic.error_code != ErrorCode.NONE:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code
            outcomes[name] = exception_for(code, f"topic {name!r}")
        else:
            outcomes[name] = _info(topic, starts, ends, configs.get(name, {}))
    return Results(outcomes)


async def add_partitions(
    caller: Caller,
    name: str,
    *,
    total: int,
    assignments: Sequence[Sequence[int]] | None = None,
    dry_run: bool = False,
) -> None:
    """Give a topic more partitions.  Records with a key may go elsewhere from then on.

    Args:
        name: The topic.
        total: How many it has afterwards.
        assignments: For each new partition the brokers that have it; None: as the cluster likes.
        dry_run: Only find out whether it would be accepted.

    Raises:
        UnknownTopicError: There is no such topic.
        RequestError: It has that many already, or more.
    """
    wanted = CreatePartitionsTopic(
        name=name,
        count=total,
        assignments=None
        if assignments is None
        else tuple(CreatePartitionsAssignment(broker_ids=tuple(ids)) for ids in assignments),
    )
    answer = await caller.call(
        CreatePartitionsRequest(
            topics=(wanted,), timeout_ms=caller.answer_ms, validate_only=dry_run
        ),
        CreatePartitionsResponse,
        to=CONTROLLER,
        failure=lambda got: got.results[0].error_code,
    )
    (result,) = answer.results
    try:
        raise_for_code(result.error_code, result.error_message or f"topic {name!r}")
    except RequestError as error:
        if caller.has_doubt:
            error.add_note(_DOUBT)
        raise


async def _known(caller: Caller, name: str) -> TopicInfo:
    """Wait until the brokers have heard of a topic, and each partition has a leader."""

    async def attempt() -> TopicInfo:
        info = await describe_topic(caller, name)
        for partition in info.partitions:
            if partition.end_offset is None:
                raise_for_code(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {name}-{partition.id}")
        return info

    return await caller.repeat(attempt, what=f"topic {name!r} was created; finding it")


def _info(
    topic: MetadataResponseTopic,
    starts: Offsets,
    ends: Offsets,
    config: Mapping[str, ConfigEntry] | OttlaError,
) -> TopicInfo | OttlaError:
    assert topic.name is not None
    if isinstance(config, OttlaError):
        return config
    partitions = []
    for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index):
        tp = TopicPartition(topic.name, partition.partition_index)
        for offset in (starts[tp], ends[tp]):
            if isinstance(offset, OttlaError) and not isinstance(offset, NoLeaderError):
                return offset
        partitions.append(_partition(partition, starts[tp], ends[tp]))
    return TopicInfo(
        name=topic.name,
        topic_id="" if topic.topic_id == NO_UUID else uuid_text(topic.topic_id),
        internal=topic.is_internal,
        replication_factor=len(partitions[0].replicas) if partitions else 0,
        partitions=tuple(partitions),
        config={name: entry.value for name, entry in config.items() if entry.value is not None},
    )


def _partition(
    told: MetadataResponsePartition, start: int | OttlaError, end: int | OttlaError
) -> PartitionInfo:
    return PartitionInfo(
        id=told.partition_index,
        leader=told.leader_id if told.leader_id >= 0 else None,
        leader_epoch=told.leader_epoch if told.leader_epoch >= 0 else None,
        replicas=tuple(told.replica_nodes),
        isr=tuple(told.isr_nodes),
        start_offset=start if isinstance(start, int) else None,
        end_offset=end if isinstance(end, int) else None,
    )


def _imagined(result: CreatableTopicResult) -> TopicInfo:
    """What a topic would be like: nobody has its partitions yet."""
    return TopicInfo(
        name=result.name,
        topic_id="",
        internal=False,
        replication_factor=result.replication_factor,
        partitions=tuple(
            PartitionInfo(
                id=index,
                leader=None,
                leader_epoch=None,
                replicas=(),
                isr=(),
                start_offset=None,
                end_offset=None,
            )
            for index in range(max(0, result.num_partitions))
        ),
        config={told.name: told.value for told in result.configs or () if told.value is not None},
    )
