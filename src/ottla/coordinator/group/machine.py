"""All groups of one partition of `__consumer_offsets`: the machine that the broker's shell drives.

Every method takes a request as it came over the wire and returns effects; a request whose answer
must wait keeps its ticket in here.  Hard state, the groups and offsets of the log, changes in
`apply` alone, which is the same code live and at recovery.  Soft state (who waits, which alarm is
set, a generation that is not yet agreed) may change anywhere, and a restart forgets it: members
notice by an error, and join again.

A request that names groups of several partitions (OffsetFetch, DescribeGroups, DeleteGroups) is
split by the shell: one request for each machine, with the groups that belong to it.
"""

from collections.abc import Callable
from dataclasses import dataclass

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
from ottla.coordinator.group import committing, joining, membership, rebalance, telling
from ottla.coordinator.group.classic import Caller, Cause, ClassicGroup, Rebalance, State
from ottla.coordinator.group.offsets import Offsets
from ottla.coordinator.group.records import (
    CommittedOffset,
    GroupChange,
    OffsetChange,
    OffsetKey,
    decode_record,
    group_tombstone,
)
from ottla.errors import ErrorCode
from ottla.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_delete import OffsetDeleteRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from ottla.wire.messages.sync_group import SyncGroupRequest
from ottla.wire.stored.group_records import GroupMetadataValue

OFFSETS_ALARM: AlarmName = ("offsets",)


@dataclass(frozen=True, slots=True)
class HardState:
    """What the log says: the newest record of every group, and of every offset."""

    groups: dict[str, GroupMetadataValue]
    offsets: dict[OffsetKey, CommittedOffset]


class GroupCoordinator:
    """The groups of one partition of `__consumer_offsets`.

    Feed it the log with `apply` (and `apply_marker`), call `on_loaded` once, and then ask.  It is
    owned by one task; effects are performed before it is asked again (see `effects`).
    """

    def __init__(self, config: GroupConfig, random_bytes: Callable[[int], bytes]) -> None:
        """`random_bytes(count)` is where member ids come from."""
        self._config = config
        self._random_bytes = random_bytes
        self._groups: dict[str, ClassicGroup] = {}
        self._offsets = Offsets()

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
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_id:
                return [door.refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)]
            group = ClassicGroup(request.group_id, self._config)
        effects = joining.join(group, door)
        if not group.is_bare:
            self._groups[request.group_id] = group
        return effects

    def sync(
        self, request: SyncGroupRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """SyncGroup 0-5: answered when the leader has brought the assignment."""
        if not request.group_id:
            return [rebalance.refused_sync(ticket, ErrorCode.INVALID_GROUP_ID)]
        group = self._groups.get(request.group_id)
        if group is None:
            return [rebalance.refused_sync(ticket, ErrorCode.UNKNOWN_MEMBER_ID)]
        return membership.sync(group, request, ticket, now_ms)

    def heartbeat(
        self, request: HeartbeatRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """Heartbeat 0-4: the member lives on for a session timeout; told of a rebalance."""
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
        group = self._groups.get(request.group_id)
        effects = membership.leave(group, request, caller, ticket, now_ms)
        self._forget_if_bare(request.group_id)
        return effects

    def commit(
        self, request: OffsetCommitRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """OffsetCommit 2-10; topics of v10 must carry their names, which the shell looks up."""
        group = self._groups.get(request.group_id)
        if error := committing.commit_refusal(group, request, caller.version):
            return [Answer(ticket, committing.refused_commit(request, error))]
        effects: list[Effect] = []
        if group is not None and group.state in (State.PREPARING, State.STABLE):
            effects += rebalance.expect_heartbeat(group, group.members[request.member_id], now_ms)
        records, response = committing.commit(request, self._config, now_ms)
        if records:
            effects.append(Persist(records))
        return [*effects, Answer(ticket, response)]

    def fetch(
        self, request: OffsetFetchRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """OffsetFetch 1-10, answered from memory; no offset is -1 and no error."""
        return [Answer(ticket, committing.fetch(self._offsets, request, caller.version))]

    def offset_delete(
        self, request: OffsetDeleteRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """OffsetDelete 0: forget offsets of topics that no member is subscribed to."""
        group = self._groups.get(request.group_id)
        records, response = committing.delete(group, self._offsets, request)
        return [*_persist(records), Answer(ticket, response)]

    def describe(
        self, request: DescribeGroupsRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """DescribeGroups 0-6; authorized operations are the shell's to fill in."""
        groups = tuple(
            telling.described(group_id, self._groups.get(group_id), caller.version)
            for group_id in request.groups
        )
        return [Answer(ticket, DescribeGroupsResponse(groups=groups))]

    def list_groups(
        self, request: ListGroupsRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """ListGroups 0-5, of this partition: the shell joins the answers of all."""
        groups = telling.listed(self._groups.values(), request)
        return [Answer(ticket, ListGroupsResponse(groups=groups))]

    def delete_groups(
        self, request: DeleteGroupsRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        """DeleteGroups 0-3: groups without members go, with their offsets."""
        effects: list[Effect] = []
        results = []
        for group_id in dict.fromkeys(request.groups_names):
            error = self._delete_refusal(group_id)
            results.append(DeletableGroupResult(group_id=group_id, error_code=error))
            if not error:
                effects += self._delete(group_id)
        return [*effects, Answer(ticket, DeleteGroupsResponse(results=tuple(results)))]

    def explain(self, group_id: str, now_ms: int) -> list[str]:
        """What the group waits for, in words: for `why group`."""
        return telling.explain(group_id, self._groups.get(group_id), now_ms)

    def rebalances(self, group_id: str) -> tuple[Rebalance, ...]:
        """The last rebalances since this coordinator started, oldest first, and their causes."""
        group = self._groups.get(group_id)
        return () if group is None else tuple(group.rebalances)

    def on_alarm(self, name: AlarmName, now_ms: int) -> list[Effect]:
        """Time has passed: a member was silent, or a rebalance took its time, or offsets aged."""
        match name:
            case ("offsets",):
                return self._expire_offsets(now_ms)
            case (kind, group_id, *rest):
                group = self._groups.get(group_id)
                effects = [] if group is None else rebalance.on_alarm(group, kind, rest, now_ms)
                self._forget_if_bare(group_id)
                return effects
            case _:
                raise AssertionError(f"no such alarm: {name}")

    def on_topics_deleted(self, names: frozenset[str]) -> list[Effect]:
        """Topics are gone, and so are the offsets that groups have committed for them."""
        return _persist(self._offsets.tombstones_of_topics(names))

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
        return effects

    def apply(self, record: StoredRecord, producer_id: int = -1) -> None:
        """Take in one record of our log: the same code live and at recovery.

        With a `producer_id`, an offset is held back until `apply_marker` ends the transaction.
        Records of other kinds of groups are skipped.
        """
        match decode_record(record):
            case GroupChange(group_id, None):
                group = self._groups.pop(group_id, None)
                if group is not None and self._offsets.has_any(group_id):
                    self._groups[group_id] = ClassicGroup(group_id, self._config)
            case GroupChange(group_id, value) if value is not None:
                self._group(group_id).adopt(value)
            case OffsetChange(key, None):
                self._offsets.remove(key)
                self._forget_if_bare(key.group_id)
            case OffsetChange(key, offset) if offset is not None:
                self._group(key.group_id)
                self._offsets.put(key, offset, producer_id)
            case _:
                pass

    def apply_marker(self, producer_id: int, *, committed: bool) -> None:
        """Take in the end of a transaction: its offsets count from now on, or never did."""
        for group_id in self._offsets.settle(producer_id, committed=committed):
            self._forget_if_bare(group_id)

    def hard_state(self) -> HardState:
        """What recovery would find, for comparison."""
        stored = {g.group_id: g.stored for g in self._groups.values() if g.stored is not None}
        return HardState(stored, self._offsets.committed())

    def _group(self, group_id: str) -> ClassicGroup:
        """The group; one that only commits exists as soon as it has an offset."""
        return self._groups.setdefault(group_id, ClassicGroup(group_id, self._config))

    def _forget_if_bare(self, group_id: str) -> None:
        """Nothing stored, nobody there, no offset: there is no such group."""
        group = self._groups.get(group_id)
        if group is not None and group.is_bare and not self._offsets.has_any(group_id):
            del self._groups[group_id]

    def _delete_refusal(self, group_id: str) -> ErrorCode:
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if group.state is State.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def _delete(self, group_id: str) -> list[Effect]:
        """Write that an empty group is gone, and forget those who were about to join it."""
        group = self._groups[group_id]
        records = self._offsets.tombstones_of_group(group_id)
        if group.stored is not None:
            records += (group_tombstone(group_id),)
        return [*rebalance.dissolve(group), *_persist(records)]

    def _expire_offsets(self, now_ms: int) -> list[Effect]:
        """Offsets past their retention go, and empty groups that have none left."""
        effects: list[Effect] = []
        for group in list(self._groups.values()):
            expired = self._offsets.expired(group, self._config, now_ms)
            effects += _persist(expired.tombstones)
            is_empty = group.state is State.EMPTY and not group.pending
            if expired.leaves_nothing and is_empty and group.stored is not None:
                effects += _persist((group_tombstone(group.group_id),))
        interval_ms = self._config.offsets_retention_check_interval_ms
        return [*effects, Alarm(OFFSETS_ALARM, now_ms + interval_ms)]


def _persist(records: tuple[StoredRecord, ...]) -> list[Effect]:
    return [Persist(records)] if records else []
