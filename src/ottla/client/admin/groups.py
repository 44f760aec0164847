"""Groups: which there are, who is in them, and how to be rid of them or of their members.

A group is of one of two types, *classic* or *consumer* (KIP-848), and whoever asks for it need not
know which.  Each is asked of its coordinator.
"""

from collections.abc import Collection
from typing import Final, Literal

from ottla.client.admin.calling import Caller, together
from ottla.client.admin.outcomes import Results
from ottla.client.admin.stories import GroupStory, story_of
from ottla.client.targets import group as coordinator_of
from ottla.errors import (
    ErrorCode,
    OttlaError,
    UnsupportedError,
    exception_for,
    raise_for_code,
)
from ottla.model import TopicPartition
from ottla.values import dataclass
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Member,
)
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.stored.consumer_protocol import ConsumerProtocolAssignment
from ottla.wire.stored.versioned import decode_lenient

GroupType = Literal["classic", "consumer"]

CONSUMER: Final = "consumer"
"""The protocol type whose assignments name partitions; others have secrets of their own."""
NO_MEMBERS: Final = frozenset({"Empty", "Dead"})
"""States of groups that nobody is in."""

_GONE: Final = "Dead"  # what brokers before Kafka 4.0 say of a group that they do not know
_FIRST_WITH_STATES: Final = 4
_FIRST_WITH_TYPES: Final = 5
_FIRST_FOR_SEVERAL: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group in a list; what an old broker does not tell is None."""

    group_id: str
    protocol_type: str
    state: str | None
    type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group, and what it has."""

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
    """A group, as its coordinator knows it."""

    group_id: str
    state: str
    type: GroupType
    protocol_type: str
    assignor: str
    """How partitions are shared out; empty while nobody is there to share."""
    coordinator: int
    epoch: int | None
    """Of a consumer group; of a classic one its generation, where the broker tells it."""
    members: tuple[GroupMember, ...]
    story: GroupStory | None = None
    """Whom it waits for, and why it rebalanced; None: the broker does not tell."""

    @property
    def is_active(self) -> bool:
        """Whether somebody is in it."""
        return self.state not in NO_MEMBERS


async def list_groups(
    caller: Caller, *, states: Collection[str] = (), types: Collection[GroupType] = ()
) -> list[str]:
    """The ids of all groups, sorted.

    Args:
        states: Only those in one of these, "Stable" or "Empty" say; none: in any.
        types: Only those of one of these; none: of any.
    """
    found = await group_overview(caller, states=states, types=types)
    return [listing.group_id for listing in found]


async def group_overview(
    caller: Caller, *, states: Collection[str] = (), types: Collection[GroupType] = ()
) -> list[GroupListing]:
    """As `list_groups`, with the state and type of each."""
    least = _FIRST_WITH_STATES if states else None
    answers = await caller.ask_nodes(
        ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types)),
        ListGroupsResponse,
        min_version=_FIRST_WITH_TYPES if types else least,
    )
    found: dict[str, GroupListing] = {}
    for answer in answers.values():
        raise_for_code(answer.error_code, "list of groups")
        for told in answer.groups:
            found[told.group_id] = GroupListing(
                group_id=told.group_id,
                protocol_type=told.protocol_type,
                state=told.group_state or None,
                type=told.group_type or None,
            )
    return [found[group_id] for group_id in sorted(found)]


async def describe_group(caller: Caller, group_id: str) -> GroupInfo:
    """State, members and assignments of a group.

    Raises:
        NotFoundError: There is no such group.
    """
    answer = await caller.call(
        DescribeGroupsRequest(groups=(group_id,), include_story=True),
        DescribeGroupsResponse,
        to=coordinator_of(group_id),
        failure=lambda got: got.groups[0].error_code,
    )
    (group,) = answer.groups
    code = ErrorCode.GROUP_ID_NOT_FOUND if group.group_state == _GONE else group.error_code
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return await _describe_consumer_group(caller, group_id)
    raise_for_code(code, f"group {group_id!r}")
    return GroupInfo(
        group_id=group_id,
        state=group.group_state,
        type="classic",
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=await _coordinator_id(caller, group_id),
        epoch=None if group.story is None else group.story.generation_id,
        story=None if group.story is None else story_of(group.story),
        members=tuple(_classic_member(member, group.protocol_type) for member in group.members),
    )


async def describe_groups(caller: Caller, group_ids: Collection[str]) -> Results[str, GroupInfo]:
    """As `describe_group`, for several groups at once; what fails is in `errors` of the result."""

    async def attempt(group_id: str) -> GroupInfo | OttlaError:
        try:
            return await describe_group(caller, group_id)
        except OttlaError as error:
            return error

    wanted = list(dict.fromkeys(group_ids))
    found = await together(attempt(group_id) for group_id in wanted)
    return Results(dict(zip(wanted, found, strict=True)))


async def delete_group(caller: Caller, group_id: str) -> None:
    """Forget a group that nobody is in, and its offsets.

    Raises:
        ConflictError: Somebody is in it.
        NotFoundError: There is no such group.
    """
    answer = await caller.call(
        DeleteGroupsRequest(groups_names=(group_id,)),
        DeleteGroupsResponse,
        to=coordinator_of(group_id),
        failure=lambda got: got.results[0].error_code,
    )
    (result,) = answer.results
    if result.error_code == ErrorCode.GROUP_ID_NOT_FOUND and caller.has_doubt:
        return  # an attempt without an answer has deleted it
    raise_for_code(result.error_code, result.error_message or f"group {group_id!r}")


async def remove_members(
    caller: Caller,
    group_id: str,
    *,
    member_ids: Collection[str] = (),
    instance_ids: Collection[str] = (),
    reason: str | None = None,
) -> None:
    """Make members leave a group; one that is alive will join again.

    Args:
        group_id: The group.
        member_ids: Whom, by the ids that the coordinator gave them.
        instance_ids: Whom, by `group.instance.id`.  With neither: everybody.
        reason: Why, for the broker's logs.

    Raises:
        RejoinError: There is no such member.
    """
    leaving = [MemberIdentity(member_id=id_, reason=reason) for id_ in member_ids]
    leaving += [
        MemberIdentity(member_id="", group_instance_id=id_, reason=reason) for id_ in instance_ids
    ]
    if not leaving:
        leaving = await _everybody(caller, group_id, reason)
    if not leaving:
        return
    answer = await caller.call(
        LeaveGroupRequest(group_id=group_id, members=tuple(leaving)),
        LeaveGroupResponse,
        to=coordinator_of(group_id),
        min_version=_FIRST_FOR_SEVERAL,
    )
    raise_for_code(answer.error_code, f"group {group_id!r}")
    for told in answer.members:
        is_gone = told.error_code == ErrorCode.UNKNOWN_MEMBER_ID and caller.has_doubt
        if not is_gone:
            who = told.group_instance_id or told.member_id
            raise_for_code(told.error_code, f"group {group_id!r}, member {who!r}")


async def _everybody(caller: Caller, group_id: str, reason: str | None) -> list[MemberIdentity]:
    group = await describe_group(caller, group_id)
    return [
        MemberIdentity(
            # A static member is named by its instance alone: its id may change any moment.
            member_id="" if member.instance_id is not None else member.member_id,
            group_instance_id=member.instance_id,
            reason=reason,
        )
        for member in group.members
    ]


async def _coordinator_id(caller: Caller, group_id: str) -> int:
    return (await caller.engine.coordinator(coordinator_of(group_id))).node_id


async def _describe_consumer_group(caller: Caller, group_id: str) -> GroupInfo:
    try:
        answer = await caller.call(
            ConsumerGroupDescribeRequest(
                group_ids=(group_id,), include_authorized_operations=False, include_story=True
            ),
            ConsumerGroupDescribeResponse,
            to=coordinator_of(group_id),
            failure=lambda got: got.groups[0].error_code,
        )
        (group,) = answer.groups
        raise_for_code(group.error_code, group.error_message or f"group {group_id!r}")
    except UnsupportedError:
        # A broker without such groups, or with them switched off: there is none of any type.
        raise exception_for(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r}") from None
    return GroupInfo(
        group_id=group_id,
        state=group.group_state,
        type="consumer",
        protocol_type=CONSUMER,
        assignor=group.assignor_name,
        coordinator=await _coordinator_id(caller, group_id),
        epoch=group.group_epoch,
        story=None if group.story is None else story_of(group.story),
        members=tuple(_consumer_member(member) for member in group.members),
    )


def _classic_member(member: DescribedGroupMember, protocol_type: str) -> GroupMember:
    assignment: list[TopicPartition] = []
    if protocol_type == CONSUMER and member.member_assignment:
        decoded = decode_lenient(ConsumerProtocolAssignment, member.member_assignment)
        assignment = [
            TopicPartition(topic.topic, partition)
            for topic in decoded.assigned_partitions
            for partition in topic.partitions
        ]
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=tuple(sorted(assignment)),
    )


def _consumer_member(member: Member) -> GroupMember:
    return GroupMember(
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
