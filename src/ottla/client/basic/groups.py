"""Questions about consumer groups: who is in them, and how far they came.

Each is put to the broker that coordinates the group, in the newest version that names topics by
name and one group at a time; every broker since Kafka 2.4 speaks it.  A group is of one of two
kinds, *classic* or *consumer* (KIP-848), and whoever asks for it need not know which.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.basic.client import BasicClient
from ottla.errors import ErrorCode, UnsupportedError, exception_for, raise_for_code
from ottla.model import TopicPartition
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.consumer_group_describe import Member as ConsumerGroupMember
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    GroupStory,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.stored.consumer_protocol import ConsumerProtocolAssignment
from ottla.wire.stored.versioned import decode_lenient

CONSUMER: Final = "consumer"
"""The protocol type whose assignments name partitions; others have secrets of their own."""

_LAST_FIND_OF_ONE: Final = 3
_LAST_FETCH_OF_ONE: Final = 7
_LAST_COMMIT_BY_NAME: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group in a list; brokers before Kafka 2.6 do not tell its state."""

    name: str
    protocol_type: str
    state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberInfo:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    epoch: int | None = None
    """In a consumer group: the newest epoch that it has followed."""
    target: tuple[TopicPartition, ...] | None = None
    """In a consumer group: what it is to have in the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    name: str
    state: str
    is_classic: bool
    protocol_type: str
    protocol: str
    coordinator_id: int
    members: tuple[MemberInfo, ...]
    generation: int | None
    """The epoch of a consumer group; None where the broker does not tell it."""
    story: GroupStory | None
    """None where the broker does not tell it, as Apache Kafka does not."""


def all_groups(client: BasicClient) -> list[GroupListing]:
    """Every group of every broker, sorted by name."""
    client.metadata(())
    questions = [(node_id, ListGroupsRequest()) for node_id in client.broker_ids]
    answers: list[ListGroupsResponse] = client.ask_each(questions)
    found: list[GroupListing] = []
    for answer in answers:
        raise_for_code(answer.error_code, "list of groups")
        found += [
            GroupListing(
                name=group.group_id,
                protocol_type=group.protocol_type,
                state=group.group_state or None,
            )
            for group in answer.groups
        ]
    return sorted(found, key=lambda group: group.name)


def describe_group(client: BasicClient, name: str) -> GroupInfo:
    """State, members and story of a group; raises `NotFoundError` if there is none."""
    coordinator_id = _coordinator_of(client, name)
    answer: DescribeGroupsResponse = client.ask(
        DescribeGroupsRequest(groups=(name,), include_story=True), node_id=coordinator_id
    )
    (group,) = answer.groups
    is_missing = group.group_state == "Dead"  # what brokers before Kafka 4.0 say of it
    error = ErrorCode.GROUP_ID_NOT_FOUND if is_missing else group.error_code
    if error != ErrorCode.GROUP_ID_NOT_FOUND:
        raise_for_code(error, f"group {name!r}")
        return _classic(group, coordinator_id)
    found = _consumer_group(client, name, coordinator_id)
    if found is None:
        raise exception_for(error, f"group {name!r}")
    return found


def _classic(group: DescribedGroup, coordinator_id: int) -> GroupInfo:
    return GroupInfo(
        name=group.group_id,
        state=group.group_state,
        is_classic=True,
        protocol_type=group.protocol_type,
        protocol=group.protocol_data,
        coordinator_id=coordinator_id,
        members=tuple(_member(member, group.protocol_type) for member in group.members),
        generation=None if group.story is None else group.story.generation_id,
        story=group.story,
    )


def _consumer_group(client: BasicClient, name: str, coordinator_id: int) -> GroupInfo | None:
    """The group if it is one of KIP-848; None if it is not, or if the broker has none."""
    request = ConsumerGroupDescribeRequest(group_ids=(name,), include_authorized_operations=False)
    try:
        answer: ConsumerGroupDescribeResponse = client.ask(request, node_id=coordinator_id)
    except UnsupportedError:
        return None
    (group,) = answer.groups
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    raise_for_code(group.error_code, group.error_message or f"group {name!r}")
    return _described_consumer_group(group, coordinator_id)


def _described_consumer_group(group: DescribedConsumerGroup, coordinator_id: int) -> GroupInfo:
    return GroupInfo(
        name=group.group_id,
        state=group.group_state,
        is_classic=False,
        protocol_type=CONSUMER,
        protocol=group.assignor_name,
        coordinator_id=coordinator_id,
        members=tuple(_consumer_member(member) for member in group.members),
        generation=group.group_epoch,
        story=None,
    )


def committed_offsets(client: BasicClient, name: str) -> dict[TopicPartition, int]:
    """Everything that a group has committed, sorted; empty where there is no such group."""
    answer: OffsetFetchResponse = _ask_coordinator(
        client, name, OffsetFetchRequest(group_id=name, topics=None), _LAST_FETCH_OF_ONE
    )
    raise_for_code(answer.error_code, f"group {name!r}")
    found: dict[TopicPartition, int] = {}
    for topic in answer.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            raise_for_code(partition.error_code, f"group {name!r}, partition {key}")
            found[key] = partition.committed_offset
    return dict(sorted(found.items()))


def commit_offsets(client: BasicClient, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit as somebody outside of the group; it is refused while the group has members."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for key, offset in offsets.items():
        committed = OffsetCommitRequestPartition(
            partition_index=key.partition, committed_offset=offset, committed_metadata=""
        )
        by_topic.setdefault(key.topic, []).append(committed)
    request = OffsetCommitRequest(
        group_id=name,
        member_id="",
        topics=tuple(
            OffsetCommitRequestTopic(name=topic, partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
    )
    answer: OffsetCommitResponse = _ask_coordinator(client, name, request, _LAST_COMMIT_BY_NAME)
    for topic in answer.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            raise_for_code(partition.error_code, f"group {name!r}, partition {key}")


def delete_group(client: BasicClient, name: str) -> None:
    """Forget a group without members, and its offsets."""
    answer: DeleteGroupsResponse = _ask_coordinator(
        client, name, DeleteGroupsRequest(groups_names=(name,)), None
    )
    (result,) = answer.results
    raise_for_code(result.error_code, result.error_message or f"group {name!r}")


def _ask_coordinator(client: BasicClient, name: str, body: Any, max_version: int | None) -> Any:
    return client.ask(body, node_id=_coordinator_of(client, name), max_version=max_version)


def _coordinator_of(client: BasicClient, name: str) -> int:
    client.metadata(())
    answer: FindCoordinatorResponse = client.ask(
        FindCoordinatorRequest(key=name), max_version=_LAST_FIND_OF_ONE
    )
    raise_for_code(answer.error_code, answer.error_message or f"group {name!r}")
    return answer.node_id


def _consumer_member(member: ConsumerGroupMember) -> MemberInfo:
    return MemberInfo(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(member.assignment),
        epoch=member.member_epoch,
        target=_partitions(member.target_assignment),
    )


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    found = [
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    ]
    return tuple(sorted(found))


def _member(member: DescribedGroupMember, protocol_type: str) -> MemberInfo:
    assignment: tuple[TopicPartition, ...] = ()
    if protocol_type == CONSUMER and member.member_assignment:
        decoded = decode_lenient(ConsumerProtocolAssignment, member.member_assignment)
        assignment = tuple(
            TopicPartition(topic.topic, partition)
            for topic in decoded.assigned_partitions
            for partition in topic.partitions
        )
    return MemberInfo(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=tuple(sorted(assignment)),
    )
