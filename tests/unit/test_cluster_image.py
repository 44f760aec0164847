"""Images, the changes between them, and where replicas are placed."""

from collections import Counter
from dataclasses import replace

import pytest

from ottla.cluster.changes import (
    BrokerConfigChanged,
    BrokerRegistered,
    Change,
    PartitionsAdded,
    ProducerIdsAllocated,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    applied,
    differences,
)
from ottla.cluster.image import ClusterImage, PartitionImage, TopicImage
from ottla.cluster.placement import place
from tests.cluster_samples import broker


def partition(index: int) -> PartitionImage:
    return PartitionImage(index=index, leader=1, leader_epoch=0, replicas=(1,), isr=(1,))


def topic(name: str, number: int, partition_count: int = 1) -> TopicImage:
    return TopicImage(
        name=name,
        topic_id=bytes([number]) * 16,
        partitions=tuple(map(partition, range(partition_count))),
    )


def image(*topics: TopicImage) -> ClusterImage:
    return ClusterImage(
        cluster_id="c",
        controller_id=1,
        brokers={1: broker()},
        topics={topic.name: topic for topic in topics},
    )


def test_a_topic_is_found_by_its_name_and_by_its_id() -> None:
    orders = topic("orders", 7)
    cluster = image(orders, topic("other", 8))
    assert cluster.topic_by_id(orders.topic_id) is orders
    assert cluster.topic_name(orders.topic_id) == "orders"
    assert cluster.topic_by_id(bytes(16)) is None
    assert cluster.topic_name(bytes(16)) is None


def test_a_partition_is_found_by_its_index() -> None:
    cluster = image(topic("orders", 7, partition_count=2))
    assert cluster.partition("orders", 1) == partition(1)
    assert cluster.partition("orders", 2) is None
    assert cluster.partition("orders", -1) is None
    assert cluster.partition("nothing", 0) is None


def test_two_topics_cannot_have_one_id() -> None:
    with pytest.raises(AssertionError, match="two topics have one id"):
        image(topic("a", 1), topic("b", 1))


def test_a_change_makes_a_new_image_and_leaves_the_old_one() -> None:
    before = image(topic("a", 1))
    after = applied(before, TopicCreated(topic("b", 2)))
    assert sorted(before.topics) == ["a"]
    assert sorted(after.topics) == ["a", "b"]
    assert after.topic_name(bytes([2]) * 16) == "b"
    assert applied(after, TopicDeleted(topic("b", 2))) == before


def test_producer_ids_never_go_back() -> None:
    later = applied(image(), ProducerIdsAllocated(1000))
    assert later.next_producer_id == 1000
    with pytest.raises(AssertionError, match="never reused"):
        applied(later, ProducerIdsAllocated(1000))


CONFIGURED = replace(topic("a", 1), overrides={"retention.ms": "5"})
GROWN = topic("a", 1, partition_count=3)


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [TopicCreated(topic("b", 2))],
        [TopicDeleted(topic("a", 1))],
        [TopicDeleted(topic("a", 1)), TopicCreated(topic("a", 9))],
        [PartitionsAdded(GROWN, 1)],
        [TopicConfigChanged(CONFIGURED)],
        [PartitionsAdded(GROWN, 1), TopicConfigChanged(replace(GROWN, overrides={"x": "y"}))],
        [BrokerConfigChanged("", {"log.retention.ms": "5"})],
        [BrokerRegistered(broker(2))],
        [BrokerRegistered(replace(broker(), port=1))],
        [ProducerIdsAllocated(1000)],
    ],
    ids=lambda changes: "+".join(type(change).__name__ for change in changes),
)
def test_the_differences_of_two_images_lead_from_one_to_the_other(changes: list[Change]) -> None:
    before = after = image(topic("a", 1))
    for change in changes:
        after = applied(after, change)

    assert list(differences(before, after)) == changes


@pytest.mark.parametrize("start", [0.0, 0.5, 0.999])
def test_leaders_and_replicas_are_spread_evenly(start: float) -> None:
    brokers = {node_id: broker(node_id) for node_id in range(4)}
    placed = place(brokers, range(12), 3, start=start)

    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(range(4), 3)
    assert Counter(node_id for replicas in placed for node_id in replicas) == dict.fromkeys(
        range(4), 9
    )
    assert all(len(set(replicas)) == 3 for replicas in placed)


def test_brokers_do_not_share_all_partitions_with_the_same_neighbor() -> None:
    brokers = {node_id: broker(node_id) for node_id in range(4)}
    placed = place(brokers, range(12), 2, start=0)
    assert {follower for leader, follower in placed if leader == 0} == {1, 2, 3}


@pytest.mark.parametrize("start", [0.0, 0.4, 0.8])
def test_replicas_stand_in_different_racks_as_long_as_there_are_some(start: float) -> None:
    racks = ["a", "a", "b", "b", "c", "c"]
    brokers = {node_id: broker(node_id, rack) for node_id, rack in enumerate(racks)}
    for replicas in place(brokers, range(30), 3, start=start):
        assert {racks[node_id] for node_id in replicas} == {"a", "b", "c"}
    for replicas in place(brokers, range(30), 5, start=start):
        assert len(set(replicas)) == 5


def test_one_broker_holds_everything() -> None:
    assert place({1: broker()}, range(3), 1, start=0.7) == [(1,), (1,), (1,)]


def test_new_partitions_go_on_where_the_old_ones_ended() -> None:
    brokers = {node_id: broker(node_id) for node_id in range(3)}
    all_at_once = place(brokers, range(9), 2, start=0.4)
    assert place(brokers, range(5, 9), 2, start=0.4) == all_at_once[5:]
