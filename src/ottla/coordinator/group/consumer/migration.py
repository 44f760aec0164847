"""From a classic group to a consumer group, and back (`group.consumer.migration.policy`).

The first member that joins a classic group with the new protocol turns it into a consumer group, in
which the others live on as classic members.  When the last member of the new protocol is gone, the
group is classic again.  Nobody loses what it owns on the way: epochs go on from the generation, and
the partitions are taken over as they are.
"""

from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import Alarm, Effect, Persist, StoredRecord
from ottla.coordinator.group import rebalance
from ottla.coordinator.group.classic import CONSUMER, ClassicGroup, State
from ottla.coordinator.group.consumer.group import NO_TARGET, ConsumerGroup
from ottla.coordinator.group.consumer.heartbeats import Refusal
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.records import (
    by_topic,
    current_record,
    decode_change,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from ottla.coordinator.group.consumer.topics import Place, Topics
from ottla.coordinator.group.member import Member
from ottla.coordinator.group.records import group_record, group_tombstone
from ottla.errors import ErrorCode, WireError
from ottla.values import dataclass
from ottla.wire.schema import api_of
from ottla.wire.stored.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from ottla.wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from ottla.wire.stored.versioned import decode_lenient, encode_versioned, record_type_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The group that a request is about, and what has to happen if the request is accepted."""

    group: ConsumerGroup
    records: tuple[StoredRecord, ...] = ()
    effects: tuple[Effect, ...] = ()
    is_converted: bool = False  # its members were those of a classic group


def from_classic(classic: ClassicGroup, topics: Topics, config: GroupConfig) -> Opened | Refusal:
    """A classic group as a consumer group; an empty one is simply replaced."""
    gone = () if classic.stored is None else (group_tombstone(classic.group_id),)
    effects = _release(classic)
    if classic.state is State.EMPTY:
        return Opened(group=ConsumerGroup(classic.group_id), records=gone, effects=effects)
    if (reason := _obstacle(classic, config)) is not None:
        return _refusal(classic, reason)
    try:
        members = _converted(classic, topics)
    except WireError as error:
        return _refusal(classic, f"what its members say of themselves is unreadable: {error}")
    if members is None:
        return _refusal(classic, "it has an assignor of its own, whose data would be lost")
    records = _records(classic, members, topics)
    group = ConsumerGroup(classic.group_id)
    for record in records:
        change = decode_change(record)
        assert change is not None, record
        group.apply(change)
    return Opened(group=group, records=(*gone, *records), effects=effects, is_converted=True)


def can_go_back(group: ConsumerGroup, leaving: list[ConsumerMember], config: GroupConfig) -> bool:
    """Whether the group can be a classic one once these members are gone."""
    gone = {member.member_id for member in leaving}
    stay = [m for m in group.members.values() if m.member_id not in gone]
    if not stay or len(stay) > config.max_size or not all(m.is_classic for m in stay):
        return False
    names = [{protocol.name for protocol in m.classic_protocols} for m in stay]
    return config.consumer_migration_policy in ("downgrade", "bidirectional") and bool(
        set.intersection(*names)
    )


def to_classic(
    group: ConsumerGroup, leaving: list[ConsumerMember], topics: Topics, now_ms: int
) -> list[Effect]:
    """Write the group down as a classic one; a rebalance follows, in which all join again."""
    classic = ClassicGroup(group.group_id, GroupConfig())
    classic.protocol_type, classic.generation = CONSUMER, group.epoch
    gone = {member.member_id for member in leaving}
    for member in group.members.values():
        if member.member_id not in gone:
            classic.add(_to_classic(member))
    classic.protocol_name = classic.chosen_protocol()
    assignments = {
        member_id: assignment_of(
            group.members[member_id], group.target.get(member_id, NO_TARGET), topics
        )
        for member_id in classic.members
    }
    record = group_record(group.group_id, classic.next_record(assignments, now_ms))
    return [
        Persist((*group.tombstones(), record)),
        Alarm(rebalance.return_alarm(classic), now_ms),
    ]


def assignment_of(member: ConsumerMember, places: "frozenset[Place]", topics: Topics) -> bytes:
    """What a classic member is told of its share, in the version that it speaks."""
    named = {topics.name_of(topic_id): ps for topic_id, ps in by_topic(places).items()}
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=tuple(
            TopicPartition(topic=name, partitions=partitions)
            for name, partitions in named.items()
            if name is not None
        )
    )
    spoken = record_type_of(member.classic_protocols[0].metadata)
    newest = api_of(ConsumerProtocolAssignment).versions.high
    return encode_versioned(assignment, min(spoken, newest))


def classic_metadata(session_timeout_ms: int, member: Member) -> ClassicMemberMetadata:
    """What is remembered of a member that speaks the old protocol."""
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=tuple(
            ClassicProtocol(name=p.name, metadata=p.metadata) for p in member.protocols
        ),
    )


def _obstacle(classic: ClassicGroup, config: GroupConfig) -> str | None:
    if config.consumer_migration_policy not in ("upgrade", "bidirectional"):
        return f"group.consumer.migration.policy is {config.consumer_migration_policy}"
    if classic.protocol_type != CONSUMER:
        return f"its members are of the kind {classic.protocol_type!r}, not consumers"
    if len(classic.members) > config.consumer_max_size:
        return f"it has {len(classic.members)} members, more than group.consumer.max.size"
    return None


def _refusal(classic: ClassicGroup, reason: str) -> Refusal:
    return Refusal(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"{classic.group_id} is a classic group, and cannot become a consumer group: {reason}",
    )


def _release(classic: ClassicGroup) -> tuple[Effect, ...]:
    """Let go of all who wait for a classic group: they join again, and find the new one."""
    error = ErrorCode.REBALANCE_IN_PROGRESS
    effects: list[Effect] = [
        Alarm(rebalance.join_alarm(classic), None),
        Alarm(rebalance.sync_alarm(classic), None),
        *(
            Alarm(rebalance.session_alarm(classic, member_id), None)
            for member_id in classic.pending
        ),
    ]
    for member in classic.members.values():
        effects.append(Alarm(rebalance.session_alarm(classic, member.member_id), None))
        if (join := member.join) is not None:
            effects.append(
                rebalance.refused_join(join.ticket, join.version, error, member.member_id)
            )
        if member.sync is not None:
            effects.append(rebalance.refused_sync(member.sync, error))
    return tuple(effects)


def _converted(classic: ClassicGroup, topics: Topics) -> list[ConsumerMember] | None:
    """The members, each with what it owns; None if an assignor has told them more than that."""
    taken: set[Place] = set()
    members = []
    for member in classic.members.values():
        spoken = classic.protocol_name or member.protocols[0].name
        subscription = decode_lenient(ConsumerProtocolSubscription, member.metadata(spoken))
        places: set[Place] = set()
        if member.assignment:
            assignment = decode_lenient(ConsumerProtocolAssignment, member.assignment)
            if assignment.user_data:
                return None
            places = _places(assignment.assigned_partitions, topics) - taken
        taken |= places
        members.append(
            ConsumerMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                rack_id=subscription.rack_id,
                client_id=member.client_id,
                client_host=member.client_host,
                names=frozenset(subscription.topics),
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                classic=classic_metadata(member.session_timeout_ms, member),
                epoch=classic.generation,
                previous_epoch=classic.generation,
                assigned=dict.fromkeys(sorted(places), classic.generation),
            )
        )
    return members


def _places(given: tuple[TopicPartition, ...], topics: Topics) -> set[Place]:
    found = ((topics.id_of(topic.topic), topic.partitions) for topic in given)
    return {(i, partition) for i, partitions in found if i is not None for partition in partitions}


def owned_places(subscription: ConsumerProtocolSubscription, topics: Topics) -> frozenset[Place]:
    """What a classic member says it owns; eager ones give everything up before they join."""
    return frozenset(_places(subscription.owned_partitions, topics))


def _records(
    classic: ClassicGroup, members: list[ConsumerMember], topics: Topics
) -> list[StoredRecord]:
    group_id, epoch = classic.group_id, classic.generation
    topics_hash = topics.hash_of(name for member in members for name in member.names)
    return [
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, epoch, topics_hash),
        *(target_record(group_id, member.member_id, member.assigned) for member in members),
        target_epoch_record(group_id, epoch, 0),
        *(current_record(group_id, member) for member in members),
    ]


def _to_classic(member: ConsumerMember) -> Member:
    assert member.classic is not None, member.member_id
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=member.classic_protocols,
    )
