"""What members say once they are in: give me my assignment, I am alive, I leave.

A request of a member names its generation: one of an older generation is refused, so that a
member that was left behind can do no harm.  The leader's sync is the one moment at which a
generation is written down; everybody hears of its assignment only after that.
"""

from typing import Final

from ottla.coordinator.caller import Caller
from ottla.coordinator.effects import Alarm, Answer, Effect, Persist, Ticket
from ottla.coordinator.group import rebalance
from ottla.coordinator.group.classic import Cause, ClassicGroup, State, told_reason
from ottla.coordinator.group.member import Member
from ottla.coordinator.group.rebalance import refused_sync
from ottla.coordinator.group.records import group_record
from ottla.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

BATCHED_LEAVE_SINCE: Final = 3

_BATCH_OVERHEAD_BYTES: Final = 128
"""More than a batch of one record takes beside its key and value."""


def sync(
    group: ClassicGroup,
    request: SyncGroupRequest,
    ticket: Ticket,
    now_ms: int,
    max_record_bytes: int,
) -> list[Effect]:
    """The leader brings everyone's assignment; the others wait here for theirs."""
    if error := _sync_error(group, request):
        return [refused_sync(ticket, error)]
    member = group.members[request.member_id]
    effects: list[Effect] = []
    if member.owes_sync:
        member.owes_sync = False
        if not any(m.owes_sync for m in group.members.values()):
            effects.append(Alarm(rebalance.sync_alarm(group), None))
    if group.state is State.STABLE:
        return [*effects, _assigned(group, ticket, member.assignment)]
    if member.sync is not None:
        effects.append(refused_sync(member.sync, ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync = ticket
    if request.member_id != group.leader_id:
        return effects
    return [*effects, *_agree(group, request, now_ms, max_record_bytes)]


def heartbeat(
    group: ClassicGroup, request: HeartbeatRequest, ticket: Ticket, now_ms: int
) -> list[Effect]:
    """Keep the member's session alive, and tell it of a rebalance."""
    error = group.member_error(request.member_id, request.group_instance_id)
    if not error and request.generation_id != group.generation:
        error = ErrorCode.ILLEGAL_GENERATION
    if error:
        return [Answer(ticket, HeartbeatResponse(error_code=error))]
    is_preparing = group.state is State.PREPARING
    code = ErrorCode.REBALANCE_IN_PROGRESS if is_preparing else ErrorCode.NONE
    return [
        *rebalance.expect_heartbeat(group, group.members[request.member_id], now_ms),
        Answer(ticket, HeartbeatResponse(error_code=code)),
    ]


def leave(
    group: ClassicGroup | None,
    request: LeaveGroupRequest,
    caller: Caller,
    ticket: Ticket,
    now_ms: int,
) -> list[Effect]:
    """Members leave, or are removed by an administrator; each of them has an answer of its own."""
    if not request.group_id:
        return [Answer(ticket, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))]
    leavers = request.members
    if caller.version < BATCHED_LEAVE_SINCE:
        leavers = (MemberIdentity(member_id=request.member_id),)
    effects: list[Effect] = []
    results: list[MemberResponse] = []
    gone: list[tuple[Member, str]] = []
    for leaver in leavers:
        error = _leave_error(group, leaver)
        results.append(
            MemberResponse(
                member_id=leaver.member_id,
                group_instance_id=leaver.group_instance_id,
                error_code=error,
            )
        )
        if group is not None and not error:
            if leaver.member_id not in group.pending:
                gone.append((group.members[_id_of(group, leaver)], told_reason(leaver.reason)))
            effects += _remove(group, leaver)
    if group is not None and group.state is State.PREPARING:
        effects += rebalance.complete_if_all_joined(group, now_ms)
    elif group is not None and gone:
        effects += rebalance.prepare(group, _cause_of(gone), now_ms)
    return [*effects, Answer(ticket, left(results, caller.version))]


def _sync_error(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    if error := group.member_error(request.member_id, request.group_instance_id):
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING else ErrorCode.NONE


def _agree(
    group: ClassicGroup, request: SyncGroupRequest, now_ms: int, max_record_bytes: int
) -> list[Effect]:
    """Write the assignment down, then let go of everyone who waits for it."""
    given = {entry.member_id: entry.assignment for entry in request.assignments}
    said_bytes = sum(len(m.metadata(group.protocol_name or "")) for m in group.members.values())
    content_bytes = said_bytes + sum(map(len, given.values()))
    if content_bytes > max_record_bytes:  # that of ten thousand members is not even encoded
        return _fail_to_agree(group, content_bytes, max_record_bytes, now_ms)
    record = group_record(group.group_id, group.next_record(given, now_ms))
    record_bytes = len(record.key) + len(record.value or b"") + _BATCH_OVERHEAD_BYTES
    if record_bytes > max_record_bytes:
        return _fail_to_agree(group, record_bytes, max_record_bytes, now_ms)
    effects: list[Effect] = [Persist((record,))]
    for member in group.members.values():
        if member.sync is not None:
            effects.append(_assigned(group, member.sync, given.get(member.member_id, b"")))
            effects += rebalance.expect_heartbeat(group, member, now_ms)
            member.sync = None
    return effects


def _fail_to_agree(
    group: ClassicGroup, size_bytes: int, max_record_bytes: int, now_ms: int
) -> list[Effect]:
    """What cannot be written down does not count: as in Kafka, members are told, and begin anew."""
    effects: list[Effect] = []
    for member in group.members.values():
        if member.sync is not None:
            effects.append(refused_sync(member.sync, ErrorCode.UNKNOWN_SERVER_ERROR))
            effects += rebalance.expect_heartbeat(group, member, now_ms)
            member.sync = None
    text = f"its assignment has {size_bytes} bytes, and a record at most {max_record_bytes}"
    return [*effects, *rebalance.prepare(group, Cause(group.leader_id or "", text), now_ms)]


def _assigned(group: ClassicGroup, ticket: Ticket, assignment: bytes) -> Answer:
    response = SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )
    return Answer(ticket, response)


def _leave_error(group: ClassicGroup | None, leaver: MemberIdentity) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not leaver.member_id:
        # An administrator names a static member by its instance id alone.
        is_known = leaver.group_instance_id in group.static_ids
        return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_MEMBER_ID
    if leaver.member_id in group.pending:
        return ErrorCode.NONE
    return group.member_error(leaver.member_id, leaver.group_instance_id)


def _remove(group: ClassicGroup, leaver: MemberIdentity) -> list[Effect]:
    if leaver.member_id in group.pending:
        del group.pending[leaver.member_id]
        return [Alarm(rebalance.session_alarm(group, leaver.member_id), None)]
    return rebalance.drop(group, _id_of(group, leaver))


def _id_of(group: ClassicGroup, leaver: MemberIdentity) -> str:
    return leaver.member_id or group.static_ids[leaver.group_instance_id or ""]


def _cause_of(gone: list[tuple[Member, str]]) -> Cause:
    """Who left, and the reason that the first of them gives."""
    reason = gone[0][1]
    return Cause.of([member for member, _ in gone], f"it left: {reason}" if reason else "it left")


def left(results: list[MemberResponse], version: int) -> LeaveGroupResponse:
    """The answer to those who leave; before v3 there is only one."""
    if version < BATCHED_LEAVE_SINCE:
        return LeaveGroupResponse(error_code=results[0].error_code)
    return LeaveGroupResponse(members=tuple(results))
