"""What is told about groups: in lists and in descriptions.

Nothing here changes a group.  What a group waits for is not told here: see `story`.
"""

from collections.abc import Iterable
from typing import Final

from ottla.coordinator.group.classic import ClassicGroup, State
from ottla.coordinator.group.member import Member
from ottla.errors import ErrorCode
from ottla.values import dataclass
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest

CLASSIC: Final = "classic"
NOT_FOUND_SINCE: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group of either kind in a few numbers."""

    group_id: str
    member_count: int
    offsets: tuple[tuple[tuple[str, int], int], ...]  # topic and partition -> committed offset
    rebalance_count: int  # since the coordinator was loaded, or the group began
    rebalance_ms: int  # how long those took that have ended


def described(group_id: str, group: ClassicGroup | None, version: int) -> DescribedGroup:
    """A group for DescribeGroups; one that does not exist is Dead, and since v6 an error."""
    if group is None:
        is_error = version >= NOT_FOUND_SINCE
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE,
            error_message=f"group {group_id} does not exist" if is_error else None,
            group_id=group_id,
            group_state=State.DEAD.value,
            protocol_type="",
            protocol_data="",
            members=(),
        )
    is_stable = group.state is State.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=tuple(_described_member(group, member) for member in group.members.values()),
    )


def listed(groups: Iterable[ClassicGroup], request: ListGroupsRequest) -> tuple[ListedGroup, ...]:
    """The groups that pass both filters; an empty filter lets everything through."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    if types and CLASSIC not in types:
        return ()
    return tuple(
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=CLASSIC,
        )
        for group in groups
        if not states or group.state.value.lower() in states
    )


def _described_member(group: ClassicGroup, member: Member) -> DescribedGroupMember:
    is_stable = group.state is State.STABLE
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol_name or "") if is_stable else b"",
        member_assignment=member.assignment,
    )
