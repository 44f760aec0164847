"""Clients of both protocols for random walks: what they believe may be long out of date.

A client really owns what it was given until it gives it up itself, which may take it a while, or
until it hears that it is no member any more.
"""

from dataclasses import dataclass, field
from typing import Any

from ottla.coordinator.group.classic import ClassicGroup
from ottla.coordinator.group.consumer.topics import Place
from ottla.errors import ErrorCode
from ottla.wire.stored.consumer_protocol import ConsumerProtocolAssignment, TopicPartition
from ottla.wire.stored.versioned import decode_versioned, encode_versioned
from tests.consumer_group_samples import ConsumerDesk, assigned, topic_id
from tests.group_samples import GROUP, TOPIC, protocols

REBALANCE_MS = 20_000

_BEGIN_ANEW = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
_GONE = (*_BEGIN_ANEW, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND)


@dataclass
class NewClient:
    """One that speaks the new protocol."""

    desk: ConsumerDesk
    name: str
    instance_id: str | None = None
    life: int = 0
    epoch: int = 0
    names: tuple[str, ...] = (TOPIC,)
    owned: set[Place] = field(default_factory=set)
    wanted: set[Place] = field(default_factory=set)  # what it was told to own
    was_lost: bool = False  # it does not know whether its last request was answered

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.life}"

    def report(self, *, is_lost: bool = False) -> None:
        """One heartbeat; after a lost answer it says everything again."""
        says_all = self.epoch == 0 or self.was_lost or self.owned != self.wanted
        answer = self.desk.beat(
            self.member_id,
            self.epoch,
            names=self.names if says_all else None,
            owned=set(self.owned) if says_all else None,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_MS if says_all else -1,
        )
        self.was_lost = is_lost
        if not is_lost:
            self._heed(answer)

    def echo(self) -> None:
        """Its first join comes once more, out of some queue; nobody hears the answer."""
        self.desk.beat(self.member_id, names=self.names, instance_id=self.instance_id)

    def acknowledge(self) -> None:
        """Give up what it was told to, and say so."""
        self.owned &= self.wanted
        self.was_lost = True
        self.report()

    def leave(self, epoch: int = -1) -> None:
        self.desk.beat(self.member_id, epoch, instance_id=self.instance_id)
        self.drop()

    def crash(self) -> None:
        """A new process, that knows nothing of the old one."""
        self.life += 1
        self.drop()

    def drop(self) -> None:
        self.epoch, self.owned, self.wanted, self.was_lost = 0, set(), set(), False

    def subscribe(self, *names: str) -> None:
        self.names, self.was_lost = names, True

    def has_a_say(self) -> bool:
        """Whether the coordinator would hear it, so that what it owns counts: it is not fenced."""
        group = self.desk.machine._consumers.groups.get(GROUP)
        member = None if group is None else group.members.get(self.member_id)
        if member is None or self.epoch == member.epoch:
            return member is not None
        return self.epoch == member.previous_epoch and self.owned <= member.assigned.keys()

    def _heed(self, answer: Any) -> None:
        if answer.error_code in _GONE:
            self.drop()
        if answer.error_code != ErrorCode.NONE:
            return
        self.epoch = answer.member_epoch
        given = assigned(answer)
        if given is not None:
            self.wanted = given
            self.owned |= given


@dataclass
class OldClient:
    """One that speaks the old protocol, and gives up everything before it joins."""

    desk: ConsumerDesk
    name: str
    member_id: str = ""
    generation: int = -1
    owned: set[Place] = field(default_factory=set)
    joining: int | None = None
    syncing: int | None = None

    def step(self) -> None:
        """Whatever comes next for it."""
        if self.joining is not None:
            self._hear_join()
        elif self.syncing is not None:
            self._hear_sync()
        elif self.generation < 0 or self.desk.heartbeat(self.member_id, self.generation):
            self.join()

    def join(self) -> None:
        self.owned, self.generation = set(), -1
        self.joining = self.desk.join(
            self.member_id,
            spoken=protocols("range"),
            rebalance_ms=REBALANCE_MS,
            client_id=self.name,
        )

    def leave(self) -> None:
        self.desk.leave(self.member_id)
        self.crash()

    def crash(self) -> None:
        self.member_id, self.generation, self.owned = "", -1, set()
        self.joining = self.syncing = None

    def has_a_say(self) -> bool:
        group = self.desk.machine._registry.find(GROUP)
        if group is None or self.member_id not in group.members:
            return False
        if isinstance(group, ClassicGroup):
            return group.generation == self.generation
        return group.members[self.member_id].epoch == self.generation

    def _hear_join(self) -> None:
        answer = self._answer(self.joining)
        if answer is None:
            return
        self.joining = None
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.join()
        elif answer.error_code == ErrorCode.NONE:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            shares = self._shares([member.member_id for member in answer.members])
            self.syncing = self.desk.sync(self.member_id, self.generation, shares)
        elif answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.crash()

    def _hear_sync(self) -> None:
        answer = self._answer(self.syncing)
        if answer is None:
            return
        self.syncing = None
        if answer.error_code == ErrorCode.NONE:
            decoded = decode_versioned(ConsumerProtocolAssignment, answer.assignment)
            for topic in decoded.assigned_partitions:
                self.owned |= {(topic_id(topic.topic), p) for p in topic.partitions}
        elif answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.crash()
        else:
            self.join()

    def _answer(self, ticket: int | None) -> Any:
        assert ticket is not None
        if ticket in self.desk.lost:
            self.joining = self.syncing = None
            self.generation = -1
            return None
        return self.desk.answers.get(ticket)

    def _shares(self, member_ids: list[str]) -> dict[str, bytes]:
        """If it leads, it shares out the partitions of the one topic that all read."""
        count = self.desk.topics.partition_counts([TOPIC]).get(topic_id(TOPIC), 0)
        return {
            member_id: encode_versioned(
                ConsumerProtocolAssignment(
                    assigned_partitions=(
                        TopicPartition(
                            topic=TOPIC, partitions=tuple(range(index, count, len(member_ids)))
                        ),
                    )
                ),
                1,
            )
            for index, member_id in enumerate(member_ids)
        }
