"""A member of a group whose broker assigns (KIP-848), as a machine.

Pure.  Everything is one kind of request, the heartbeat, which says only what has changed since the
last one that was answered.  The broker answers with an epoch and, when it changes, with the target:
what this member is to own.  The member gets there by itself: it gives up first, says so, takes
over, says so.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.client.consumer.config import ConsumerConfig
from ottla.client.records import GroupMetadata
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
PAUSE_EPOCH: Final = -2
"""A static member leaves for a while."""


class Fate(enum.Enum):
    """What a refusal means for a member."""

    LOST = "join again; what we owned is not ours any more"
    STOP = "somebody else has our place, for good"
    RETRY = "say it again"
    FAIL = "the caller must know"


_FATES: Final[Mapping[ErrorCode, Fate]] = {
    ErrorCode.UNKNOWN_MEMBER_ID: Fate.LOST,
    ErrorCode.FENCED_MEMBER_EPOCH: Fate.LOST,
    ErrorCode.FENCED_INSTANCE_ID: Fate.STOP,
    ErrorCode.UNRELEASED_INSTANCE_ID: Fate.STOP,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Fate.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Fate.RETRY,
    ErrorCode.NOT_COORDINATOR: Fate.RETRY,
}

Target = frozenset[tuple[bytes, int]]
"""Topic ids and partitions: what the broker wants us to own."""


class ModernMember:
    """Who we are in the group, and what we say next."""

    def __init__(self, config: ConsumerConfig, member_id: str) -> None:
        """`member_id` is ours for as long as the consumer lives (KIP-1082)."""
        assert config.group_id is not None
        self._config = config
        self._group_id = config.group_id
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.is_in = False
        """Whether the group has let us in."""
        self.target: Target | None = None
        """None: not told yet."""
        self.heartbeat_interval_ms = config.heartbeat_interval_ms
        self._told_topics: frozenset[str] | None = None
        self._told_owned: Target | None = None

    @property
    def identity(self) -> GroupMetadata:
        epoch = self.epoch if self.is_in else -1
        member_id = self.member_id if self.is_in else ""
        return GroupMetadata(self._group_id, epoch, member_id, self._config.group_instance_id)

    def needs_heartbeat(self, topics: frozenset[str], owned: Target) -> bool:
        """Whether there is something to say before the next heartbeat is due."""
        return self.epoch == JOIN_EPOCH or topics != self._told_topics or owned != self._told_owned

    def heartbeat(self, topics: frozenset[str], owned: Target) -> ConsumerGroupHeartbeatRequest:
        """Join, or stay: what is new since the last answer.  Who joins owns nothing."""
        assert self.epoch != JOIN_EPOCH or not owned, "nothing is owned before joining"
        config = self._config
        # A broker tells the target again only if a request says everything (KIP-848), as one must
        # whose last answer was lost: the target may have been in it.
        is_full = self._told_topics is None or self._told_owned is None
        is_new = is_full or topics != self._told_topics
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=config.group_instance_id,
            rack_id=config.client_rack or None if is_full else None,
            rebalance_timeout_ms=config.max_poll_interval_ms if is_full else -1,
            subscribed_topic_names=tuple(sorted(topics)) if is_new else None,
            server_assignor=config.group_remote_assignor if is_full else None,
            topic_partitions=wire_target(owned) if is_full or owned != self._told_owned else None,
        )

    def leave(self, *, comes_back: bool) -> ConsumerGroupHeartbeatRequest:
        """Say goodbye; with `comes_back`, a static member keeps its place."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            member_epoch=PAUSE_EPOCH if comes_back else LEAVE_EPOCH,
            instance_id=self._config.group_instance_id,
        )

    def answered(
        self, answer: ConsumerGroupHeartbeatResponse, topics: frozenset[str], owned: Target
    ) -> bool:
        """Take in a good answer to `heartbeat(topics, owned)`; whether there is a new target."""
        self.epoch = answer.member_epoch
        self.is_in = True
        self.member_id = answer.member_id or self.member_id
        if answer.heartbeat_interval_ms > 0:
            self.heartbeat_interval_ms = answer.heartbeat_interval_ms
        self._told_topics = topics
        self._told_owned = owned
        if answer.assignment is None:
            return False
        before, self.target = self.target, target_of(answer.assignment.topic_partitions)
        return self.target != before

    def refused(self, code: ErrorCode) -> Fate:
        """What an error means; whoever is lost begins again."""
        fate = _FATES.get(code, Fate.FAIL)
        if fate is not Fate.RETRY:
            self.left()
        return fate

    def unanswered(self) -> None:
        """No answer came: the broker may or may not have heard us, so say everything again."""
        self._told_topics = self._told_owned = None

    def left(self) -> None:
        """We are not in the group any more."""
        self.epoch, self.is_in, self.target = JOIN_EPOCH, False, None
        self.unanswered()


def target_of(told: Iterable[TopicPartitions]) -> Target:
    """What a broker's list of partitions means."""
    return frozenset((topic.topic_id, index) for topic in told for index in topic.partitions)


def wire_target(owned: Target) -> tuple[TopicPartitions, ...]:
    """Partitions as the protocol groups them."""
    grouped: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(owned):
        grouped.setdefault(topic_id, []).append(index)
    return tuple(TopicPartitions(topic_id=t, partitions=tuple(p)) for t, p in grouped.items())


def named(target: Target, names: Mapping[bytes, str]) -> frozenset[TopicPartition] | None:
    """A target by topic names; None while one of them is not known."""
    if any(topic_id not in names for topic_id, _ in target):
        return None
    return frozenset(TopicPartition(names[topic_id], index) for topic_id, index in target)
