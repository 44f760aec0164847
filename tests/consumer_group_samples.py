"""Consumer groups (KIP-848) on a desk: topics, and members that do as they are told, or do not.

`Consumer` is one member as a client implements it: it says what it owns, takes over what it is
given, and gives up what it must.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.cluster.image import PartitionImage, TopicImage
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.topics import Place, Topics
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    DescribedGroup,
)
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.describe_groups import GroupStory
from tests.group_samples import GROUP, REBALANCE_MS, TOPIC, Desk

SESSION_MS = 45_000


def topic_id(name: str, incarnation: int = 0) -> bytes:
    """The id of a topic; another one if it was deleted and created anew."""
    return name.encode().ljust(15, b".") + bytes([incarnation + 1])


def topics(counts: Mapping[str, int], incarnation: int = 0) -> Topics:
    """Topics with so many partitions."""
    images = {
        name: TopicImage(
            name=name,
            topic_id=topic_id(name, incarnation),
            partitions=tuple(
                PartitionImage(index=i, leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
                for i in range(count)
            ),
        )
        for name, count in counts.items()
    }
    return Topics(images, {image.topic_id: name for name, image in images.items()})


def places(*partitions: int, topic: str = TOPIC) -> set[Place]:
    return {(topic_id(topic), partition) for partition in partitions}


class ConsumerDesk(Desk):
    """A desk that knows of topics."""

    def __init__(self, counts: Mapping[str, int] | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.have(counts if counts is not None else {TOPIC: 4})

    def have(self, counts: Mapping[str, int], incarnation: int = 0) -> None:
        """These are the topics from now on."""
        self.topics = topics(counts, incarnation)
        self.machine.on_topics_changed(self.topics)

    def consumer_group(self, group_id: str = GROUP) -> ConsumerGroup:
        return self.machine._consumers.groups[group_id]

    def beat(
        self,
        member_id: str = "ada",
        epoch: int = 0,
        *,
        names: tuple[str, ...] | None = None,
        owned: set[Place] | None = None,
        version: int = 1,
        client_id: str = "c",
        **fields: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat, as it is given; with epoch 0 it joins with all that this needs."""
        given: dict[str, Any] = {"group_id": GROUP, **fields}
        if epoch == 0:
            given.setdefault("rebalance_timeout_ms", REBALANCE_MS)
            if "subscribed_topic_regex" not in given:
                names = (TOPIC,) if names is None else names
            owned = set() if owned is None else owned
        request = ConsumerGroupHeartbeatRequest(
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=names,
            topic_partitions=None if owned is None else as_owned(owned),
            **given,
        )
        ticket = self.ask("consumer_heartbeat", request, version, client_id)
        answer: ConsumerGroupHeartbeatResponse = self.answers[ticket]
        return answer

    def told(self, group_id: str = GROUP) -> DescribedGroup:
        """What ConsumerGroupDescribe says."""
        request = ConsumerGroupDescribeRequest(
            group_ids=(group_id,), include_authorized_operations=False
        )
        group: DescribedGroup = self.answers[self.ask("consumer_describe", request, 1)].groups[0]
        return group

    def story(self, group_id: str = GROUP) -> GroupStory:
        """What ConsumerGroupDescribe says to those who ask for more."""
        request = ConsumerGroupDescribeRequest(
            group_ids=(group_id,), include_authorized_operations=False, include_story=True
        )
        answer = self.answers[self.ask("consumer_describe", request, 1)]
        story: GroupStory | None = answer.groups[0].story
        assert story is not None, f"{group_id} has no story"
        return story

    def settle(self, *consumers: "Consumer") -> None:
        """Let members report until nothing changes any more."""
        for _ in range(20):
            changes = [consumer.report() for consumer in consumers]
            if not any(changes):
                return
        raise AssertionError("the group does not come to rest")


def as_owned(owned: set[Place]) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(topic_id=i, partitions=tuple(sorted(p for t, p in owned if t == i)))
        for i in sorted({i for i, _ in owned})
    )


def assigned(answer: ConsumerGroupHeartbeatResponse) -> set[Place] | None:
    """What an answer assigns; None if it says that nothing has changed."""
    if answer.assignment is None:
        return None
    return {(t.topic_id, p) for t in answer.assignment.topic_partitions for p in t.partitions}


@dataclass
class Consumer:
    """A member as a client implements it."""

    desk: ConsumerDesk
    member_id: str
    names: tuple[str, ...] = (TOPIC,)
    instance_id: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    epoch: int = 0
    owned: set[Place] = field(default_factory=set)

    def join(self) -> "Consumer":
        self.epoch, self.owned = 0, set()
        self.report()
        return self

    def report(self) -> bool:
        """One heartbeat with all that there is to say; whether anything is different after it."""
        names = None if "subscribed_topic_regex" in self.options else self.names
        answer = self.desk.beat(
            self.member_id,
            self.epoch,
            names=names,
            owned=set(self.owned),
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_MS,
            **self.options,
        )
        assert answer.error_code == 0, answer
        before = (self.epoch, self.owned)
        given = assigned(answer)
        self.epoch = answer.member_epoch
        self.owned = self.owned if given is None else given
        return before != (self.epoch, self.owned)

    def leave(self, epoch: int = -1) -> None:
        answer = self.desk.beat(self.member_id, epoch, instance_id=self.instance_id)
        assert answer.error_code == 0, answer
        self.epoch, self.owned = 0, set()


def two(**settings: Any) -> tuple[ConsumerDesk, Consumer, Consumer]:
    """Two members that share four partitions, at rest."""
    desk = ConsumerDesk(**settings)
    ada = Consumer(desk, "ada").join()
    bob = Consumer(desk, "bob").join()
    desk.settle(ada, bob)
    assert desk.told().group_state == "Stable"
    return desk, ada, bob
