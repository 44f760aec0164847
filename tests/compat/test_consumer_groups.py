"""Groups of the new protocol (KIP-848), with librdkafka: each member is a process.

Every record is seen, and no partition has two owners at once, whoever comes, leaves or dies.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from ottla.testing import TestBroker
from tests.compat.group_crowd import (
    SESSION_S,
    Crowd,
    let_be_missed,
    overlaps,
    watched_crowd,
    write_to_each,
)

PARTITION_COUNT = 4
TIMEOUT_S = 90
NEW: dict[str, Any] = {"client": "confluent-kafka", "is_new": True}
OLD: dict[str, Any] = {"client": "confluent-kafka", "cooperative": True}


SESSION_MS = int(SESSION_S * 1000)
HASTY: dict[str, Any] = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.session.timeout.ms": SESSION_MS,
}
"""Members report often, so that tests need not wait."""


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker(config=HASTY) as broker:
        yield broker


@pytest.fixture
def crowd(broker: TestBroker, topic: str) -> Iterator[Crowd]:
    with watched_crowd(broker, topic, PARTITION_COUNT) as crowd:
        yield crowd


def described(broker: TestBroker, group: str) -> Any:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    return admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)


def test_members_share_the_partitions_and_miss_nothing(
    broker: TestBroker, crowd: Crowd, topic: str
) -> None:
    count = write_to_each(broker, topic, PARTITION_COUNT)
    first = crowd.start(**NEW)
    crowd.wait_for_shares(4)
    crowd.wait_for_records(count)
    crowd.start(**NEW)
    crowd.wait_for_shares(2, 2)
    count += write_to_each(broker, topic, PARTITION_COUNT)
    crowd.wait_for_records(count)
    crowd.leave(first)
    crowd.wait_for_shares(0, 4)
    count += write_to_each(broker, topic, PARTITION_COUNT)
    crowd.wait_for_records(count)
    assert len(crowd.records_read()) == count


def test_who_is_killed_is_missed_and_its_share_goes_on(
    broker: TestBroker, crowd: Crowd, topic: str
) -> None:
    crowd.start(**NEW)
    victim = crowd.start(**NEW)
    crowd.wait_for_shares(2, 2)
    count = write_to_each(broker, topic, PARTITION_COUNT)
    crowd.wait_for_records(count)
    crowd.kill(victim)
    count += write_to_each(broker, topic, PARTITION_COUNT)
    let_be_missed(broker, "ConsumerGroupHeartbeat")
    crowd.wait_for_shares(0, 4)
    crowd.wait_for_records(count)


def test_new_partitions_are_read_without_anybody_joining(
    broker: TestBroker, crowd: Crowd, topic: str
) -> None:
    crowd.start(**NEW)
    crowd.wait_for_shares(4)

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    more = confluent_kafka.admin.NewPartitions(topic, PARTITION_COUNT + 2)
    admin.create_partitions([more])[topic].result(TIMEOUT_S)

    crowd.wait_for_shares(6)


def test_a_group_goes_on_after_the_broker_was_killed(topic: str) -> None:
    with TestBroker(config=HASTY) as broker:
        broker.create_topic(topic, partitions=PARTITION_COUNT)
        with Crowd(broker.bootstrap_servers, "g", topic) as crowd:
            crowd.start(**NEW)
            crowd.start(**NEW)
            crowd.wait_for_shares(2, 2)
            count = write_to_each(broker, topic, PARTITION_COUNT)
            crowd.wait_for_records(count)
            broker.crash()
            broker.restart()
            count += write_to_each(broker, topic, PARTITION_COUNT)
            crowd.wait_for_records(count)
            assert overlaps(crowd.ownerships()) == []


def test_a_static_member_comes_back_to_what_it_had(topic: str) -> None:
    """A static member that is back in time has its old share, and the other was not disturbed."""
    with TestBroker(config=HASTY) as broker:
        broker.create_topic(topic, partitions=PARTITION_COUNT)
        with Crowd(broker.bootstrap_servers, "g", topic) as crowd:
            stayed = crowd.start(**NEW, instance_id="stays")
            crowd.wait_for_shares(4)
            gone = crowd.start(**NEW, instance_id="comes-back")
            crowd.wait_for_shares(2, 2)
            kept, share = [replace(each) for each in stayed.ownerships], gone.owned
            crowd.leave(gone)
            back = crowd.start(**NEW, instance_id="comes-back")
            crowd.wait_for_shares(0, 2, 2)
            crowd.wait_for_records(write_to_each(broker, topic, PARTITION_COUNT))
            assert back.owned == share
            assert stayed.ownerships == kept


def test_a_classic_group_moves_to_the_new_protocol_and_back_member_by_member(
    broker: TestBroker, crowd: Crowd, topic: str
) -> None:
    old = crowd.start(**OLD)
    crowd.wait_for_shares(4)
    count = write_to_each(broker, topic, PARTITION_COUNT)
    crowd.wait_for_records(count)
    new = crowd.start(**NEW)
    crowd.wait_for_shares(2, 2)
    count += write_to_each(broker, topic, PARTITION_COUNT)
    crowd.wait_for_records(count)
    crowd.leave(old)
    crowd.wait_for_shares(0, 4)
    crowd.start(**OLD)
    crowd.wait_for_shares(0, 2, 2)
    crowd.leave(new)
    crowd.wait_for_shares(0, 0, 4)
    count += write_to_each(broker, topic, PARTITION_COUNT)
    crowd.wait_for_records(count)


def test_an_expression_subscribes_to_topics_that_come_later(broker: TestBroker, topic: str) -> None:
    broker.create_topic(f"{topic}-a", partitions=1)
    given: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": f"group-of-{topic}",
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
    }
    consumer = confluent_kafka.Consumer(given)
    consumer.subscribe([f"^{topic}-.*"])
    for name in (f"{topic}-a", f"{topic}-b"):
        broker.produce(name, "hello")
        (message,) = consumer.consume(1, timeout=TIMEOUT_S)
        assert message.error() is None, message.error()
        assert message.topic() == name
    consumer.close()


def test_administrators_see_what_kind_of_group_it_is(
    broker: TestBroker, crowd: Crowd, topic: str
) -> None:
    crowd.start(**NEW)
    crowd.wait_for_shares(4)
    group_id = f"group-of-{topic}"

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    listed = admin.list_consumer_groups().result(TIMEOUT_S).valid
    group = described(broker, group_id)

    assert [g.type.name for g in listed if g.group_id == group_id] == ["CONSUMER"]
    assert (group.state.name, group.type.name, len(group.members)) == ("STABLE", "CONSUMER", 1)
    (member,) = group.members
    assert len(member.assignment.topic_partitions) == PARTITION_COUNT
    assert len(member.target_assignment.topic_partitions) == PARTITION_COUNT
