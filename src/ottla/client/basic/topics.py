"""Topics: finding, creating, changing and deleting them.

Every function takes the client first.  Names that a broker refuses are raised as the exception of
its error code, with the broker's own explanation where it gave one.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.basic.client import BasicClient
from ottla.errors import ErrorCode, RefreshError, raise_for_code
from ottla.model import TopicPartition
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataResponseTopic
from ottla.wire.schema import NO_UUID

LATEST: Final = -1
EARLIEST: Final = -2
CREATION_WAIT_S: Final = 5.0
_PAUSE_S: Final = 0.05
_TOPIC: Final = 2
_SET, _DELETE = 0, 1
_CONSUMER: Final = -1
_SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "brokers",
    4: "broker's file",
    5: "default",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    index: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def has_leader(self) -> bool:
        return self.leader_id >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas) if self.partitions else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting of a topic, and who set it."""

    name: str
    value: str | None
    source: str
    is_sensitive: bool

    @property
    def is_default(self) -> bool:
        return self.source != "topic"


def all_topics(client: BasicClient) -> list[TopicInfo]:
    """Every topic that the broker lets us see, sorted by name."""
    found = [_topic_info(topic) for topic in client.metadata(None).topics]
    return sorted(found, key=lambda topic: topic.name)


def find_topic(client: BasicClient, name: str, *, create: bool = False) -> TopicInfo:
    """One topic, with a leader for every partition.

    With `create` a broker that creates topics on demand is given a moment to do so.

    Raises:
        UnknownTopicError: There is no such topic.
    """
    deadline = time.monotonic() + CREATION_WAIT_S
    while True:
        (topic,) = client.metadata([name], create=create).topics
        try:
            return _with_leaders(_topic_info(topic))
        except RefreshError:
            if not create or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_S)


def describe_topic(client: BasicClient, name: str) -> TopicInfo:
    """One topic as it is, partitions without a leader included."""
    (topic,) = client.metadata([name]).topics
    return _topic_info(topic)


def _with_leaders(topic: TopicInfo) -> TopicInfo:
    for partition in topic.partitions:
        if not partition.has_leader:
            raise_for_code(
                ErrorCode.LEADER_NOT_AVAILABLE,
                f"partition {topic.name}-{partition.index} has no leader",
            )
    return topic


def _topic_info(topic: MetadataResponseTopic) -> TopicInfo:
    raise_for_code(topic.error_code, f"topic {topic.name!r}")
    assert topic.name is not None
    partitions = sorted(topic.partitions, key=lambda p: p.partition_index)
    return TopicInfo(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            PartitionInfo(
                index=p.partition_index,
                leader_id=p.leader_id,
                leader_epoch=p.leader_epoch,
                replicas=tuple(p.replica_nodes),
                isr=tuple(p.isr_nodes),
            )
            for p in partitions
        ),
    )


def create_topic(
    client: BasicClient,
    name: str,
    *,
    partition_count: int = -1,
    replication_factor: int = -1,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> tuple[int, int]:
    """Create a topic: how many partitions and replicas it got; -1 asks for the default."""
    answer: CreateTopicsResponse = client.ask_controller(
        CreateTopicsRequest(
            topics=(
                CreatableTopic(
                    name=name,
                    num_partitions=partition_count,
                    replication_factor=replication_factor,
                    assignments=(),
                    configs=tuple(
                        CreatableTopicConfig(name=key, value=value)
                        for key, value in (configs or {}).items()
                    ),
                ),
            ),
            timeout_ms=client.timeout_ms,
            validate_only=validate_only,
        )
    )
    (result,) = answer.topics
    raise_for_code(result.error_code, _detail(name, result.error_message))
    return result.num_partitions, result.replication_factor


def delete_topic(client: BasicClient, name: str) -> None:
    """Delete a topic and everything in it."""
    answer: DeleteTopicsResponse = client.ask_controller(
        DeleteTopicsRequest(
            topics=(DeleteTopicState(name=name, topic_id=NO_UUID),),
            topic_names=(name,),
            timeout_ms=client.timeout_ms,
        )
    )
    (result,) = answer.responses
    raise_for_code(result.error_code, _detail(name, result.error_message))


def set_partition_count(client: BasicClient, name: str, count: int) -> None:
    """Give a topic more partitions; `count` is the new total."""
    answer: CreatePartitionsResponse = client.ask_controller(
        CreatePartitionsRequest(
            topics=(CreatePartitionsTopic(name=name, count=count, assignments=None),),
            timeout_ms=client.timeout_ms,
            validate_only=False,
        )
    )
    (result,) = answer.results
    raise_for_code(result.error_code, _detail(name, result.error_message))


def topic_configs(
    client: BasicClient, names: Iterable[str], keys: Iterable[str] | None = None
) -> dict[str, list[ConfigEntry]]:
    """Topic -> its settings, all or those named by `keys`."""
    wanted = None if keys is None else tuple(keys)
    answer: DescribeConfigsResponse = client.ask(
        DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsResource(
                    resource_type=_TOPIC, resource_name=name, configuration_keys=wanted
                )
                for name in names
            ),
        )
    )
    found = {}
    for result in answer.results:
        raise_for_code(result.error_code, _detail(result.resource_name, result.error_message))
        found[result.resource_name] = [
            ConfigEntry(
                name=entry.name,
                value=entry.value,
                source=_SOURCES.get(entry.config_source, "unknown"),
                is_sensitive=entry.is_sensitive,
            )
            for entry in sorted(result.configs, key=lambda entry: entry.name)
        ]
    return found


def alter_topic(
    client: BasicClient,
    name: str,
    *,
    changes: Mapping[str, str],
    resets: Iterable[str] = (),
    validate_only: bool = False,
) -> None:
    """Set some settings of a topic, give others their default back, leave the rest alone."""
    operations = [
        AlterableConfig(name=key, config_operation=_SET, value=value)
        for key, value in changes.items()
    ]
    operations += [
        AlterableConfig(name=key, config_operation=_DELETE, value=None) for key in resets
    ]
    answer: IncrementalAlterConfigsResponse = client.ask_controller(
        IncrementalAlterConfigsRequest(
            resources=(
                AlterConfigsResource(
                    resource_type=_TOPIC, resource_name=name, configs=tuple(operations)
                ),
            ),
            validate_only=validate_only,
        )
    )
    (result,) = answer.responses
    raise_for_code(result.error_code, _detail(name, result.error_message))


def partition_sizes(client: BasicClient) -> dict[TopicPartition, int]:
    """Bytes on disk of every partition, at its largest replica."""
    sizes: dict[TopicPartition, int] = {}
    asked = [(node_id, DescribeLogDirsRequest(topics=None)) for node_id in client.broker_ids]
    answers: list[DescribeLogDirsResponse] = client.ask_each(asked)
    for answer in answers:
        raise_for_code(answer.error_code, "log directories")
        for folder in answer.results:
            raise_for_code(folder.error_code, folder.log_dir)
            for topic in folder.topics:
                for partition in topic.partitions:
                    key = TopicPartition(topic.name, partition.partition_index)
                    sizes[key] = max(sizes.get(key, 0), partition.partition_size)
    return sizes


def offsets_at(
    client: BasicClient,
    topics: Iterable[TopicInfo],
    timestamp_ms: int,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, int]:
    """For each partition the first offset at or after a time, or `LATEST`, or `EARLIEST`.

    -1 where every record is older.  Partitions without a leader are left out.
    """
    by_leader: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
    for topic in topics:
        for p in filter(lambda p: p.has_leader, topic.partitions):
            asked = ListOffsetsPartition(partition_index=p.index, timestamp=timestamp_ms)
            by_leader.setdefault(p.leader_id, {}).setdefault(topic.name, []).append(asked)
    questions = [
        (
            leader_id,
            ListOffsetsRequest(
                replica_id=_CONSUMER,
                isolation_level=int(read_committed),
                topics=tuple(
                    ListOffsetsTopic(name=name, partitions=tuple(partitions))
                    for name, partitions in wanted.items()
                ),
                timeout_ms=client.timeout_ms,
            ),
        )
        for leader_id, wanted in by_leader.items()
    ]
    answers: list[ListOffsetsResponse] = client.ask_each(questions)
    found: dict[TopicPartition, int] = {}
    for answer in answers:
        for listed in answer.topics:
            for partition in listed.partitions:
                key = TopicPartition(listed.name, partition.partition_index)
                raise_for_code(partition.error_code, f"partition {key}")
                found[key] = partition.offset
    return found


def _detail(name: str, message: str | None) -> str:
    return message or f"topic {name!r}"
