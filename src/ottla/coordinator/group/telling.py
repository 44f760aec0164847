"""What is told about groups: in lists, in descriptions, and in words.

Nothing here changes a group.  `explain` answers "what does it wait for?": the one question that the
protocol has no answer to.
"""

from collections.abc import Iterable
from typing import Final, assert_never

from ottla.coordinator.group.classic import ClassicGroup, State
from ottla.coordinator.group.member import Member
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest

CLASSIC: Final = "classic"
NOT_FOUND_SINCE: Final = 6

_NAMED_AT_MOST: Final = 5


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


def explain(group_id: str, group: ClassicGroup | None, now_ms: int) -> list[str]:
    """What a group waits for, one sentence a line; the first says how it stands."""
    if group is None:
        return [f"There is no group {group_id} here: nobody has joined it, or committed an offset."]
    lines = [f"Group {group_id} is {group.state.value}{_for_how_long(group, now_ms)}."]
    match group.state:
        case State.EMPTY:
            lines.append("It has no members; its offsets are kept until their retention ends.")
        case State.PREPARING:
            lines += _what_joins_wait_for(group)
        case State.COMPLETING:
            lines += _what_syncs_wait_for(group)
        case State.STABLE:
            lines.append(
                f"Generation {group.generation} has {_count(len(group.members), 'member')}; "
                "it waits for nothing."
            )
        case State.DEAD:
            raise AssertionError(f"{group_id}: a dead group is not kept")
        case _:
            assert_never(group.state)
    if group.pending:
        lines.append(f"{_count(len(group.pending), 'member')} got an id and has yet to join.")
    if group.rebalances and group.state is not State.STABLE:
        cause = group.rebalances[-1].cause
        who = cause.member_id or "the coordinator"
        lines.append(f"The last rebalance was set off by {who}: {cause.reason}.")
    lines += _who_is_silent(group, now_ms)
    return lines


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


def _for_how_long(group: ClassicGroup, now_ms: int) -> str:
    return "" if group.since_ms is None else f" for {(now_ms - group.since_ms) / 1000:.1f} s"


def _what_joins_wait_for(group: ClassicGroup) -> list[str]:
    if group.is_initial:
        return ["It gives others the time to join too (group.initial.rebalance.delay.ms)."]
    missing = [m for m in group.members.values() if m.join is None]
    if not missing:
        return ["All its members have joined again."]
    return [
        f"It waits for {_names(missing)} to join again, at most "
        f"{group.rebalance_timeout_ms / 1000:.1f} s (the longest rebalance timeout of a member)."
    ]


def _what_syncs_wait_for(group: ClassicGroup) -> list[str]:
    leader = group.members[group.leader_id or ""]
    waiting = [m for m in group.members.values() if m.sync is not None]
    line = f"It waits for its leader, {_names([leader])}, to share out the partitions."
    if waiting:
        return [line, f"{_count(len(waiting), 'member')} waits for an assignment."]
    return [line]


def _who_is_silent(group: ClassicGroup, now_ms: int) -> list[str]:
    """Members of whom nothing was heard for more than half of their session."""
    lines = []
    for member in group.members.values():
        left_ms = member.deadline_ms - now_ms
        if not member.need_not_report and 0 < left_ms * 2 < member.session_timeout_ms:
            silent_s = (member.session_timeout_ms - left_ms) / 1000
            lines.append(
                f"{_names([member])} was silent for {silent_s:.1f} s, "
                f"and is removed in {left_ms / 1000:.1f} s unless it is heard of."
            )
    return lines[:_NAMED_AT_MOST]


def _names(members: list[Member]) -> str:
    names = [f"{m.instance_id or m.member_id} ({m.client_host})" for m in members]
    rest = len(names) - _NAMED_AT_MOST
    shown = ", ".join(names[:_NAMED_AT_MOST])
    return f"{shown} and {rest} more" if rest > 0 else shown


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
