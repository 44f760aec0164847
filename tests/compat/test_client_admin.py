"""Our admin client at a broker with other people's consumers and producers."""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import confluent_kafka
import kafka
import pytest

import ottla
from ottla.client.admin.resets import Destination, OffsetChange
from ottla.client.records import OffsetAndMetadata
from ottla.errors import (
    ConflictError,
    ErrorCode,
    NotFoundError,
    PositionError,
    RejoinError,
    RequestError,
    TopicExistsError,
    UnknownTopicError,
)
from ottla.testing import TestBroker
from tests.kafka_cluster import OpenBroker, skip_before

TIMEOUT_S = 90
TIMEOUT_MS = TIMEOUT_S * 1000
HASTY = {
    "group.min.session.timeout.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
}


@pytest.fixture(scope="module")
def broker(open_broker: OpenBroker) -> Iterator[TestBroker]:
    with open_broker(HASTY) as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker: TestBroker) -> Iterator[ottla.Admin]:
    with ottla.Admin(broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def place(admin: ottla.Admin, topic: str) -> ottla.TopicPartition:
    """The first partition of a topic with two."""
    admin.create_topic(topic, partitions=2)
    return ottla.TopicPartition(topic, 0)


@pytest.fixture
def active(broker: TestBroker, place: ottla.TopicPartition) -> Iterator[str]:
    """A classic group with one member, which has read everything."""
    broker.produce(place.topic, "first", partition=0)
    consumer = kafka.KafkaConsumer(
        place.topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"active-{place.topic}",
        group_instance_id="ada",
        client_id="ada",
        auto_offset_reset="earliest",
    )
    assert consumer.poll(TIMEOUT_MS)
    consumer.commit()
    yield f"active-{place.topic}"
    consumer.close()


@pytest.fixture
def modern(broker: TestBroker, place: ottla.TopicPartition) -> Iterator[str]:
    """A consumer group (KIP-848) with one member, which has everything."""
    skip_before("4.0", broker, "consumer groups (KIP-848) are a preview")
    broker.produce(place.topic, "first", partition=0)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"modern-{place.topic}",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([place.topic])
    assert len(consumer.consume(1, TIMEOUT_S)) == 1
    yield f"modern-{place.topic}"
    consumer.close()


def write_at(broker: TestBroker, place: ottla.TopicPartition, *times: datetime) -> None:
    """One record for each moment."""
    with confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for moment in times:
            producer.produce(
                place.topic,
                b"x",
                partition=place.partition,
                timestamp=int(moment.timestamp() * 1000),
            )
        assert producer.flush(TIMEOUT_S) == 0


def test_a_topic_from_its_birth_to_its_end(admin: ottla.Admin, topic: str) -> None:
    born = admin.create_topic(
        topic, partitions=3, config={"retention.ms": 1000, "min.insync.replicas": 1}
    )
    assert [(p.leader, p.start_offset, p.end_offset) for p in born.partitions] == [(1, 0, 0)] * 3
    assert born.config["retention.ms"] == "1000"
    assert len(born.topic_id) == 22

    with pytest.raises(TopicExistsError):
        admin.create_topic(topic)
    assert admin.create_topic(topic, exists_ok=True) == born

    admin.add_partitions(topic, total=5)
    with pytest.raises(RequestError):
        admin.add_partitions(topic, total=2)
    assert len(admin.describe_topic(topic).partitions) == 5
    assert topic in admin.list_topics()

    admin.delete_topic(topic)
    assert topic not in admin.list_topics()
    with pytest.raises(UnknownTopicError):
        admin.delete_topic(topic)
    admin.delete_topic(topic, missing_ok=True)
    with pytest.raises(UnknownTopicError):
        admin.describe_topic(topic)


def test_a_dry_run_creates_nothing(admin: ottla.Admin, topic: str) -> None:
    planned = admin.create_topic(topic, partitions=4, dry_run=True)

    assert (len(planned.partitions), planned.config["cleanup.policy"]) == (4, "delete")
    assert topic not in admin.list_topics()
    with pytest.raises(RequestError):
        admin.create_topic(topic, config={"cleanup.policy": "bogus"}, dry_run=True)


def test_internal_topics_are_listed_if_wanted(admin: ottla.Admin, place: Any) -> None:
    admin.alter_group_offsets(f"of-{place.topic}", {place: 0})

    assert "__consumer_offsets" not in admin.list_topics()
    assert "__consumer_offsets" in admin.list_topics(internal=True)


def test_settings_are_changed_and_given_back(admin: ottla.Admin, place: Any) -> None:
    admin.alter_config(topic=place.topic, set={"cleanup.policy": "compact", "retention.ms": 5})
    found = admin.describe_config(topic=place.topic, keys=["cleanup.policy", "retention.ms"])
    assert {name: (entry.value, entry.source) for name, entry in found.items()} == {
        "cleanup.policy": ("compact", "topic"),
        "retention.ms": ("5", "topic"),
    }

    admin.alter_config(
        topic=place.topic, unset=["retention.ms"], append={"cleanup.policy": "delete"}
    )
    found = admin.describe_config(topic=place.topic)
    assert found["retention.ms"].is_default
    assert found["cleanup.policy"].value == "compact,delete"

    with pytest.raises(RequestError):
        admin.alter_config(topic=place.topic, set={"retention.ms": "soon"}, dry_run=True)
    with pytest.raises(UnknownTopicError):
        admin.describe_config(topic="nobody-has-this")


def test_settings_of_brokers_can_be_read(admin: ottla.Admin) -> None:
    found = admin.describe_config(broker=1)
    assert found["group.min.session.timeout.ms"].value == "500"


def test_a_broker_that_is_not_there_is_told_at_once(admin: ottla.Admin, place: Any) -> None:
    with pytest.raises(NotFoundError, match="there is no broker 7, only 1"):
        admin.describe_config(broker=7)
    with pytest.raises(NotFoundError):
        admin.describe_log_dirs([1, 7])
    with pytest.raises(NotFoundError):
        admin.move_replicas(7, {place: "/data"})


def test_what_has_settings_is_listed(broker: TestBroker, admin: ottla.Admin, place: Any) -> None:
    skip_before("4.1", broker, "it lists client metrics only (KIP-1142)")
    assert admin.list_config_resources(kinds=["broker"]) == [ottla.ConfigResource("broker", "1")]
    assert ("topic", place.topic) in admin.list_config_resources()


def test_a_partition_is_not_moved_to_a_folder_that_is_not_there(
    admin: ottla.Admin, place: Any
) -> None:
    (folder,) = admin.describe_log_dirs([1])[1]
    admin.move_replicas(1, {place: folder.path})
    with pytest.raises(NotFoundError, match="nowhere"):
        admin.move_replicas(1, {place: "/nowhere"})


def test_the_oldest_records_are_dropped(broker: TestBroker, admin: ottla.Admin, place: Any) -> None:
    broker.produce(place.topic, "a", "b", "c", partition=0)

    assert admin.delete_records({place: 2}) == {place: 2}
    assert admin.list_offsets([place], at="earliest") == {place: 2}
    assert admin.describe_topic(place.topic).partitions[0].start_offset == 2

    with pytest.raises(PositionError):
        admin.delete_records({place: 9})
    assert admin.delete_records({place: "latest"}) == {place: 3}
    with pytest.raises(UnknownTopicError):
        admin.delete_records({ottla.TopicPartition(place.topic, 7): 0})


def test_offsets_are_found_by_time(broker: TestBroker, admin: ottla.Admin, place: Any) -> None:
    noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    write_at(broker, place, noon, noon + timedelta(hours=1))

    assert admin.list_offsets([place], at=noon + timedelta(minutes=1)) == {place: 1}
    assert admin.list_offsets([place], at=noon + timedelta(hours=2)) == {place: None}
    assert admin.list_offsets([place], at="max_timestamp") == {place: 1}
    assert admin.list_offsets([place], isolation_level="read_committed") == {place: 2}


def test_groups_of_both_kinds_are_listed_and_described(
    admin: ottla.Admin, place: Any, active: str
) -> None:
    info = admin.describe_group(active)
    (member,) = info.members

    assert (info.type, info.state, info.coordinator, info.is_active) == (
        "classic",
        "Stable",
        1,
        True,
    )
    assert (member.client_id, member.instance_id, member.host) == ("ada", "ada", "/127.0.0.1")
    assert member.assignment == (place, ottla.TopicPartition(place.topic, 1))
    assert active in admin.list_groups(states=["Stable"])
    assert active not in admin.list_groups(states=["Empty"])
    assert active not in admin.list_groups(types=["consumer"])
    results = admin.describe_groups([active, "nobody"])
    assert (list(results), list(results.errors)) == ([active], ["nobody"])


def test_a_consumer_group_tells_its_epochs(admin: ottla.Admin, place: Any, modern: str) -> None:
    info = admin.describe_group(modern)
    (member,) = info.members

    assert (info.type, info.protocol_type) == ("consumer", "consumer")
    assert info.epoch == member.epoch
    assert member.epoch is not None
    assert member.epoch > 0
    assert member.assignment == member.target == (place, ottla.TopicPartition(place.topic, 1))
    assert [g.group_id for g in admin.group_overview(types=["consumer"])] == [modern]
    with pytest.raises(ConflictError, match="stop them first"):
        admin.reset_offsets(modern, topics=[place.topic], to="earliest")


def test_a_group_in_use_is_left_alone(admin: ottla.Admin, place: Any, active: str) -> None:
    with pytest.raises(ConflictError):
        admin.delete_group(active)
    with pytest.raises(ConflictError, match="stop them first"):
        admin.alter_group_offsets(active, {place: 0})
    with pytest.raises(ConflictError, match="stop them first"):
        admin.reset_offsets(active, to="earliest")
    with pytest.raises(ConflictError):
        admin.delete_group_offsets(active, [place])
    (change, *_) = admin.reset_offsets(active, to="earliest", dry_run=True)
    assert change == OffsetChange(place, 1, 0)
    assert admin.list_group_offsets(active)[place].offset == 1


def test_members_are_removed(admin: ottla.Admin, active: str) -> None:
    with pytest.raises(RejoinError):
        admin.remove_members(active, member_ids=["nobody"])
    (member,) = admin.describe_group(active).members

    admin.remove_members(active, reason="a test")

    assert member.member_id not in {m.member_id for m in admin.describe_group(active).members}


def test_offsets_of_a_group_are_written_read_and_forgotten(admin: ottla.Admin, place: Any) -> None:
    other = ottla.TopicPartition(place.topic, 1)
    group = f"of-{place.topic}"

    admin.alter_group_offsets(group, {place: OffsetAndMetadata(0, "note", 0), other: 0})
    assert admin.list_group_offsets(group) == {
        place: OffsetAndMetadata(0, "note", 0),
        other: OffsetAndMetadata(0),
    }
    admin.delete_group_offsets(group, [other])
    assert list(admin.list_group_offsets(group)) == [place]
    assert admin.list_group_offsets(group, partitions=[other]) == {}

    admin.delete_group(group)
    with pytest.raises(NotFoundError):
        admin.describe_group(group)
    with pytest.raises(NotFoundError):
        admin.delete_group(group)


def test_a_group_is_behind_in_records_and_in_time(
    broker: TestBroker, admin: ottla.Admin, place: Any
) -> None:
    hour_ago = datetime.fromtimestamp(time.time(), UTC) - timedelta(hours=1)
    write_at(broker, place, hour_ago - timedelta(hours=9), hour_ago, hour_ago)
    group, other = f"of-{place.topic}", ottla.TopicPartition(place.topic, 1)
    admin.alter_group_offsets(group, {place: 1, other: 0})

    lag = admin.lag(group)

    assert (lag.state, lag.total) == ("Empty", 2)
    late, done = lag.partitions
    assert (late.tp, late.committed, late.end_offset, late.lag) == (place, 1, 3, 2)
    assert late.time_lag is not None
    assert timedelta(hours=1) <= late.time_lag < timedelta(hours=2)
    assert (done.lag, done.time_lag) == (0, timedelta(0))


def test_a_group_that_does_not_exist_has_no_lag(admin: ottla.Admin) -> None:
    with pytest.raises(NotFoundError):
        admin.lag("nobody-has-this")


def test_a_lag_names_the_member(admin: ottla.Admin, place: Any, active: str) -> None:
    mine, other = admin.lag(active).partitions

    assert (mine.tp, mine.committed, mine.lag) == (place, 1, 0)
    assert mine.member_id == other.member_id == admin.describe_group(active).members[0].member_id


@pytest.mark.parametrize(
    ("to", "new"),
    [
        ("earliest", 1),
        ("latest", 4),
        (2, 2),
        (99, 4),
        (0, 1),
        (-timedelta(hours=2), 3),
        (timedelta(hours=2), 3),
        (timedelta(seconds=1), 4),
        (datetime(2026, 11, 1, 12, tzinfo=UTC), 2),
    ],
)
def test_a_group_goes_on_from_elsewhere(
    broker: TestBroker, admin: ottla.Admin, place: Any, to: Destination, new: int
) -> None:
    noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    hour_ago = datetime.fromtimestamp(time.time(), UTC) - timedelta(hours=1)
    write_at(broker, place, noon - timedelta(1), noon - timedelta(1), noon, hour_ago)
    admin.delete_records({place: 1})
    group = f"of-{place.topic}"
    admin.alter_group_offsets(group, {place: 3})

    planned = admin.reset_offsets(group, to=to, dry_run=True)
    assert planned == [OffsetChange(place, 3, new)]
    assert admin.list_group_offsets(group)[place].offset == 3

    assert admin.reset_offsets(group, to=to) == planned
    assert admin.list_group_offsets(group)[place].offset == new


def test_a_reset_takes_a_mapping_and_makes_a_group(
    broker: TestBroker, admin: ottla.Admin, place: Any
) -> None:
    broker.produce(place.topic, "a", "b", partition=0)
    group = f"of-{place.topic}"

    with pytest.raises(NotFoundError):
        admin.reset_offsets(group, to="earliest")
    admin.reset_offsets(group, to={place: OffsetAndMetadata(1, "by hand")})
    assert admin.list_group_offsets(group) == {place: OffsetAndMetadata(1, "by hand")}

    changes = admin.reset_offsets(group, topics=[place.topic], to="latest")
    assert [(change.tp.partition, change.old, change.new) for change in changes] == [
        (0, 1, 2),
        (1, None, 0),
    ]
    with pytest.raises(UnknownTopicError):
        admin.reset_offsets(group, topics=["nobody-has-this"], to="latest")
    with pytest.raises(RequestError):
        admin.reset_offsets(group, topics=["other"], to={place: 1})
    with pytest.raises(RequestError):
        admin.reset_offsets(group, to=-1)


def test_the_cluster_and_its_folders_are_described(
    broker: TestBroker, admin: ottla.Admin, place: Any
) -> None:
    broker.produce(place.topic, "x", partition=0)
    cluster = admin.describe_cluster()
    host, _, port = broker.bootstrap_servers.partition(":")

    assert [(b.id, b.host, b.port) for b in cluster.brokers] == [(1, host, int(port))]
    assert cluster.controller == 1
    (folder,) = admin.describe_log_dirs()[1]
    assert folder.error is None
    assert folder.replicas[place].size_bytes > 0
    assert admin.elect_leaders() == []
    assert admin.list_reassignments() == {}
    assert admin.metrics()


def test_features_are_described(broker: TestBroker, admin: ottla.Admin) -> None:
    skip_before("4.0", broker, "it has no second version of transactions (KIP-890)")
    assert admin.describe_features()["transaction.version"].finalized == 2


def test_several_tasks_share_an_asyncio_client(broker: TestBroker, topic: str) -> None:
    async def main() -> list[int]:
        async with ottla.AsyncAdmin(broker.bootstrap_servers) as admin:
            names = [f"{topic}-{number}" for number in range(4)]
            made = await asyncio.gather(
                *(admin.create_topic(n, partitions=i + 1) for i, n in enumerate(names))
            )
            results = await admin.describe_topics([*names, "nobody-has-this"])
            assert [error.retriable for error in results.errors.values()] == [True]
            assert dict(results) == {info.name: info for info in made}
            await admin.delete_topic(*names)
            return [len(info.partitions) for info in made]

    assert asyncio.run(main()) == [1, 2, 3, 4]


def test_a_call_without_with_connects_by_itself(broker: TestBroker) -> None:
    admin = ottla.Admin(broker.bootstrap_servers)
    assert admin.describe_cluster().controller == 1
    admin.close()
    admin.close()
    with pytest.raises(ottla.errors.ClosedError):
        admin.list_topics()


def test_nobody_there_is_told_with_the_address() -> None:
    with (
        pytest.raises(ottla.errors.ConnectError, match=r"127\.0\.0\.1:1"),
        ottla.Admin("127.0.0.1:1", default_api_timeout_ms=2_000),
    ):
        raise AssertionError("there is nobody")
    alone = ottla.Admin("127.0.0.1:1", default_api_timeout_ms=2_000)
    with pytest.raises(ottla.errors.ConnectError, match=r"127\.0\.0\.1:1"):
        alone.list_topics()
    alone.close()


def test_a_lost_answer_is_asked_for_again(
    broker: TestBroker, admin: ottla.Admin, topic: str
) -> None:
    with broker.faults.drop_reply("CreatePartitions"):
        admin.create_topic(topic)
        with pytest.raises(RequestError) as caught:
            admin.add_partitions(topic, total=2)
    assert caught.value.code is ErrorCode.INVALID_PARTITIONS
    assert "got no answer" in caught.value.__notes__[0]

    with broker.faults.drop_reply("DeleteTopics"):
        admin.delete_topic(topic)
    assert topic not in admin.list_topics()
