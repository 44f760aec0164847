"""Which groups there are, of either kind, and the offsets of all of them: the hard state.

A name belongs to one group.  It is a classic one, or a consumer group (KIP-848), and becomes the
other kind by records that say so: whichever kind was written last is what it is.  A name that has
offsets and nothing else is an empty classic group.
"""

from dataclasses import field

from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import Effect, StoredRecord, persist_each
from ottla.coordinator.group import committing, rebalance
from ottla.coordinator.group.classic import ClassicGroup, State
from ottla.coordinator.group.consumer import committing as consumer_committing
from ottla.coordinator.group.consumer.coordinator import ConsumerGroups
from ottla.coordinator.group.consumer.group import ConsumerGroup, ConsumerState, Snapshot
from ottla.coordinator.group.consumer.records import ConsumerChange, decode_change
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
from ottla.values import dataclass
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.stored.group_records import GroupMetadataValue


@dataclass(frozen=True, slots=True)
class HardState:
    """What the log says: the newest record of every group, and of every offset."""

    groups: dict[str, GroupMetadataValue]
    offsets: dict[OffsetKey, CommittedOffset]
    consumer_groups: dict[str, Snapshot] = field(default_factory=dict)


class Registry:
    """All groups of one coordinator."""

    def __init__(self, config: GroupConfig, consumers: ConsumerGroups) -> None:
        self._config = config
        self.classic: dict[str, ClassicGroup] = {}
        self.consumers = consumers
        self.offsets = Offsets()

    def find(self, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        """The group of that name, of whichever kind."""
        return self.consumers.groups.get(group_id) or self.classic.get(group_id)

    def all(self) -> list[ClassicGroup | ConsumerGroup]:
        """Every group, of whichever kind."""
        return [*self.classic.values(), *self.consumers.groups.values()]

    def commit_refusal(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """Whether the sender of an OffsetCommit may commit for its group now."""
        group = self.find(request.group_id)
        if isinstance(group, ConsumerGroup):
            topics = self.consumers.topics
            return consumer_committing.commit_refusal(group, request, version, topics)
        return committing.commit_refusal(group, request, version)

    def txn_commit_refusal(self, request: TxnOffsetCommitRequest, version: int) -> ErrorCode:
        """Whether the sender of a TxnOffsetCommit may commit for its group now."""
        group = self.find(request.group_id)
        if isinstance(group, ConsumerGroup):
            topics = self.consumers.topics
            return consumer_committing.txn_commit_refusal(group, request, version, topics)
        return committing.commit_refusal(group, request, version)

    def fetch_refusal(self, asked: OffsetFetchRequestGroup) -> ErrorCode:
        """Whether the sender of an OffsetFetch may ask about a group."""
        group = self.consumers.groups.get(asked.group_id)
        return ErrorCode.NONE if group is None else consumer_committing.fetch_refusal(group, asked)

    def apply(self, record: StoredRecord, producer_id: int) -> None:
        """Take in one record of our log; records of kinds that are not ours are skipped."""
        match decode_record(record):
            case OffsetChange(key, offset) if offset is not None:
                self.offsets.put(key, offset, producer_id)
                self._keep_offsets(key.group_id)
            case OffsetChange(key, None):
                self.offsets.remove(key)
                self.forget_if_bare(key.group_id)
            case GroupChange(group_id, None):
                if self.classic.pop(group_id, None) is not None:
                    self._keep_offsets(group_id)
            case GroupChange(group_id, value) if value is not None:
                self.consumers.forget(group_id)
                group = self._classic(group_id)
                group.adopt(value)
                if (past := self.consumers.chronicles.handed_over(group_id)) is not None:
                    group.take_over(past.rebalances, past.rebalance_count, past.rebalance_ms)
            case _:
                if (change := decode_change(record)) is not None:
                    self._apply_consumer(change)

    def apply_marker(self, producer_id: int, *, committed: bool) -> None:
        """Take in the end of a transaction: its offsets count from now on, or never did."""
        for group_id in self.offsets.settle(producer_id, committed=committed):
            self.forget_if_bare(group_id)

    def hard_state(self) -> HardState:
        """What recovery would find, for comparison."""
        stored = {g.group_id: g.stored for g in self.classic.values() if g.stored is not None}
        consumers = {g.group_id: g.snapshot() for g in self.consumers.groups.values()}
        return HardState(stored, self.offsets.committed(), consumers)

    def forget_if_bare(self, group_id: str) -> None:
        """Nothing stored, nobody there, no offset: there is no such group."""
        group = self.classic.get(group_id)
        if group is not None and group.is_bare and not self.offsets.has_any(group_id):
            del self.classic[group_id]

    def retire_empty(self, group_id: str) -> list[Effect]:
        """A classic group takes the place of an empty consumer group, if there is one."""
        group = self.consumers.groups.get(group_id)
        return [] if group is None else persist_each(self.consumers.dissolve(group))

    def delete_refusal(self, group_id: str) -> ErrorCode:
        """Whether a group may be deleted."""
        group = self.find(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        is_empty = group.state in (State.EMPTY, ConsumerState.EMPTY)
        return ErrorCode.NONE if is_empty else ErrorCode.NON_EMPTY_GROUP

    def delete(self, group_id: str) -> list[Effect]:
        """Write that an empty group is gone, and forget those who were about to join it."""
        effects: list[Effect] = []
        if (group := self.classic.get(group_id)) is not None:
            effects += rebalance.dissolve(group)
        records = (*self.offsets.tombstones_of_group(group_id), *self._tombstones(group_id))
        return [*effects, *persist_each(records)]

    def expire_offsets(self, now_ms: int) -> list[Effect]:
        """Offsets past their retention go, and empty groups that have none left."""
        effects: list[Effect] = []
        for group in self.all():
            expired = self.offsets.expired(group, self._config, now_ms)
            effects += persist_each(expired.tombstones)
            if isinstance(group, ClassicGroup):
                is_empty = group.state is State.EMPTY and not group.pending
            else:
                is_empty = not group.members
            if expired.leaves_nothing and is_empty:
                effects += persist_each(self._tombstones(group.group_id))
        return effects

    def _apply_consumer(self, change: ConsumerChange) -> None:
        group_id = change.group_id
        was_there = group_id in self.consumers.groups
        self.consumers.apply(change)
        is_there = group_id in self.consumers.groups
        if is_there and not was_there:
            self.classic.pop(group_id, None)
        elif was_there and not is_there:
            self._keep_offsets(group_id)

    def _classic(self, group_id: str) -> ClassicGroup:
        group = self.classic.get(group_id)
        if group is None:
            group = self.classic[group_id] = ClassicGroup(group_id, self._config)
        return group

    def _keep_offsets(self, group_id: str) -> None:
        """A name that has offsets is a group, even if nobody ever joined it."""
        if self.offsets.has_any(group_id) and group_id not in self.consumers.groups:
            self._classic(group_id)

    def _tombstones(self, group_id: str) -> tuple[StoredRecord, ...]:
        """What to write of an empty group beside its offsets; nothing if nothing was written."""
        group = self.find(group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumers.dissolve(group)
        has_record = group is not None and group.stored is not None
        return (group_tombstone(group_id),) if has_record else ()
