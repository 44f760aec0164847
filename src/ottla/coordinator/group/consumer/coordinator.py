"""The consumer groups of one machine: one method for each request of their members.

`ottla.coordinator.group.machine` asks here about groups that are consumer groups, and about those
that may become one.  A group exists as soon as a record of it is applied; until then a decision
works on a group of its own, and a request that is refused leaves no trace.
"""

from collections.abc import Callable, Iterable

from ottla.coordinator.caller import Caller
from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import (
    Alarm,
    AlarmName,
    Answer,
    Effect,
    Persist,
    StoredRecord,
    Ticket,
)
from ottla.coordinator.group.classic import Cause, ClassicGroup, Rebalance
from ottla.coordinator.group.consumer import causes, heartbeats, migration, telling
from ottla.coordinator.group.consumer.chronicle import Chronicles
from ottla.coordinator.group.consumer.draft import Draft, Rules
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.heartbeats import Refusal, refused
from ottla.coordinator.group.consumer.member import (
    AWAY_EPOCH,
    JOINING_EPOCH,
    LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
)
from ottla.coordinator.group.consumer.records import ConsumerChange, Kind, current_record
from ottla.coordinator.group.consumer.topics import Place, Topics
from ottla.coordinator.group.consumer.watch import BACK, JOIN, REBALANCE, SYNC, Watch
from ottla.errors import ErrorCode
from ottla.model import UUID_BYTES, random_uuid_text
from ottla.wire.messages.consumer_group_describe import DescribedGroup
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


class ConsumerGroups:
    """The groups of the new protocol, of one partition of `__consumer_offsets`."""

    def __init__(
        self, config: GroupConfig, random_bytes: Callable[[int], bytes], topics: Topics
    ) -> None:
        self.config = config
        self.topics = topics
        self.groups: dict[str, ConsumerGroup] = {}
        self.watch = Watch()
        self.chronicles = Chronicles()
        self._random_bytes = random_bytes
        self._checked: dict[str, Topics] = {}  # which topics a group has seen

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        ticket: Ticket,
        now_ms: int,
        classic: ClassicGroup | None = None,
    ) -> list[Effect]:
        """ConsumerGroupHeartbeat 0-1.  `classic` is the group of that name, if it is a classic one.

        A member that joins such a group turns it into a consumer group.
        """
        if (why := heartbeats.refusal(request, caller.version, self.config)) is not None:
            return [refused(ticket, why)]
        if request.member_epoch in (LEAVING_EPOCH, AWAY_EPOCH):
            return self._leave(request, ticket, now_ms)
        opened = self._open(request, classic)
        if isinstance(opened, Refusal):
            return [refused(ticket, opened)]
        draft = self.draft(opened.group, now_ms)
        decided = self._decide(opened.group, draft, request, caller)
        if isinstance(decided, Refusal):
            return [refused(ticket, decided)]
        before, member = decided
        effects: list[Effect] = [e for e in opened.effects if not isinstance(e, Alarm)]
        for converted in opened.group.members.values() if opened.is_converted else ():
            effects += self.hear(request.group_id, converted, now_ms)
        past = () if classic is None else classic.rebalances
        effects += self.persist(draft, opened.records, past)
        # Not before: a classic group that is too large to be written anew goes on as it was.
        effects += [e for e in opened.effects if isinstance(e, Alarm)]
        effects += self.hear(request.group_id, member, now_ms)
        if _current(before) != _current(member):
            effects += self._watch_revocation(request.group_id, member, now_ms)
        interval_ms = draft.next_beat_ms(self.config.consumer_heartbeat_interval_ms)
        answer = heartbeats.accepted(request, before, member, interval_ms)
        return [*effects, Answer(ticket, answer)]

    def described(self, group_id: str) -> DescribedGroup:
        """A group for ConsumerGroupDescribe."""
        group = self.groups.get(group_id)
        assignor = "" if group is None else self.draft(group, 0).assignor()
        return telling.described(group_id, group, assignor, self.topics)

    def fence(
        self, group: ConsumerGroup, members: list[ConsumerMember], why: str, now_ms: int
    ) -> list[Effect]:
        """Take members out: they left, or were silent for too long; `why` says it in words."""
        if migration.can_go_back(group, members, self.config):
            return self._to_classic(group, members, now_ms)
        draft = self.draft(group, now_ms)
        draft.remove(member.member_id for member in members)
        draft.advance(causes.gone(members, why))
        if not draft.members:
            draft.settle_empty()
        return self.persist(draft)

    def on_alarm(self, name: AlarmName, now_ms: int) -> list[Effect]:
        """Time has passed: a member was silent, or did not do what it was told."""
        is_over, effects = self.watch.ring(name, now_ms)
        kind, group_id, member_id = name
        group = self.groups.get(group_id)
        if not is_over or group is None:
            return effects
        if kind == BACK:
            return self._go_back(group, now_ms)
        member = group.members.get(member_id)
        if member is None:
            return effects
        if kind == REBALANCE and member.state is not MemberState.UNREVOKED_PARTITIONS:
            return effects
        if kind in (JOIN, SYNC) and not member.is_classic:
            return effects  # it speaks the new protocol now
        return [*effects, *self.fence(group, [member], causes.OVERDUE[kind], now_ms)]

    def on_loaded(self, now_ms: int) -> list[Effect]:
        """The log was read to its end: members found in it get a session's time to report."""
        effects: list[Effect] = []
        for group in self.groups.values():
            for member in group.members.values():
                effects += self.hear(group.group_id, member, now_ms)
                if member.epoch >= 0:
                    effects += self._watch_revocation(group.group_id, member, now_ms)
        return effects

    def apply(self, change: ConsumerChange) -> None:
        """Take in one record: a group exists from its first record on, until its epoch is gone."""
        group = self.groups.get(change.group_id)
        if group is None:
            if change.value is None:
                return
            group = self.groups[change.group_id] = ConsumerGroup(change.group_id)
        group.apply(change)
        self.chronicles.note(group, change)
        if change.kind is Kind.EPOCH and change.value is None:
            self.forget(change.group_id)

    def forget(self, group_id: str) -> None:
        """The group is gone, or is a classic one now."""
        self.groups.pop(group_id, None)
        self._checked.pop(group_id, None)
        self.chronicles.forget(group_id)

    def dissolve(self, group: ConsumerGroup) -> tuple[StoredRecord, ...]:
        """What to write when an empty group goes."""
        assert not group.members, group.group_id
        return tuple(group.tombstones())

    def draft(self, group: ConsumerGroup, now_ms: int) -> Draft:
        """A draft of the group's next state."""
        rules = Rules(
            topics=self.topics,
            assignors=self.config.consumer_assignors,
            assignment_interval_ms=self.config.consumer_assignment_interval_ms,
            now_ms=now_ms,
        )
        return Draft(group, rules, self._checked.get(group.group_id))

    def enter(
        self,
        draft: Draft,
        before: ConsumerMember,
        member: ConsumerMember,
        reason: str | None = None,
    ) -> bool:
        """Put a member into the draft as it is now, and share out the partitions if need be.

        An epoch begins if the member is new, subscribes to something else or wants another
        assignor, and if the topics are not those that the group has seen.  `reason` is its own for
        joining.  Returns whether the member subscribes to something else.
        """
        is_new = member.member_id not in draft.members
        subscribes_anew = (member.names, member.pattern) != (before.names, before.pattern)
        cause: Cause | None = None
        if is_new:
            cause = causes.joined(member, reason)
        elif subscribes_anew:
            cause = causes.subscribed(member)
        if is_new or member != before:
            old_assignor = draft.assignor()
            draft.put(member)
            if cause is None and (assignor := draft.assignor()) != old_assignor:
                cause = causes.chose(member, assignor)
        if cause is not None or self._checked.get(draft.group_id) is not self.topics:
            draft.advance(cause)
        draft.assign()
        return subscribes_anew

    def persist(
        self,
        draft: Draft,
        first: tuple[StoredRecord, ...] = (),
        past: Iterable[Rebalance] = (),
    ) -> list[Effect]:
        """What follows from a draft that is final; `past` is what an earlier group remembers."""
        effects = [e for gone in draft.gone for e in self.watch.forget(draft.group_id, gone)]
        if draft.has_looked:
            self._checked[draft.group_id] = self.topics
        records = (*first, *draft.records)
        if not records:
            return effects
        self.chronicles.decide(draft.group_id, draft.now_ms, draft.epoch, draft.cause, past)
        return [*effects, Persist(records)]

    def hear(self, group_id: str, member: ConsumerMember, now_ms: int) -> list[Effect]:
        """A member was heard of."""
        timeout_ms = self.config.consumer_session_timeout_ms
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        return self.watch.hear(group_id, member.member_id, timeout_ms, now_ms)

    def new_member_id(self) -> str:
        return random_uuid_text(self._random_bytes(UUID_BYTES))

    def _open(
        self, request: ConsumerGroupHeartbeatRequest, classic: ClassicGroup | None
    ) -> "migration.Opened | Refusal":
        """The group that a heartbeat is about: known, new, or a classic one that is converted."""
        group_id = request.group_id
        if (group := self.groups.get(group_id)) is not None:
            return migration.Opened(group=group)
        if request.member_epoch != JOINING_EPOCH:
            return _not_found(group_id)
        if classic is None:
            return migration.Opened(group=ConsumerGroup(group_id))
        return migration.from_classic(classic, self.topics, self.config)

    def _decide(
        self,
        group: ConsumerGroup,
        draft: Draft,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
    ) -> tuple[ConsumerMember, ConsumerMember] | Refusal:
        """Write the draft; returns the member as it was before, and as it is then."""
        max_size = self.config.consumer_max_size
        why = size_refusal(group, request.member_id, request.instance_id, max_size)
        if why is not None:
            return why
        owned = heartbeats.owned_by(request)
        before = self._member(group, draft, request, owned)
        if isinstance(before, Refusal):
            return before
        member = heartbeats.updated(before, request, caller)
        subscribes_anew = self.enter(draft, before, member)
        moved = draft.reconcile(member, owned, has_new_subscription=subscribes_anew)
        if moved is None:
            reason = f"nothing is known of the state of member {member.member_id}: it must rejoin"
            return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, reason)
        return before, moved

    def _member(
        self,
        group: ConsumerGroup,
        draft: Draft,
        request: ConsumerGroupHeartbeatRequest,
        owned: frozenset[Place] | None,
    ) -> ConsumerMember | Refusal:
        """Who sent the request; a new member if it joins."""
        joins = request.member_epoch == JOINING_EPOCH
        member = group.members.get(request.member_id)
        if request.instance_id is not None:
            member = group.static_member(request.instance_id)
            if member is not None and member.member_id != request.member_id:
                if not joins:
                    return fenced_by(member, request.member_id)
                return _take_over(draft, member, request.member_id or self.new_member_id())
        if member is None:
            if not joins:
                return unknown(request.instance_id or request.member_id, group.group_id)
            return ConsumerMember(member_id=request.member_id or self.new_member_id())
        return heartbeats.epoch_refusal(member, request.member_epoch, owned) or member

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        group = self.groups.get(request.group_id)
        if group is None:
            return [refused(ticket, _not_found(request.group_id))]
        member = group.members.get(request.member_id)
        if request.instance_id is not None:
            member = group.static_member(request.instance_id)
        if member is None:
            who = request.instance_id or request.member_id
            return [refused(ticket, unknown(who, group.group_id))]
        if member.member_id != request.member_id:
            return [refused(ticket, fenced_by(member, request.member_id))]
        answer = Answer(ticket, heartbeats.left(request))
        if request.member_epoch == LEAVING_EPOCH or request.instance_id is None:
            return [*self.fence(group, [member], causes.LEFT, now_ms), answer]
        self.chronicles.decide(group.group_id, now_ms)
        return [
            Persist((current_record(group.group_id, member.away()),)),
            *self.watch.end(REBALANCE, group.group_id, member.member_id),
            answer,
        ]

    def _watch_revocation(self, group_id: str, member: ConsumerMember, now_ms: int) -> list[Effect]:
        """Whoever has to give up partitions has its rebalance timeout to do so.

        Members that speak the old protocol have other waits.
        """
        if member.is_classic:
            return []
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            return self.watch.end(REBALANCE, group_id, member.member_id)
        until_ms = now_ms + member.rebalance_timeout_ms
        return self.watch.begin(REBALANCE, group_id, member.member_id, until_ms)

    def _go_back(self, group: ConsumerGroup, now_ms: int) -> list[Effect]:
        """All members speak the old protocol now, so that the group can be a classic one again."""
        if not migration.can_go_back(group, [], self.config):
            return []
        return self._to_classic(group, [], now_ms)

    def _to_classic(
        self, group: ConsumerGroup, leaving: list[ConsumerMember], now_ms: int
    ) -> list[Effect]:
        effects = [e for m in group.members for e in self.watch.forget(group.group_id, m)]
        self.chronicles.decide_to_go_back(group.group_id, now_ms)
        return [*effects, *migration.to_classic(group, leaving, self.topics, now_ms)]


def _current(member: ConsumerMember) -> tuple[object, ...]:
    return (member.state, member.epoch, member.assigned, member.revoking)


def size_refusal(
    group: ConsumerGroup, member_id: str, instance_id: str | None, max_size: int
) -> Refusal | None:
    """Whether there is room for one more; a static member takes the place that it has."""
    is_known = member_id in group.members or instance_id in group.static_ids
    if is_known or len(group.members) < max_size:
        return None
    return Refusal(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"the group has {len(group.members)} members, and may have no more",
    )


def unknown(who: str, group_id: str) -> Refusal:
    """Nobody of that name is a member."""
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"{who} is not a member of group {group_id}")


def fenced_by(member: ConsumerMember, member_id: str) -> Refusal:
    """Another one has taken the place of a static member."""
    reason = f"{member_id} is no longer {member.instance_id}: member {member.member_id} is"
    return Refusal(ErrorCode.FENCED_INSTANCE_ID, reason)


def _not_found(group_id: str) -> Refusal:
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}")


def _take_over(draft: Draft, old: ConsumerMember, member_id: str) -> ConsumerMember | Refusal:
    """A static member comes back under a new id, if the old one said that it leaves."""
    if old.epoch != AWAY_EPOCH and not old.is_classic:
        reason = f"{old.instance_id} is in use: member {old.member_id} has not left"
        return Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, reason)
    return draft.replace_static(old, member_id)
