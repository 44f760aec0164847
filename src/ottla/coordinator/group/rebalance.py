"""From one generation of a group to the next: who is waited for, and what ends the wait.

    prepare ──▶ (everybody joins, or the time is up) ──▶ complete ──▶ (the leader syncs) ──▶ Stable

Every wait has an alarm, so none lasts forever.  A session's alarm is not moved by each heartbeat:
it rings by the old deadline, sees that there is a newer one, and is set again.
"""

from collections.abc import Sequence
from typing import Final

from ottla.coordinator.effects import Alarm, AlarmName, Answer, Effect, Persist, Ticket
from ottla.coordinator.group.classic import Cause, ClassicGroup, State
from ottla.coordinator.group.member import Member
from ottla.coordinator.group.records import group_record
from ottla.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.sync_group import SyncGroupResponse

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60_000
"""A new member cannot send heartbeats while its join waits; after this it is asked to try again."""

NULL_PROTOCOL_SINCE: Final = 7
"""From this version of JoinGroup on, an answer may name no protocol."""


def prepare(group: ClassicGroup, cause: Cause, now_ms: int) -> list[Effect]:
    """Begin a rebalance: the assignments are void, and everybody has to join again."""
    effects: list[Effect] = []
    if group.state is State.COMPLETING:
        effects += _call_off_syncs(group, now_ms)
    for member in group.members.values():
        member.owes_sync = False
    group.is_initial = group.state is State.EMPTY
    group.begin_rebalance(cause, now_ms)
    effects.append(Alarm(sync_alarm(group), None))
    if group.is_initial:
        return [*effects, *_put_off(group, now_ms)]
    if group.has_all_joined:
        return [*effects, *complete(group, now_ms)]
    return [*effects, _wait(group, join_alarm(group), now_ms + group.rebalance_timeout_ms)]


def prepare_or_complete(group: ClassicGroup, cause: Cause, now_ms: int) -> list[Effect]:
    """Somebody came, went or changed: begin a rebalance, or see whether this one is complete."""
    if group.state is State.PREPARING:
        return complete_if_all_joined(group, now_ms)
    return prepare(group, cause, now_ms)


def complete_if_all_joined(group: ClassicGroup, now_ms: int) -> list[Effect]:
    """Begin the next generation if nobody is missing; in an initial rebalance time decides."""
    if group.state is State.PREPARING and not group.is_initial and group.has_all_joined:
        return complete(group, now_ms)
    return []


def complete(group: ClassicGroup, now_ms: int) -> list[Effect]:
    """Begin the next generation with those who have joined; static members may come later."""
    effects: list[Effect] = [Alarm(join_alarm(group), None)]
    late = [m for m in group.members.values() if m.join is None and m.instance_id is None]
    for member in late:
        effects += drop(group, member.member_id)
    if not group.members:
        return [*effects, *_empty(group, now_ms)]
    if not group.elect_joined_leader():
        # Static members only, all of them silent: their sessions will end this.
        effects[0] = _wait(group, join_alarm(group), now_ms + group.rebalance_timeout_ms)
        return effects
    group.begin_generation(now_ms)
    for member in group.members.values():
        if member.join is not None:
            answer = joined(group, member)
            effects.append(Answer(member.join.ticket, answer))
        member.join = None
        member.is_new = False
        member.owes_sync = True
        effects += expect_heartbeat(group, member, now_ms)
    return [*effects, _wait(group, sync_alarm(group), now_ms + group.rebalance_timeout_ms)]


def joined(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """The group as it is now, as its member is told; only the leader hears of the others."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name or "",
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=roster(group) if member.member_id == group.leader_id else (),
    )


def roster(group: ClassicGroup) -> tuple[JoinGroupResponseMember, ...]:
    """What the leader needs in order to share out partitions."""
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol_name or ""),
        )
        for member in group.members.values()
    )


def refused_join(ticket: Ticket, version: int, error: ErrorCode, member_id: str = "") -> Answer:
    """A join that came to nothing; `member_id` is what the client is to call itself next."""
    return Answer(
        ticket,
        JoinGroupResponse(
            error_code=error,
            protocol_name=None if version >= NULL_PROTOCOL_SINCE else "",
            leader="",
            member_id=member_id,
            members=(),
        ),
    )


def refused_sync(ticket: Ticket, error: ErrorCode) -> Answer:
    """A sync without an assignment."""
    return Answer(ticket, SyncGroupResponse(error_code=error, assignment=b""))


def expect_heartbeat(
    group: ClassicGroup, member: Member, now_ms: int, timeout_ms: int | None = None
) -> list[Effect]:
    """The member was heard of: it has until its session timeout to be heard of again."""
    member.deadline_ms = now_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms)
    if member.alarm_ms is not None and member.alarm_ms <= member.deadline_ms:
        return []
    member.alarm_ms = member.deadline_ms
    return [Alarm(session_alarm(group, member.member_id), member.deadline_ms)]


def drop(
    group: ClassicGroup, member_id: str, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID
) -> list[Effect]:
    """Take a member out, and tell it so if it waits: it may still be there, and join anew."""
    return silence(group, group.remove(member_id), error)


def silence(group: ClassicGroup, member: Member, error: ErrorCode) -> list[Effect]:
    """Let go of one who is a member no longer: its requests are refused, its alarm is off."""
    effects: list[Effect] = []
    if member.join is not None:
        member_id = member.member_id if error is ErrorCode.FENCED_INSTANCE_ID else ""
        effects.append(refused_join(member.join.ticket, member.join.version, error, member_id))
    if member.sync is not None:
        effects.append(refused_sync(member.sync, error))
    if member.alarm_ms is not None:
        effects.append(Alarm(session_alarm(group, member.member_id), None))
    return effects


def dissolve(group: ClassicGroup) -> list[Effect]:
    """An empty group goes away: those who were about to join it are forgotten."""
    effects: list[Effect] = [Alarm(session_alarm(group, m), None) for m in group.pending]
    group.pending.clear()
    return effects


def on_alarm(group: ClassicGroup, kind: str, rest: Sequence[str], now_ms: int) -> list[Effect]:
    """A wait of the group is over; an alarm that has become pointless does nothing."""
    match kind, *rest:
        case ("session", member_id) if member_id in group.pending:
            del group.pending[member_id]
            return _complete_without_one(group, now_ms)
        case ("session", member_id):
            return _end_session(group, member_id, now_ms)
        case ("join",):
            return _end_of_joining(group, now_ms)
        case ("sync",):
            return _end_of_syncing(group, now_ms)
        case ("return",):
            return _begin_anew(group, now_ms)
        case _:
            raise AssertionError(f"no such alarm: {kind} {rest}")


def session_alarm(group: ClassicGroup, member_id: str) -> AlarmName:
    """Rings when nothing was heard of a member, or of one that was given an id."""
    return ("session", group.group_id, member_id)


def join_alarm(group: ClassicGroup) -> AlarmName:
    """Rings when members have had the time to join."""
    return ("join", group.group_id)


def sync_alarm(group: ClassicGroup) -> AlarmName:
    """Rings when members have had the time to ask for their assignments."""
    return ("sync", group.group_id)


def return_alarm(group: ClassicGroup) -> AlarmName:
    """Rings when a group has just become a classic one again."""
    return ("return", group.group_id)


def _wait(group: ClassicGroup, name: AlarmName, until_ms: int) -> Alarm:
    """The one thing that the group as a whole waits for, for so long."""
    group.until_ms = until_ms
    return Alarm(name, until_ms)


def _call_off_syncs(group: ClassicGroup, now_ms: int) -> list[Effect]:
    """There will be no assignment in this generation: who waits for it has to join again."""
    effects: list[Effect] = []
    for member in group.members.values():
        member.assignment = b""
        if member.sync is not None:
            effects.append(refused_sync(member.sync, ErrorCode.REBALANCE_IN_PROGRESS))
            member.sync = None
            effects += expect_heartbeat(group, member, now_ms)
    return effects


def _put_off(group: ClassicGroup, now_ms: int) -> list[Effect]:
    """Give others the time to come too, so that one rebalance does for all."""
    delay_ms = group.config.initial_rebalance_delay_ms
    if delay_ms == 0:
        return complete(group, now_ms)
    group.has_newcomer = False
    group.initial_until_ms = now_ms + max(group.rebalance_timeout_ms, delay_ms)
    return [_wait(group, join_alarm(group), now_ms + delay_ms)]


def _empty(group: ClassicGroup, now_ms: int) -> list[Effect]:
    """All have left: an empty generation keeps those of the last from being taken for current."""
    group.generation += 1
    group.protocol_name = None
    return [Persist((group_record(group.group_id, group.next_record({}, now_ms)),))]


def _end_session(group: ClassicGroup, member_id: str, now_ms: int) -> list[Effect]:
    """The session's alarm rang: remove the member, unless it was heard of in time."""
    member = group.members.get(member_id)
    if member is None:
        return []
    member.alarm_ms = None
    if member.need_not_report:
        return []
    if member.deadline_ms > now_ms:
        # Or the clock was set back: a silent member must not stay for as long as that.
        longest_ms = max(member.session_timeout_ms, NEW_MEMBER_JOIN_TIMEOUT_MS * member.is_new)
        member.deadline_ms = min(member.deadline_ms, now_ms + longest_ms)
        member.alarm_ms = member.deadline_ms
        return [Alarm(session_alarm(group, member_id), member.deadline_ms)]
    effects = drop(group, member_id)
    if group.state is State.PREPARING:
        return [*effects, *_complete_without_one(group, now_ms)]
    return [*effects, *prepare(group, Cause.of([member], "its session timed out"), now_ms)]


def _complete_without_one(group: ClassicGroup, now_ms: int) -> list[Effect]:
    """Perhaps it was the only one who was missing."""
    if group.state is State.PREPARING and group.has_all_joined:
        return complete(group, now_ms)
    return []


def _end_of_joining(group: ClassicGroup, now_ms: int) -> list[Effect]:
    if group.state is not State.PREPARING:
        return []
    if group.is_initial and group.has_newcomer and now_ms < group.initial_until_ms:
        group.has_newcomer = False
        delay_ms = group.config.initial_rebalance_delay_ms
        until_ms = min(now_ms + delay_ms, group.initial_until_ms)
        return [_wait(group, join_alarm(group), until_ms)]
    return complete(group, now_ms)


def _begin_anew(group: ClassicGroup, now_ms: int) -> list[Effect]:
    """The group was one of the new protocol: its members have to agree among themselves again."""
    if group.state is not State.STABLE:
        return []
    effects = [e for m in group.members.values() for e in expect_heartbeat(group, m, now_ms)]
    cause = Cause("", "the last member that spoke the new protocol is gone")
    return [*effects, *prepare(group, cause, now_ms)]


def _end_of_syncing(group: ClassicGroup, now_ms: int) -> list[Effect]:
    """Who has joined and never asked for its assignment is not really there."""
    if group.state not in (State.COMPLETING, State.STABLE):
        return []
    missing = [member for member in group.members.values() if member.owes_sync]
    if not missing:
        return []
    effects: list[Effect] = []
    for member in missing:
        effects += drop(group, member.member_id)
    cause = Cause.of(missing, "it joined and did not ask for its assignment in time")
    return [*effects, *prepare(group, cause, now_ms)]
