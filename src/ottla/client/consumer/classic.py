"""A member of a classic group as a machine: what to say, and what answers mean.

Pure: requests out, answers in.  The round is Join, Sync, then Heartbeats until the group is shared
out anew.  One member, the leader, runs the assignor that all know; every other waits for its part.

What refusals mean is one table, `REACTIONS`.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.client.consumer.assignors import Assignor, Member, RangeAssignor, RoundRobinAssignor
from ottla.client.consumer.assignors import checked as checked_plan
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.sticky import CooperativeStickyAssignor, StickyAssignor
from ottla.client.records import GroupMetadata
from ottla.errors import ConfigError, ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from ottla.wire.stored.consumer_protocol import TopicPartition as WirePartitions
from ottla.wire.stored.versioned import decode_lenient, encode_versioned

PROTOCOL_TYPE: Final = "consumer"
NO_GENERATION: Final = -1
_SUBSCRIPTION_VERSION: Final = 3
_ASSIGNMENT_VERSION: Final = 0
_MAX_REASON: Final = 255

BUILT_IN: Final[Mapping[str, type[Assignor]]] = {
    assignor.name: assignor
    for assignor in (
        RangeAssignor,
        RoundRobinAssignor,
        StickyAssignor,
        CooperativeStickyAssignor,
    )
}


class Reaction(enum.Enum):
    """What a refusal asks of a member."""

    REJOIN = "join again; what we own is still ours"
    LOST = "join again; what we owned is not ours any more"
    FORGOTTEN = "the same, and our member id is not known any more"
    STOP = "somebody else has our place, for good"


REACTIONS: Final[Mapping[ErrorCode, Reaction]] = {
    ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
    ErrorCode.MEMBER_ID_REQUIRED: Reaction.REJOIN,
    ErrorCode.ILLEGAL_GENERATION: Reaction.LOST,
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.FORGOTTEN,
    ErrorCode.FENCED_INSTANCE_ID: Reaction.STOP,
    ErrorCode.UNRELEASED_INSTANCE_ID: Reaction.STOP,
}


class ClassicMember:
    """Who we are in the group, and what we say next."""

    def __init__(self, config: ConsumerConfig) -> None:
        assert config.group_id is not None
        self._config = config
        self._group_id = config.group_id
        self._assignors = _assignors_of(config.assignors)
        self.is_cooperative = all(a.cooperative for a in self._assignors.values())
        """Whether partitions are kept during a rebalance.  With mixed assignors we must be ready
        for the eager one."""
        self.member_id = ""
        self.generation = NO_GENERATION
        self.protocol: str | None = None
        self.is_leader = False
        self.group_topics: frozenset[str] = frozenset()
        """As the leader: all topics that anybody in the group wants."""
        self._skips_assignment = False

    @property
    def identity(self) -> GroupMetadata:
        instance_id = self._config.group_instance_id
        return GroupMetadata(self._group_id, self.generation, self.member_id, instance_id)

    @property
    def assignor(self) -> Assignor | None:
        """The one that the group has agreed on."""
        return None if self.protocol is None else self._assignors[self.protocol]

    # What to say.

    def join(
        self, topics: Iterable[str], owned: Iterable[TopicPartition], reason: str
    ) -> JoinGroupRequest:
        """Ask to be let in; the answer takes until all others have asked, too."""
        config = self._config
        return JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=tuple(
                JoinGroupRequestProtocol(
                    name=name, metadata=self._subscription(assignor, topics, owned)
                )
                for name, assignor in self._assignors.items()
            ),
            reason=reason[:_MAX_REASON],
        )

    def sync(self, plan: Mapping[str, Sequence[TopicPartition]] | None = None) -> SyncGroupRequest:
        """Ask for our part; the leader brings everybody's."""
        return SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=_assignment(tps))
                for member_id, tps in (plan or {}).items()
            ),
        )

    def heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self._group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._config.group_instance_id,
        )

    def leave(self, reason: str) -> LeaveGroupRequest:
        who = MemberIdentity(
            member_id=self.member_id,
            group_instance_id=self._config.group_instance_id,
            reason=reason[:_MAX_REASON],
        )
        return LeaveGroupRequest(group_id=self._group_id, members=(who,))

    # What was answered.

    def joined(self, answer: JoinGroupResponse) -> dict[str, Member]:
        """We are in.  Returns the members to share out among; {} unless we lead.

        Raises:
            ConfigError: The group has agreed on an assignor that we do not have.
        """
        if answer.protocol_name not in self._assignors:
            raise ConfigError(f"the group chose assignor {answer.protocol_name!r}, which we lack")
        self.member_id = answer.member_id
        self.generation = answer.generation_id
        self.protocol = answer.protocol_name
        self.is_leader = answer.leader == answer.member_id
        self._skips_assignment = answer.skip_assignment
        if not self.is_leader:
            self.group_topics = frozenset()
            return {}
        members = {
            told.member_id: _member(told.member_id, told.group_instance_id, bytes(told.metadata))
            for told in answer.members
        }
        self.group_topics = frozenset(t for member in members.values() for t in member.topics)
        return members

    def plan(
        self, members: Mapping[str, Member], counts: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        """As the leader: who gets what.  Raises what a user's assignor raises."""
        assignor = self.assignor
        assert assignor is not None
        if self._skips_assignment:
            return {}  # a static leader came back, and nothing has changed (KIP-814)
        return checked_plan(assignor.assign(members, counts), members, counts, assignor.name)

    def synced(self, assignment: bytes) -> frozenset[TopicPartition]:
        """What is ours now."""
        found = partitions_in(assignment)
        assert self.assignor is not None
        self.assignor.assigned(sorted(found), self.generation)
        return found

    def refused(self, code: ErrorCode) -> Reaction | None:
        """What an error of any request means; None: nothing about us, so try again, or give up."""
        reaction = REACTIONS.get(code)
        if reaction in (Reaction.LOST, Reaction.FORGOTTEN):
            self.generation = NO_GENERATION
        if reaction is Reaction.FORGOTTEN:
            self.member_id = ""
        return reaction

    def left(self) -> None:
        """We are not in the group any more, and said so, or were too late to."""
        self.member_id, self.generation = "", NO_GENERATION

    def _subscription(
        self, assignor: Assignor, topics: Iterable[str], owned: Iterable[TopicPartition]
    ) -> bytes:
        told = ConsumerProtocolSubscription(
            topics=tuple(sorted(topics)),
            user_data=assignor.user_data() or None,
            owned_partitions=wire_partitions(owned),
            generation_id=self.generation,
            rack_id=self._config.client_rack or None,
        )
        return encode_versioned(told, _SUBSCRIPTION_VERSION)


def wire_partitions(partitions: Iterable[TopicPartition]) -> tuple[WirePartitions, ...]:
    """Partitions as the consumer protocol groups them."""
    grouped: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        grouped.setdefault(tp.topic, []).append(tp.partition)
    return tuple(WirePartitions(topic=t, partitions=tuple(p)) for t, p in grouped.items())


def partitions_in(assignment: bytes) -> frozenset[TopicPartition]:
    """The partitions of an encoded assignment; an empty one has none."""
    if not assignment:
        return frozenset()
    told = decode_lenient(ConsumerProtocolAssignment, assignment)
    return frozenset(
        TopicPartition(topic.topic, index)
        for topic in told.assigned_partitions
        for index in topic.partitions
    )


def _assignment(partitions: Iterable[TopicPartition]) -> bytes:
    told = ConsumerProtocolAssignment(assigned_partitions=wire_partitions(partitions))
    return encode_versioned(told, _ASSIGNMENT_VERSION)


def _member(member_id: str, instance_id: str | None, metadata: bytes) -> Member:
    told = decode_lenient(ConsumerProtocolSubscription, metadata)
    return Member(
        member_id,
        frozenset(told.topics),
        frozenset(TopicPartition(t.topic, p) for t in told.owned_partitions for p in t.partitions),
        told.rack_id,
        bytes(told.user_data or b""),
        instance_id,
        told.generation_id,
    )


def _assignors_of(given: Sequence[Assignor | str]) -> dict[str, Assignor]:
    made = [BUILT_IN[item]() if isinstance(item, str) else item for item in given]
    return {assignor.name: assignor for assignor in made}
