"""What is told about consumer groups: in lists, in descriptions, and in words.

Nothing here changes a group.
"""

from collections.abc import Iterable

from ottla.coordinator.group.classic import CONSUMER
from ottla.coordinator.group.consumer.group import NO_TARGET, ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.records import by_topic
from ottla.coordinator.group.consumer.topics import Place, Topics
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from ottla.wire.messages.describe_groups import DescribedGroup as ClassicDescription
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from ottla.wire.schema import replace

_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


def described(
    group_id: str, group: ConsumerGroup | None, assignor: str, topics: Topics
) -> DescribedGroup:
    """A group for ConsumerGroupDescribe."""
    if group is None:
        return refused(
            group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}"
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=assignor,
        members=tuple(_member(group, member, topics) for member in group.members.values()),
    )


def disowned(classic: ClassicDescription, group: ConsumerGroup | None) -> ClassicDescription:
    """Says of a group that DescribeGroups does not find why that is, if it is `group`."""
    if classic.error_message is None or group is None:
        return classic
    reason = f"{classic.group_id} is a consumer group, not a classic group"
    return replace(classic, error_message=reason)


def refused(group_id: str, error: ErrorCode, reason: str | None = None) -> DescribedGroup:
    """A group of which nothing can be told."""
    return DescribedGroup(
        error_code=error,
        error_message=reason,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )


def listed(groups: Iterable[ConsumerGroup], request: ListGroupsRequest) -> tuple[ListedGroup, ...]:
    """The groups that pass both filters; an empty filter lets everything through."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    if types and CONSUMER not in types:
        return ()
    found = ((group.group_id, group.state.value) for group in groups)
    return tuple(
        ListedGroup(
            group_id=group_id, protocol_type=CONSUMER, group_state=state, group_type=CONSUMER
        )
        for group_id, state in found
        if not states or state.lower() in states
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.names)),
        subscribed_topic_regex=member.pattern,
        # It is responsible for what it has yet to give up, too.
        assignment=_assignment((*member.assigned, *member.revoking), topics),
        target_assignment=_assignment(group.target.get(member.member_id, NO_TARGET), topics),
        member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    )


def _assignment(places: Iterable[Place], topics: Topics) -> Assignment:
    named = ((i, topics.name_of(i), partitions) for i, partitions in by_topic(places).items())
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=partitions)
            for topic_id, name, partitions in named
            if name is not None
        )
    )
