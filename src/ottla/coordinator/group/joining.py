"""How one gets into a group: the first join, the second with an id, and coming back.

A dynamic member is first given an id, and let in when it returns with it (KIP-394): one that never
returns does not hold up the group.  A static member (KIP-345) is known by its instance id.  When it
comes back without a member id it takes the place of its predecessor, who is fenced; if the group is
stable and nothing else changes, there is no rebalance.
"""

from collections.abc import Callable
from typing import Final

from ottla.coordinator.caller import Caller
from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import Alarm, Answer, Effect, Persist, Ticket
from ottla.coordinator.group import rebalance
from ottla.coordinator.group.classic import Cause, ClassicGroup, State, told_reason
from ottla.coordinator.group.member import Member, ParkedJoin
from ottla.coordinator.group.records import group_record
from ottla.errors import ErrorCode
from ottla.model import UUID_BYTES, random_uuid_text
from ottla.values import dataclass
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

MEMBER_ID_REQUIRED_SINCE: Final = 4
SKIP_ASSIGNMENT_SINCE: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """One JoinGroup: the request, who sent it, and where its answer goes."""

    request: JoinGroupRequest
    caller: Caller
    ticket: Ticket
    now_ms: int
    random_bytes: Callable[[int], bytes]

    def refuse(self, error: ErrorCode, member_id: str = "") -> Answer:
        return rebalance.refused_join(self.ticket, self.caller.version, error, member_id)

    def cause(self, member_id: str, event: str) -> Cause:
        """Why a rebalance begins: what we saw, and what the client says (KIP-800)."""
        reason = told_reason(self.request.reason)
        text = f"{event}: {reason}" if reason else event
        return Cause(member_id, text, self.caller.client_id, self.caller.client_host)

    def parked(self) -> ParkedJoin:
        return ParkedJoin(self.ticket, self.caller.version)

    def new_member(self, member_id: str) -> Member:
        request = self.request
        member = Member(
            member_id=member_id,
            instance_id=request.group_instance_id,
            client_id=self.caller.client_id,
            client_host=self.caller.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
        )
        self.update(member)
        return member

    def update(self, member: Member) -> None:
        """Take over its timeouts; before v1 the session timeout limited rebalances too."""
        request = self.request
        timeout_ms = request.rebalance_timeout_ms
        member.rebalance_timeout_ms = timeout_ms if timeout_ms >= 0 else request.session_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms

    def new_member_id(self) -> str:
        prefix = self.request.group_instance_id or self.caller.client_id
        return f"{prefix}-{random_uuid_text(self.random_bytes(UUID_BYTES))}"


def refusal(request: JoinGroupRequest, config: GroupConfig) -> ErrorCode:
    """What can be said of a join without knowing the group."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    low, high = config.min_session_timeout_ms, config.max_session_timeout_ms
    if not low <= request.session_timeout_ms <= high:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


def join(group: ClassicGroup, door: Door) -> list[Effect]:
    """Let the caller in, give it an id to come back with, or refuse it."""
    member_id = door.request.member_id
    if not _has_room_for(group, member_id):
        return _turn_away(group, door)
    if not group.supports(door.request.protocol_type, door.request.protocols):
        return [door.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)]
    if not member_id:
        return _join_first(group, door)
    if member_id in group.pending and door.request.group_instance_id is None:
        return _let_in(group, door, member_id)
    if error := group.member_error(member_id, door.request.group_instance_id):
        return [door.refuse(error, member_id)]
    return _join_again(group, door, group.members[member_id])


def _has_room_for(group: ClassicGroup, member_id: str) -> bool:
    """Whether the group may grow; in a rebalance those count who have joined it.

    So a group that is over a limit that was lowered loses those who join last.
    """
    if group.state is State.EMPTY:
        return True
    if group.state is State.PREPARING:
        member = group.members.get(member_id)
        has_joined = member is not None and member.join is not None
        max_size = group.config.max_size
        return has_joined or len(group.members) < max_size or group.waiting_count < max_size
    return member_id in group.members or len(group.members) < group.config.max_size


def _turn_away(group: ClassicGroup, door: Door) -> list[Effect]:
    member_id = door.request.member_id
    effects: list[Effect] = [door.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)]
    if member_id in group.members:
        effects += rebalance.drop(group, member_id)
    elif group.pending.pop(member_id, None) is not None:
        effects.append(Alarm(rebalance.session_alarm(group, member_id), None))
    return [*effects, *rebalance.complete_if_all_joined(group, door.now_ms)]


def _join_first(group: ClassicGroup, door: Door) -> list[Effect]:
    """One without a member id: new, or a static member that has restarted."""
    member_id = door.new_member_id()
    instance_id = door.request.group_instance_id
    if instance_id in group.static_ids:
        return _replace_static(group, door, group.static_ids[instance_id], member_id)
    if instance_id is None and door.caller.version >= MEMBER_ID_REQUIRED_SINCE:
        deadline_ms = door.now_ms + door.request.session_timeout_ms
        group.pending[member_id] = deadline_ms
        return [
            Alarm(rebalance.session_alarm(group, member_id), deadline_ms),
            door.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id),
        ]
    return _let_in(group, door, member_id)


def _let_in(group: ClassicGroup, door: Door, member_id: str) -> list[Effect]:
    member = door.new_member(member_id)
    member.is_new = True
    member.join = door.parked()
    if member_id in group.pending:
        member.alarm_ms = group.pending[member_id]
    if not group.members:
        group.protocol_type = door.request.protocol_type
    if group.state is State.PREPARING and group.is_initial:
        group.has_newcomer = True
    group.add(member)
    timeout_ms = rebalance.NEW_MEMBER_JOIN_TIMEOUT_MS
    return [
        *rebalance.expect_heartbeat(group, member, door.now_ms, timeout_ms),
        *rebalance.prepare_or_complete(group, door.cause(member_id, "it joined"), door.now_ms),
    ]


def _join_again(group: ClassicGroup, door: Door, member: Member) -> list[Effect]:
    """A member joins once more: because we asked, or because something has changed for it."""
    is_same = member.protocols == door.request.protocols
    if group.state is State.COMPLETING and is_same:
        return [_tell_again(group, door, member)]  # our first answer may have been lost
    if group.state is State.STABLE and is_same and member.member_id != group.leader_id:
        return [_tell_again(group, door, member)]
    if group.state is State.STABLE and is_same:
        event = "the leader joined again"  # it may have seen new partitions
    elif is_same:
        event = "it joined again"
    else:
        event = "its subscription or its assignors changed"
    effects = _supersede(member)
    door.update(member)
    group.change_protocols(member, door.request.protocols)
    member.join = door.parked()
    cause = door.cause(member.member_id, event)
    return [*effects, *rebalance.prepare_or_complete(group, cause, door.now_ms)]


def _tell_again(group: ClassicGroup, door: Door, member: Member) -> Answer:
    return Answer(door.ticket, rebalance.joined(group, member))


def _supersede(member: Member) -> list[Effect]:
    """A member has one join at a time: the older request was given up by whoever sent it."""
    if member.join is None:
        return []
    error = ErrorCode.REBALANCE_IN_PROGRESS
    old = member.join
    return [rebalance.refused_join(old.ticket, old.version, error, member.member_id)]


def _replace_static(group: ClassicGroup, door: Door, old_id: str, new_id: str) -> list[Effect]:
    """A static member is back under a new id; whoever still uses the old one is fenced."""
    led_by = group.leader_id or ""
    old = group.members[old_id]
    member = door.new_member(new_id)
    member.assignment = old.assignment
    effects = rebalance.silence(group, old, ErrorCode.FENCED_INSTANCE_ID)
    group.replace_member(old_id, member)
    group.static_ids[member.instance_id or ""] = new_id
    if group.leader_id == old_id:
        group.leader_id = new_id
    effects += rebalance.expect_heartbeat(group, member, door.now_ms)
    if group.state is State.STABLE and group.chosen_protocol() == group.protocol_name:
        return [*effects, *_return_to_stable(group, door, member, led_by)]
    member.join = door.parked()
    cause = door.cause(new_id, "a static member came back")
    return [*effects, *rebalance.prepare_or_complete(group, cause, door.now_ms)]


def _return_to_stable(group: ClassicGroup, door: Door, member: Member, led_by: str) -> list[Effect]:
    """Nothing changes but an id: write it down, and leave all the others alone.

    A leader that returns must not share out partitions again.  From v9 on it is told so (KIP-814);
    before, it is told that its old self leads.
    """
    assignments = {m.member_id: m.assignment for m in group.members.values()}
    stored_ms = -1 if group.since_ms is None else group.since_ms
    record = group_record(group.group_id, group.next_record(assignments, stored_ms))
    can_skip = door.caller.version >= SKIP_ASSIGNMENT_SINCE
    leads = member.member_id == group.leader_id
    response = JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=(group.leader_id or "") if can_skip else led_by,
        skip_assignment=can_skip and leads,
        member_id=member.member_id,
        members=rebalance.roster(group) if can_skip and leads else (),
    )
    return [Persist((record,)), Answer(door.ticket, response)]
