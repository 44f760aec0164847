"""All groups of one partition of `__consumer_offsets`: the machine that the broker's shell drives.

Every method takes a request as it came over the wire and returns effects; a request whose answer
must wait keeps its ticket in here.  Hard state, the groups and offsets of the log, changes in
`apply` alone, which is the same code live and at recovery.  Soft state (who waits, which alarm is
set, a generation that is not yet agreed) may change anywhere, and a restart forgets it: members
notice by an error, and join again.

A request that names groups of several partitions (OffsetFetch, DescribeGroups, DeleteGroups) is
split by the shell: one request for each machine, with the groups that belong to it.
"""

from collections.abc import Callable, Iterator, Mapping

from ottla.config import MIB
from ottla.coordinator.caller import Caller
from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import (
    Alarm,
    AlarmName,
    Answer,
    Effect,
    StoredRecord,
    Ticket,
    persist_each,
)
from ottla.coordinator.group import (
    committing,
    joining,
    membership,
    rebalance,
    story,
    telling,
    txn_committing,
)
from ottla.coordinator.group.classic import Cause, ClassicGroup, State
from ottla.coordinator.group.consumer import classic_members
from ottla.coordinator.group.consumer import story as consumer_story
from ottla.coordinator.group.consumer import telling as consumer_telling
from ottla.coordinator.group.consumer.coordinator import ConsumerGroups
from ottla.coordinator.group.consumer.topics import Topics
from ottla.coordinator.group.consumer.watch import ALARMS
from ottla.coordinator.group.registry import HardState, Registry
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.consumer_group_describe import DescribedGroup as ConsumerDescription
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_delete import OffsetDeleteRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from ottla.wire.messages.sync_group import SyncGroupRequest
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.schema import replace

OFFSETS_ALARM: AlarmName = ("offsets",)


class GroupCoordinator:
    """The groups of one partition of `__consumer_offsets`.

    Feed it the log with `apply` (and `apply_marker`), call `on_loaded` once, and then ask.  It is
    owned by one task; effects are performed before it is asked again (see `effects`).
    """

    def __init__(
        self,
        config: GroupConfig,
        random_bytes: Callable[[int], bytes],
        *,
        topics: Topics | None = None,
        max_record_bytes: int = MIB,
    ) -> None:
        """`random_bytes(count)` is where member ids come from.

        A generation is one record: it fails if that would be larger than `max_record_bytes`.
        """
        self._consumers = ConsumerGroups(config, random_bytes, topics or Topics())
        self._registry = Registry(config, self._consumers)
        self._max_record_bytes = max_record_bytes
        self._config = config
        self._random_bytes = random_bytes
        self._groups = self._registry.classic
        self._offsets = self._registry.offsets

    def join(
        self, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """JoinGroup 0-9: answered when the next generation begins, or the join is refused."""
        door = joining.Door(
            request=request,
            caller=caller,
            ticket=ticket,
            now_ms=now_ms,
            random_bytes=self._random_bytes,
        )
        if error := joining.refusal(request, self._config):
            return [door.refuse(error, request.member_id)]
        if (desk := self._desk(request.group_id, caller, ticket, now_ms)) is not None:
            return classic_members.join(desk, request)
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_id:
                return [door.refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)]
            group = ClassicGroup(request.group_id, self._config)
        effects = [*self._registry.retire_empty(request.group_id), *joining.join(group, door)]
        if not group.is_bare:
            self._groups[request.group_id] = group
        return effects

    def sync(
        self, request: SyncGroupRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """SyncGroup 0-5: answered when the leader has brought the assignment."""
        if not request.group_id:
            return [rebalance.refused_sync(ticket, ErrorCode.INVALID_GROUP_ID)]
        if (desk := self._desk(request.group_id, caller, ticket, now_ms)) is not None:
            return classic_members.sync(desk, request)
        group = self._groups.get(request.group_id)
        if group is None:
            return [rebalance.refused_sync(ticket, ErrorCode.UNKNOWN_MEMBER_ID)]
        return membership.sync(group, request, ticket, now_ms, self._max_record_bytes)

    def heartbeat(
        self, request: HeartbeatRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """Heartbeat 0-4: the member lives on for a session timeout; told of a rebalance."""
        if (desk := self._desk(request.group_id, caller, ticket, now_ms)) is not None:
            return classic_members.heartbeat(desk, request)
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif (group := self._groups.get(request.group_id)) is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        else:
            return membership.heartbeat(group, request, ticket, now_ms)
        return [Answer(ticket, HeartbeatResponse(error_code=error))]

    def leave(
        self, request: LeaveGroupRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """LeaveGroup 0-5: members go, and the others share out what they had."""
        if (desk := self._desk(request.group_id, caller, ticket, now_ms)) is not None:
            return classic_members.leave(desk, request)
        group = self._groups.get(request.group_id)
        effects = membership.leave(group, request, caller, ticket, now_ms)
        self._registry.forget_if_bare(request.group_id)
        return effects

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """ConsumerGroupHeartbeat 0-1: join, stay in or leave a group, and hear what to read."""
        classic = self._groups.get(request.group_id)
        return self._consumers.heartbeat(request, caller, ticket, now_ms, classic)

    def consumer_describe(
        self, request: ConsumerGroupDescribeRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """ConsumerGroupDescribe 0-1; authorized operations are the shell's to fill in."""
        groups = tuple(self._consumers.described(group_id) for group_id in request.group_ids)
        if request.include_story:
            groups = tuple(self._with_consumer_story(group, now_ms) for group in groups)
        return [Answer(ticket, ConsumerGroupDescribeResponse(groups=groups))]

    def commit(
        self, request: OffsetCommitRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """OffsetCommit 2-10; topics of v10 must carry their names, which the shell looks up."""
        group = self._groups.get(request.group_id)
        if error := self._registry.commit_refusal(request, caller.version):
            return [Answer(ticket, committing.refused_commit(request, error))]
        effects: list[Effect] = []
        if group is not None and group.state in (State.PREPARING, State.STABLE):
            effects += rebalance.expect_heartbeat(group, group.members[request.member_id], now_ms)
        records, response = committing.commit(request, self._config, now_ms)
        return [*effects, *persist_each(records), Answer(ticket, response)]

    def txn_commit(
        self, request: TxnOffsetCommitRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """TxnOffsetCommit 0-6, of a producer that the shell has found to be in its transaction."""
        if error := self._registry.txn_commit_refusal(request, caller.version):
            return [Answer(ticket, txn_committing.refused(request, error))]
        return txn_committing.commit(request, self._config, ticket, now_ms)

    def fetch(
        self, request: OffsetFetchRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """OffsetFetch 1-10, answered from memory; no offset is -1 and no error."""
        refuse = self._registry.fetch_refusal
        return [Answer(ticket, committing.fetch(self._offsets, request, caller.version, refuse))]

    def offset_delete(
        self, request: OffsetDeleteRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """OffsetDelete 0: forget offsets of topics that no member is subscribed to."""
        group = self._registry.find(request.group_id)
        records, response = committing.delete(group, self._offsets, request)
        return [*persist_each(records), Answer(ticket, response)]

    def describe(
        self, request: DescribeGroupsRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """DescribeGroups 0-6; authorized operations are the shell's to fill in."""
        groups = tuple(
            telling.described(group_id, self._groups.get(group_id), caller.version)
            for group_id in request.groups
        )
        ours = self._consumers.groups
        groups = tuple(consumer_telling.disowned(g, ours.get(g.group_id)) for g in groups)
        if request.include_story:
            groups = tuple(self._with_story(group, now_ms) for group in groups)
        return [Answer(ticket, DescribeGroupsResponse(groups=groups))]

    def list_groups(
        self, request: ListGroupsRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """ListGroups 0-5, of this partition: the shell joins the answers of all."""
        groups = (
            *telling.listed(self._groups.values(), request),
            *consumer_telling.listed(self._consumers.groups.values(), request),
        )
        return [Answer(ticket, ListGroupsResponse(groups=groups))]

    def delete_groups(
        self, request: DeleteGroupsRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """DeleteGroups 0-3: groups without members go, with their offsets."""
        effects: list[Effect] = []
        results = []
        for group_id in dict.fromkeys(request.groups_names):
            error = self._registry.delete_refusal(group_id)
            results.append(DeletableGroupResult(group_id=group_id, error_code=error))
            if not error:
                effects += self._registry.delete(group_id)
        return [*effects, Answer(ticket, DeleteGroupsResponse(results=tuple(results)))]

    def on_alarm(self, name: AlarmName, now_ms: int) -> list[Effect]:
        """Time has passed: a member was silent, or a rebalance took its time, or offsets aged."""
        match name:
            case ("offsets",):
                interval_ms = self._config.offsets_retention_check_interval_ms
                alarm = Alarm(OFFSETS_ALARM, now_ms + interval_ms)
                return [*self._registry.expire_offsets(now_ms), alarm]
            case (kind, *_) if kind in ALARMS:
                return self._consumers.on_alarm(name, now_ms)
            case (kind, group_id, *rest):
                group = self._groups.get(group_id)
                effects = [] if group is None else rebalance.on_alarm(group, kind, rest, now_ms)
                self._registry.forget_if_bare(group_id)
                return effects
            case _:
                raise AssertionError(f"no such alarm: {name}")

    def on_clock_set(self, by_ms: int) -> None:
        """The clock was set: members have as long to be heard of as they had."""
        for group in self._groups.values():
            group.move_deadlines(by_ms)
        self._consumers.watch.move_deadlines(by_ms)

    def on_topics_deleted(self, names: frozenset[str]) -> list[Effect]:
        """Topics are gone, and so are the offsets that groups have committed for them."""
        return persist_each(self._offsets.tombstones_of_topics(names))

    def on_topics_known(self, topic_ids: Mapping[str, bytes]) -> list[Effect]:
        """All topics that there are, right after `on_loaded`: offsets of others are forgotten.

        A crash between the end of a topic and our tombstones leaves them behind.
        """
        return persist_each(self._offsets.tombstones_of_others(topic_ids))

    def on_topics_changed(self, topics: Topics) -> None:
        """Topics came, grew or went: consumer groups hear of it with their next heartbeats."""
        self._consumers.topics = topics

    def on_loaded(self, now_ms: int) -> list[Effect]:
        """The log was read to its end: members found in it get a session's time to report."""
        interval_ms = self._config.offsets_retention_check_interval_ms
        effects: list[Effect] = [Alarm(OFFSETS_ALARM, now_ms + interval_ms)]
        for group in self._groups.values():
            for member in group.members.values():
                effects += rebalance.expect_heartbeat(group, member, now_ms)
            if len(group.members) > self._config.max_size:
                cause = Cause("", f"the group was over group.max.size = {self._config.max_size}")
                effects += rebalance.prepare(group, cause, now_ms)
        return [*effects, *self._consumers.on_loaded(now_ms)]

    def apply(self, record: StoredRecord, producer_id: int = -1) -> None:
        """Take in one record of our log: the same code live and at recovery.

        With a `producer_id`, an offset is held back until `apply_marker` ends the transaction.
        Records of other kinds of groups are skipped.
        """
        self._registry.apply(record, producer_id)

    def apply_marker(self, producer_id: int, *, committed: bool) -> None:
        """Take in the end of a transaction: its offsets count from now on, or never did."""
        self._registry.apply_marker(producer_id, committed=committed)

    def summaries(self) -> Iterator[telling.GroupSummary]:
        """Every group in a few numbers."""
        for group in self._registry.all():
            offsets = self._offsets.of_group(group.group_id)
            tally = (
                group
                if isinstance(group, ClassicGroup)
                else self._consumers.chronicles.of(group.group_id)
            )
            yield telling.GroupSummary(
                group_id=group.group_id,
                member_count=len(group.members),
                offsets=tuple(((key.topic, key.partition), at.offset) for key, at in offsets),
                rebalance_count=tally.rebalance_count,
                rebalance_ms=tally.rebalance_ms,
            )

    def hard_state(self) -> HardState:
        """What recovery would find, for comparison."""
        return self._registry.hard_state()

    def _with_story(self, described: DescribedGroup, now_ms: int) -> DescribedGroup:
        group = self._groups.get(described.group_id)
        if group is None:
            return described
        return replace(described, story=story.told(group, self._offsets, now_ms))

    def _with_consumer_story(
        self, described: ConsumerDescription, now_ms: int
    ) -> ConsumerDescription:
        group = self._consumers.groups.get(described.group_id)
        if group is None:
            return described
        told = consumer_story.told(self._consumers, group, self._offsets, now_ms)
        return replace(described, story=told)

    def _desk(
        self, group_id: str, caller: Caller, ticket: Ticket, now_ms: int
    ) -> classic_members.Desk | None:
        """Where a request of the old protocol goes if the group speaks the new one."""
        group = self._consumers.groups.get(group_id)
        if group is None or not group.members:
            return None
        return classic_members.Desk(
            groups=self._consumers, group=group, caller=caller, ticket=ticket, now_ms=now_ms
        )
