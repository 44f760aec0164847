"""One consumer group as its log tells of it: members, epochs, the target, who owns what.

Three epochs are at work.  The group's grows when its members or what they read changes; the
target's follows when the partitions are shared out anew; a member's follows when it has given up
what is no longer its own.  The state of a group is a comparison of the three.

Everything in here changes in `apply` alone.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Final, assert_never

from ottla.coordinator.effects import StoredRecord
from ottla.coordinator.group.consumer.member import LEAVING_EPOCH, ConsumerMember, MemberState
from ottla.coordinator.group.consumer.records import (
    ConsumerChange,
    Kind,
    Resolved,
    group_tombstones,
    places_of,
    places_with_epochs,
)
from ottla.coordinator.group.consumer.tally import Tally
from ottla.coordinator.group.consumer.topics import Place
from ottla.values import dataclass
from ottla.wire.stored.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)

NO_TARGET: Final[frozenset[Place]] = frozenset()


class ConsumerState(Enum):
    """Where a group stands; the values are the names the protocol reports."""

    EMPTY = "Empty"  # no members; committed offsets live on
    ASSIGNING = "Assigning"  # the partitions have yet to be shared out in this epoch
    RECONCILING = "Reconciling"  # members are on their way to what they shall own
    STABLE = "Stable"  # everybody owns what it shall own


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All of a group's hard state, for comparison."""

    epoch: int
    topics_hash: int
    target_epoch: int
    assigned_ms: int
    members: Mapping[str, ConsumerMember]
    target: Mapping[str, frozenset[Place]]
    patterns: Mapping[str, Resolved]


class ConsumerGroup:
    """One group.  Only `apply` changes it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.topics_hash = 0
        self.target_epoch = 0
        self.assigned_ms = 0  # when the target was decided; 0: the next one need not wait
        self.members: dict[str, ConsumerMember] = {}
        self.tally = Tally()  # of the members
        self.static_ids: dict[str, str] = {}  # instance id -> member id
        self.target: dict[str, frozenset[Place]] = {}
        self.patterns: dict[str, Resolved] = {}
        self.has_old_topics = False  # a record of a kind that is no longer written
        self.owners: dict[Place, str] = {}  # who owns a partition, or has yet to give it up
        self._topics: frozenset[str] | None = None  # worked out when somebody asks

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if all(m.is_reconciled_to(self.target_epoch) for m in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def topics(self) -> frozenset[str]:
        """All that members read."""
        if self._topics is None:
            self._topics = self.tally.topics(self.patterns)
        return self._topics

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic, by its name or by an expression."""
        return topic in self.topics

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether a part of the member's target is still in other hands."""
        return any(
            place not in member.assigned
            and self.owners.get(place, member.member_id) != member.member_id
            for place in self.target.get(member.member_id, NO_TARGET)
        )

    def tombstones(self) -> list[StoredRecord]:
        """What to write when the group is gone."""
        return group_tombstones(self.group_id, self.members, self.patterns)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            epoch=self.epoch,
            topics_hash=self.topics_hash,
            target_epoch=self.target_epoch,
            assigned_ms=self.assigned_ms,
            members=dict(self.members),
            target=dict(self.target),
            patterns=dict(self.patterns),
        )

    def apply(self, change: ConsumerChange) -> None:
        """Take in one change: the same code live and at recovery."""
        value = change.value
        match change.kind:
            case Kind.EPOCH:
                self.epoch = 0 if value is None else value.epoch
                self.topics_hash = 0 if value is None else value.metadata_hash
            case Kind.TARGET_EPOCH:
                self.target_epoch = -1 if value is None else value.assignment_epoch
                self.assigned_ms = 0 if value is None else value.assignment_timestamp
            case Kind.MEMBER:
                self._apply_member(change.subject, value)
            case Kind.TARGET:
                self.target.pop(change.subject, None)
                if value is not None:
                    self.target[change.subject] = places_of(value.topic_partitions)
            case Kind.CURRENT:
                self._apply_current(change.subject, value)
            case Kind.PATTERN:
                self.patterns.pop(change.subject, None)
                if value is not None:
                    self.patterns[change.subject] = Resolved(
                        topics=frozenset(value.topics),
                        version=value.version,
                        resolved_ms=value.timestamp,
                    )
                self._topics = None
            case Kind.OLD_TOPICS:
                self.has_old_topics = value is not None
            case _:
                assert_never(change.kind)

    def _apply_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        old = self.members.get(member_id) or ConsumerMember(member_id=member_id)
        if old.instance_id is not None and self.static_ids.get(old.instance_id) == member_id:
            del self.static_ids[old.instance_id]
        self._topics = None
        if value is None:
            self._let_go(old)
            self.tally.replace(self.members.pop(member_id, None), None)
        else:
            classic = value.classic_member_metadata
            is_classic = classic is not None and bool(classic.supported_protocols)
            new = replace(
                old,
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                names=frozenset(value.subscribed_topic_names),
                pattern=value.subscribed_topic_regex or "",
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                server_assignor=value.server_assignor,
                classic=classic if is_classic else None,
            )
            self.tally.replace(self.members.get(member_id), new)
            self.members[member_id] = new
            if new.instance_id is not None:
                self.static_ids[new.instance_id] = member_id

    def _apply_current(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        old = self.members.get(member_id)
        if value is None:
            if old is not None:
                self._let_go(old)
                self.members[member_id] = replace(
                    old,
                    epoch=LEAVING_EPOCH,
                    previous_epoch=LEAVING_EPOCH,
                    assigned={},
                    revoking={},
                )
            return
        old = old or ConsumerMember(member_id=member_id)
        self._let_go(old)
        new = replace(
            old,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=places_with_epochs(value.assigned_partitions, value.member_epoch),
            revoking=places_with_epochs(value.partitions_pending_revocation, value.member_epoch),
        )
        if member_id not in self.members:
            self.tally.replace(None, new)
        self.members[member_id] = new
        for place in (*new.assigned, *new.revoking):
            self.owners[place] = member_id

    def _let_go(self, member: ConsumerMember) -> None:
        for place in (*member.assigned, *member.revoking):
            if self.owners.get(place) == member.member_id:
                del self.owners[place]
