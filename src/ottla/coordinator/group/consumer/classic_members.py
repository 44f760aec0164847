"""Members of a consumer group that speak the old protocol: JoinGroup, SyncGroup, Heartbeat, Leave.

A join is a heartbeat that tells what is owned, a sync reads the answer, and a generation is the
member's epoch.  Nobody waits and nobody leads: the coordinator shares out the partitions, so a join
is answered at once.  A member that has something to give up or to get is told, as it knows it, that
there is a rebalance, and joins again.
"""

from dataclasses import replace

from ottla.coordinator.caller import Caller
from ottla.coordinator.effects import Answer, Effect, Ticket
from ottla.coordinator.group.classic import CONSUMER, told_reason
from ottla.coordinator.group.consumer.causes import LEFT
from ottla.coordinator.group.consumer.coordinator import (
    ConsumerGroups,
    fenced_by,
    size_refusal,
    unknown,
)
from ottla.coordinator.group.consumer.draft import Draft
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.heartbeats import Refusal
from ottla.coordinator.group.consumer.member import ConsumerMember, MemberState
from ottla.coordinator.group.consumer.migration import assignment_of, owned_places
from ottla.coordinator.group.consumer.watch import BACK, JOIN, SYNC
from ottla.coordinator.group.joining import MEMBER_ID_REQUIRED_SINCE
from ottla.coordinator.group.membership import BATCHED_LEAVE_SINCE, left
from ottla.coordinator.group.rebalance import refused_join, refused_sync
from ottla.errors import ErrorCode, WireError
from ottla.values import dataclass
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.stored.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from ottla.wire.stored.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.stored.versioned import decode_lenient


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """One request: the group it is about, who sent it, and where its answer goes."""

    groups: ConsumerGroups
    group: ConsumerGroup
    caller: Caller
    ticket: Ticket
    now_ms: int


def join(desk: Desk, request: JoinGroupRequest) -> list[Effect]:
    """JoinGroup: answered at once, with the epoch of the member as its generation."""
    member_id = request.member_id or desk.groups.new_member_id()
    if error := _join_error(desk, request, member_id):
        return [refused_join(desk.ticket, desk.caller.version, error, request.member_id)]
    is_new_dynamic = not request.member_id and request.group_instance_id is None
    if is_new_dynamic and desk.caller.version >= MEMBER_ID_REQUIRED_SINCE:
        error = ErrorCode.MEMBER_ID_REQUIRED
        return [refused_join(desk.ticket, desk.caller.version, error, member_id)]
    try:
        subscription = decode_lenient(ConsumerProtocolSubscription, request.protocols[0].metadata)
    except WireError:
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return [refused_join(desk.ticket, desk.caller.version, error, request.member_id)]
    draft = desk.groups.draft(desk.group, desk.now_ms)
    before = _joiner(desk, draft, request, member_id)
    if isinstance(before, Refusal):
        return [refused_join(desk.ticket, desk.caller.version, before.error, request.member_id)]
    member = _updated(before, request, subscription, desk.caller)
    subscribes_anew = desk.groups.enter(draft, before, member, request.reason)
    owned = owned_places(subscription, desk.groups.topics)
    moved = draft.reconcile(member, owned, has_new_subscription=subscribes_anew)
    if moved is None:
        error = ErrorCode.UNKNOWN_MEMBER_ID
        return [refused_join(desk.ticket, desk.caller.version, error, request.member_id)]
    return [*desk.groups.persist(draft), *_after_join(desk, draft, moved), _joined(desk, moved)]


def sync(desk: Desk, request: SyncGroupRequest) -> list[Effect]:
    """SyncGroup: what the member owns now."""
    member = _member(desk.group, request.member_id, request.group_instance_id)
    if isinstance(member, Refusal):
        return [refused_sync(desk.ticket, member.error)]
    if error := _sync_error(member, request):
        return [refused_sync(desk.ticket, error)]
    is_behind = desk.group.target_epoch > member.epoch
    if is_behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
        error = ErrorCode.REBALANCE_IN_PROGRESS
        return [*_expect_join(desk, member), refused_sync(desk.ticket, error)]
    response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment_of(member, frozenset(member.assigned), desk.groups.topics),
    )
    return [
        *desk.groups.watch.end(SYNC, desk.group.group_id, member.member_id),
        *desk.groups.hear(desk.group.group_id, member, desk.now_ms),
        Answer(desk.ticket, response),
    ]


def heartbeat(desk: Desk, request: HeartbeatRequest) -> list[Effect]:
    """Heartbeat: the member lives on, and is told if joining again would get it further."""
    member = _member(desk.group, request.member_id, request.group_instance_id)
    if isinstance(member, Refusal):
        return [Answer(desk.ticket, HeartbeatResponse(error_code=member.error))]
    if request.generation_id != member.epoch:
        error = ErrorCode.ILLEGAL_GENERATION
        return [Answer(desk.ticket, HeartbeatResponse(error_code=error))]
    effects = desk.groups.hear(desk.group.group_id, member, desk.now_ms)
    if not _should_join(desk.group, member):
        return [*effects, Answer(desk.ticket, HeartbeatResponse())]
    response = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    return [*effects, *_expect_join(desk, member), Answer(desk.ticket, response)]


def leave(desk: Desk, request: LeaveGroupRequest) -> list[Effect]:
    """LeaveGroup: members leave, or are removed by an administrator, of whichever protocol."""
    leavers = request.members
    if desk.caller.version < BATCHED_LEAVE_SINCE:
        leavers = (MemberIdentity(member_id=request.member_id),)
    gone: dict[str, ConsumerMember] = {}
    reasons: list[str] = []
    results = []
    for leaver in leavers:
        found = _leaver(desk.group, leaver)
        error = found.error if isinstance(found, Refusal) else ErrorCode.NONE
        if not isinstance(found, Refusal):
            gone[found.member_id] = found
            reasons.append(told_reason(leaver.reason))
        results.append(
            MemberResponse(
                member_id=leaver.member_id,
                group_instance_id=leaver.group_instance_id,
                error_code=error,
            )
        )
    effects: list[Effect] = []
    if gone:
        why = f"{LEFT}: {reasons[0]}" if reasons[0] else LEFT
        effects += desk.groups.fence(desk.group, list(gone.values()), why, desk.now_ms)
    return [*effects, Answer(desk.ticket, left(results, desk.caller.version))]


def _join_error(desk: Desk, request: JoinGroupRequest, member_id: str) -> ErrorCode:
    if desk.groups.config.consumer_migration_policy == "disabled":
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    max_size = desk.groups.config.consumer_max_size
    why = size_refusal(desk.group, member_id, request.group_instance_id, max_size)
    if why is not None:
        return why.error
    is_consumer = request.protocol_type == CONSUMER and bool(request.protocols)
    if not is_consumer or not _has_common_protocol(desk.group, request):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _has_common_protocol(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Whether all classic members speak one of these: the group may be a classic one again."""
    spoken = {protocol.name for protocol in request.protocols}
    for member in group.members.values():
        if member.is_classic:
            spoken &= {protocol.name for protocol in member.classic_protocols}
    return bool(spoken)


def _joiner(
    desk: Desk, draft: Draft, request: JoinGroupRequest, member_id: str
) -> ConsumerMember | Refusal:
    """Who joins: a known member, a new one, or a static one that comes back."""
    group, instance_id = desk.group, request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    if request.member_id:
        return _static(group, request.member_id, instance_id)
    old = group.static_member(instance_id)
    if old is None:
        return ConsumerMember(member_id=member_id)
    return draft.replace_static(old, member_id)


def _updated(
    before: ConsumerMember,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    caller: Caller,
) -> ConsumerMember:
    """The member with what the join says; before v1 the session timeout limited rebalances too."""
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        before,
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=timeout_ms if timeout_ms >= 0 else request.session_timeout_ms,
        names=frozenset(subscription.topics),
        pattern="",
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=tuple(
                ClassicProtocol(name=p.name, metadata=p.metadata) for p in request.protocols
            ),
        ),
    )


def _after_join(desk: Desk, draft: Draft, member: ConsumerMember) -> list[Effect]:
    group_id, watch = desk.group.group_id, desk.groups.watch
    until_ms = desk.now_ms + member.rebalance_timeout_ms
    effects = [
        *watch.end(JOIN, group_id, member.member_id),
        *desk.groups.hear(group_id, member, desk.now_ms),
        *watch.begin(SYNC, group_id, member.member_id, until_ms),
    ]
    if all(m.is_classic for m in draft.members.values()):
        effects += watch.begin(BACK, group_id, "", desk.now_ms)
    return effects


def _joined(desk: Desk, member: ConsumerMember) -> Answer:
    response = JoinGroupResponse(
        generation_id=member.epoch,
        protocol_type=CONSUMER,
        protocol_name=member.classic_protocols[0].name,
        leader="",
        member_id=member.member_id,
        members=(),
    )
    return Answer(desk.ticket, response)


def _member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerMember | Refusal:
    """The classic member that a request speaks for."""
    if instance_id is None:
        found = group.members.get(member_id) or unknown(member_id, group.group_id)
    else:
        found = _static(group, member_id, instance_id)
    if isinstance(found, ConsumerMember) and not found.is_classic:
        return unknown(f"a classic member {member_id}", group.group_id)
    return found


def _static(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember | Refusal:
    found = group.static_member(instance_id)
    if found is None:
        return unknown(instance_id, group.group_id)
    return found if found.member_id == member_id else fenced_by(found, member_id)


def _leaver(group: ConsumerGroup, leaver: MemberIdentity) -> ConsumerMember | Refusal:
    if leaver.group_instance_id is None:
        return group.members.get(leaver.member_id) or unknown(leaver.member_id, group.group_id)
    if not leaver.member_id:
        # An administrator names a static member by its instance id alone.
        found = group.static_member(leaver.group_instance_id)
        return found or unknown(leaver.group_instance_id, group.group_id)
    return _static(group, leaver.member_id, leaver.group_instance_id)


def _sync_error(member: ConsumerMember, request: SyncGroupRequest) -> ErrorCode:
    if request.generation_id != member.epoch:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, CONSUMER):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, member.classic_protocols[0].name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _should_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether joining again would take the member further."""
    if member.epoch < group.target_epoch:
        return True
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return not group.waits_for_others(member)
    return member.state is MemberState.UNREVOKED_PARTITIONS


def _expect_join(desk: Desk, member: ConsumerMember) -> list[Effect]:
    """It was told to join again, and has its rebalance timeout to do so."""
    until_ms = desk.now_ms + member.rebalance_timeout_ms
    return desk.groups.watch.begin_once(JOIN, desk.group.group_id, member.member_id, until_ms)
