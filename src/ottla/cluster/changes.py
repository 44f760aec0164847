"""What can happen to a cluster, and the image after it.

`applied` is the only code that makes one image from another: a controller uses it after its
transaction, and a broker that starts uses it on what it finds in the store.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias, assert_never

from ottla.cluster.image import NO_SETTINGS, BrokerImage, ClusterImage, TopicImage
from ottla.values import dataclass


@dataclass(frozen=True, slots=True)
class TopicCreated:
    topic: TopicImage


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """`topic` is what it was."""

    topic: TopicImage


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """`topic` is the topic with all its partitions; those from `first_index` on are new."""

    topic: TopicImage
    first_index: int


@dataclass(frozen=True, slots=True)
class TopicConfigChanged:
    """`topic` has the new overrides."""

    topic: TopicImage


@dataclass(frozen=True, slots=True)
class BrokerConfigChanged:
    """The settings given to a broker while it runs; "" stands for all brokers."""

    broker: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """A broker is new, or has another address."""

    broker: BrokerImage


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    next_producer_id: int


Change: TypeAlias = (
    TopicCreated
    | TopicDeleted
    | PartitionsAdded
    | TopicConfigChanged
    | BrokerConfigChanged
    | BrokerRegistered
    | ProducerIdsAllocated
)


def applied(image: ClusterImage, change: Change) -> ClusterImage:
    """The image after `change`."""
    match change:
        case TopicCreated(topic):
            assert topic.name not in image.topics, topic.name
            return replace(
                image,
                topics={**image.topics, topic.name: topic},
                names={**image.names, topic.topic_id: topic.name},
            )
        case TopicDeleted(topic):
            topics, names = dict(image.topics), dict(image.names)
            del topics[topic.name], names[topic.topic_id]
            return replace(image, topics=topics, names=names)
        case PartitionsAdded(topic, _) | TopicConfigChanged(topic):
            assert image.topics[topic.name].topic_id == topic.topic_id, topic.name
            return replace(image, topics={**image.topics, topic.name: topic})
        case BrokerConfigChanged(broker, settings):
            return replace(image, broker_settings={**image.broker_settings, broker: settings})
        case BrokerRegistered(broker=registered):
            return replace(image, brokers={**image.brokers, registered.node_id: registered})
        case ProducerIdsAllocated(next_producer_id):
            assert next_producer_id > image.next_producer_id, "producer ids are never reused"
            return replace(image, next_producer_id=next_producer_id)
        case _:
            assert_never(change)


def differences(old: ClusterImage, new: ClusterImage) -> Iterator[Change]:
    """The changes that lead from one image to another of the same cluster."""
    assert old.cluster_id == new.cluster_id, (old.cluster_id, new.cluster_id)
    for name, before in old.topics.items():
        after = new.topics.get(name)
        if after is None or after.topic_id != before.topic_id:
            yield TopicDeleted(before)
        else:
            yield from _topic_differences(before, after)
    for name, topic in new.topics.items():
        if name not in old.topics or old.topics[name].topic_id != topic.topic_id:
            yield TopicCreated(topic)
    for broker in sorted({*old.broker_settings, *new.broker_settings}):
        settings = new.broker_settings.get(broker, NO_SETTINGS)
        if settings != old.broker_settings.get(broker, NO_SETTINGS):
            yield BrokerConfigChanged(broker, settings)
    for node_id, registered in new.brokers.items():
        if registered != old.brokers.get(node_id):
            yield BrokerRegistered(registered)
    if new.next_producer_id != old.next_producer_id:
        yield ProducerIdsAllocated(new.next_producer_id)


def _topic_differences(before: TopicImage, after: TopicImage) -> Iterator[Change]:
    existing = after.partitions[: len(before.partitions)]
    assert existing == before.partitions, "with one node, no partition ever changes"
    if len(after.partitions) > len(before.partitions):
        yield PartitionsAdded(replace(after, overrides=before.overrides), len(before.partitions))
    if after.overrides != before.overrides:
        yield TopicConfigChanged(after)
