"""Decides on whole requests to create, grow and delete topics."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from ottla.cluster import layout
from ottla.cluster.alterations import new_overrides
from ottla.cluster.changes import PartitionsAdded, TopicCreated, TopicDeleted
from ottla.cluster.configs import ControllerConfig, Layers
from ottla.cluster.decision import Decision, Refusal, unknown_topic
from ottla.cluster.image import ClusterImage, TopicImage
from ottla.cluster.topics import (
    Defaults,
    NewPartitions,
    NewTopic,
    TopicOutcome,
    grown,
    name_refusal,
    new_partitions,
    partitions_wanted,
    too_many_partitions,
)
from ottla.errors import ErrorCode
from ottla.model import RESERVED_UUIDS, UUID_BYTES, collision_key, uuid_text
from ottla.ports import Entropy

_TWICE: Final = Refusal(ErrorCode.INVALID_REQUEST, "the topic occurs twice")
_DISABLED: Final = Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable = false")

RequestT = TypeVar("RequestT", NewTopic, NewPartitions)


class Creator:
    """Decides which topics of one request are created."""

    def __init__(self, image: ClusterImage, config: ControllerConfig, entropy: Entropy) -> None:
        self._image = image
        self._entropy = entropy
        self._layers = Layers(image, config)
        self._defaults = Defaults(
            partition_count=config.num_partitions,
            replication_factor=config.default_replication_factor,
            start=entropy.random(),
        )

    def create(self, topics: Sequence[NewTopic]) -> Decision[TopicOutcome]:
        """One outcome for each name; a later topic of the request sees the earlier ones."""
        decision: Decision[TopicOutcome] = Decision()
        too_many = too_many_partitions(partitions_wanted(new, self._defaults) for new in topics)
        taken = {collision_key(name): name for name in self._image.topics}
        for new, is_twice in _each_name(topics):
            outcome = TopicOutcome(name=new.name)
            created = (_TWICE if is_twice else too_many) or self._topic(new, taken)
            if isinstance(created, Refusal):
                decision.outcomes.append(outcome.but(created))
                continue
            taken[collision_key(new.name)] = new.name
            decision.outcomes.append(replace(outcome, topic=created))
            operations = layout.put_topic(created)
            if created.overrides:
                config_key = layout.topic_config_key(new.name)
                operations.append(layout.put_settings(config_key, created.overrides))
            decision.add(TopicCreated(created), operations, layout.topic_key(new.name))
        return decision

    def _topic(self, new: NewTopic, taken: Mapping[str, str]) -> TopicImage | Refusal:
        if refusal := name_refusal(new.name, self._image, taken):
            return refusal
        overrides = new_overrides(new.configs, self._layers)
        if isinstance(overrides, Refusal):
            return overrides
        partitions = new_partitions(new, self._image.brokers, self._defaults)
        if isinstance(partitions, Refusal):
            return partitions
        return TopicImage(
            name=new.name,
            topic_id=random_uuid(self._entropy),
            partitions=partitions,
            overrides=overrides,
            is_internal=TopicImage.has_internal_name(new.name),
        )


def delete(
    names: Sequence[str], image: ClusterImage, config: ControllerConfig
) -> Decision[TopicOutcome]:
    """Decide which topics are deleted: one outcome for each name."""
    decision: Decision[TopicOutcome] = Decision()
    for name, count in Counter(names).items():
        outcome = TopicOutcome(name=name)
        topic = image.topics.get(name)
        if not config.delete_topic_enable:
            decision.outcomes.append(outcome.but(_DISABLED))
        elif count > 1:
            decision.outcomes.append(outcome.but(_TWICE))
        elif topic is None:
            decision.outcomes.append(outcome.but(unknown_topic(name)))
        else:
            decision.outcomes.append(replace(outcome, topic=topic))
            key = layout.topic_key(name)
            decision.add(TopicDeleted(topic), layout.delete_topic(topic), key)
    return decision


def grow(
    wanted: Sequence[NewPartitions], image: ClusterImage, entropy: Entropy
) -> Decision[TopicOutcome]:
    """Decide which topics get more partitions: one outcome for each name."""
    decision: Decision[TopicOutcome] = Decision()
    topics, start = image.topics, entropy.random()
    too_many = too_many_partitions(
        new.count - len(topics[new.name].partitions) for new in wanted if new.name in topics
    )
    for new, is_twice in _each_name(wanted):
        outcome = TopicOutcome(name=new.name)
        topic = topics.get(new.name)
        if is_twice or topic is None:
            decision.outcomes.append(outcome.but(_TWICE if is_twice else unknown_topic(new.name)))
            continue
        after = too_many or grown(topic, new, image.brokers, start)
        if isinstance(after, Refusal):
            decision.outcomes.append(outcome.but(after))
            continue
        decision.outcomes.append(replace(outcome, topic=after))
        first_index = len(topic.partitions)
        decision.add(
            PartitionsAdded(after, first_index),
            layout.put_topic(after, first_index),
            layout.topic_key(new.name),
        )
    return decision


def random_uuid(entropy: Entropy) -> bytes:
    """A random identifier (UUID version 4) whose text no shell takes for an option."""
    while True:
        drawn = bytearray(entropy.random_bytes(UUID_BYTES))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        uuid = bytes(drawn)
        if uuid not in RESERVED_UUIDS and not uuid_text(uuid).startswith("-"):
            return uuid


def _each_name(requests: Sequence[RequestT]) -> Iterator[tuple[RequestT, bool]]:
    """The first request for each name, and whether there are more of them."""
    counts = Counter(request.name for request in requests)
    first = {request.name: request for request in reversed(requests)}
    for name, count in counts.items():
        yield first[name], count > 1
