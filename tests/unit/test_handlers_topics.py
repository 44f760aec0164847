"""CreateTopics, DeleteTopics and CreatePartitions answer as Kafka does, in every version."""

from typing import Any

import pytest

from ottla.cluster.configs import ConfigSource
from ottla.config import settings_of
from ottla.errors import ErrorCode
from ottla.log.config import LogConfig
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.schema import NO_UUID
from tests.broker_fixture import LittleBroker, each_version

NEWEST_CREATE = 7
NEWEST_DELETE = 6
NEWEST_GROW = 3
UNKNOWN_ID = bytes(range(16))


def topic(name: str, count: int = -1, factor: int = -1, **details: Any) -> CreatableTopic:
    """`assignments` is index -> brokers, `configs` is name -> value."""
    return CreatableTopic(
        name=name,
        num_partitions=count,
        replication_factor=factor,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in details.get("assignments", {}).items()
        ),
        configs=tuple(
            CreatableTopicConfig(name=key, value=value)
            for key, value in details.get("configs", {}).items()
        ),
    )


def create(
    broker: LittleBroker, version: int, *topics: CreatableTopic, validate_only: bool = False
) -> list[CreatableTopicResult]:
    response: CreateTopicsResponse = broker.ask(
        CreateTopicsRequest(topics=topics, validate_only=validate_only), version
    )
    return list(response.topics)


def delete(
    broker: LittleBroker, version: int, *names: str, topics: tuple[DeleteTopicState, ...] = ()
) -> list[DeletableTopicResult]:
    """Names are put where `version` wants them; `topics` exist since v6."""
    if version >= 6:
        named = tuple(DeleteTopicState(name=name, topic_id=NO_UUID) for name in names)
        request = DeleteTopicsRequest(topics=(*named, *topics), timeout_ms=1000)
    else:
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=1000)
    response: DeleteTopicsResponse = broker.ask(request, version)
    return list(response.responses)


def grow(
    broker: LittleBroker,
    version: int,
    *topics: CreatePartitionsTopic,
    validate_only: bool = False,
) -> list[tuple[str, int]]:
    response: CreatePartitionsResponse = broker.ask(
        CreatePartitionsRequest(topics=topics, timeout_ms=1000, validate_only=validate_only),
        version,
    )
    for result in response.results:
        assert (result.error_message is None) is (result.error_code == 0), result
    return [(result.name, result.error_code) for result in response.results]


def more(
    name: str, count: int, assignments: tuple[tuple[int, ...], ...] | None = None
) -> CreatePartitionsTopic:
    placed = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments or ()]
    return CreatePartitionsTopic(
        name=name, count=count, assignments=None if assignments is None else tuple(placed)
    )


def names(broker: LittleBroker) -> list[str]:
    return sorted(broker.controller.image.topics)


@each_version(CreateTopicsRequest)
def test_a_topic_is_created_and_its_partitions_can_be_used(version: int) -> None:
    broker = LittleBroker()
    (result,) = create(broker, version, topic("orders", 3, 1, configs={"retention.ms": "5"}))

    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    broker.append("orders", b"hello", index=2)
    assert broker.partition("orders", 2).config.retention_ms == 5


@each_version(CreateTopicsRequest)
def test_a_topic_that_cannot_be_created_says_why_and_spoils_no_other(version: int) -> None:
    broker = LittleBroker()
    bad, good = create(broker, version, topic("a/b", 1, 1), topic("good", 1, 1))

    assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "a/b" in (bad.error_message or "")
    assert (bad.num_partitions, bad.replication_factor, bad.configs) == (-1, -1, ())
    assert good.error_code == 0
    assert names(broker) == ["good"]


def test_since_v5_the_response_tells_what_the_topic_became() -> None:
    broker = LittleBroker({"num.partitions": 4, "log.retention.hours": 2})
    (result,) = create(broker, 5, topic("orders", configs={"cleanup.policy": "compact"}))

    assert (result.num_partitions, result.replication_factor) == (4, 1)
    configs = {config.name: config for config in result.configs or ()}
    assert sorted(configs) == list(configs) == sorted(settings_of(LogConfig))
    policy, retention = configs["cleanup.policy"], configs["retention.ms"]
    assert (policy.value, policy.config_source) == ("compact", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert retention.value == str(2 * 3600 * 1000)
    assert retention.config_source == ConfigSource.STATIC_BROKER_CONFIG
    assert configs["flush.ms"].config_source == ConfigSource.DEFAULT_CONFIG
    assert not any(config.read_only or config.is_sensitive for config in configs.values())


def test_before_v5_the_response_says_nothing_of_what_the_topic_became() -> None:
    (result,) = create(LittleBroker(), 4, topic("orders", 2, 1))
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, ())


def test_since_v7_the_response_has_the_topics_id() -> None:
    broker = LittleBroker()
    (old,) = create(broker, 6, topic("old"))
    (new,) = create(broker, 7, topic("new"))
    assert old.topic_id == NO_UUID
    assert new.topic_id == broker.controller.image.topics["new"].topic_id


@each_version(CreateTopicsRequest)
def test_a_dry_run_creates_nothing(version: int) -> None:
    broker = LittleBroker()
    broker.create("old")
    new, old = create(broker, version, topic("new"), topic("old"), validate_only=True)
    assert new.error_code == 0
    assert old.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert names(broker) == ["old"]
    assert not broker.disk.exists("new-0")


def test_a_name_that_occurs_twice_is_refused_once() -> None:
    broker = LittleBroker()
    results = create(broker, NEWEST_CREATE, topic("twice"), topic("once"), topic("twice", 2))
    assert {result.name: result.error_code for result in results} == {
        "twice": ErrorCode.INVALID_REQUEST,
        "once": 0,
    }
    assert len(results) == 2
    assert names(broker) == ["once"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../etc/passwd", "a" * 250, "a\0b"])
def test_an_illegal_name_never_reaches_the_disk(name: str) -> None:
    broker = LittleBroker()
    before = broker.disk.names("")
    (result,) = create(broker, NEWEST_CREATE, topic(name))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert broker.disk.names("") == before


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (topic("orders", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (topic("orders", -5, 1), ErrorCode.INVALID_PARTITIONS),
        (topic("orders", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("orders", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("orders", 1, -1, assignments={0: (1,)}), ErrorCode.INVALID_REQUEST),
        (topic("orders", assignments={0: (2,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("orders", assignments={1: (1,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("orders", configs={"no.such": "1"}), ErrorCode.INVALID_CONFIG),
        (topic("orders", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_no_topic_can_be_is_refused(wanted: CreatableTopic, error: ErrorCode) -> None:
    broker = LittleBroker()
    (result,) = create(broker, NEWEST_CREATE, wanted)
    assert result.error_code == error
    assert names(broker) == []


def test_a_client_can_place_the_replicas_itself() -> None:
    broker = LittleBroker(broker_count=2)
    assignments = {1: (1, 2), 0: (2, 1)}
    (result,) = create(broker, NEWEST_CREATE, topic("orders", assignments=assignments))
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    placed = broker.controller.image.topics["orders"].partitions
    assert [partition.replicas for partition in placed] == [(2, 1), (1, 2)]


@each_version(DeleteTopicsRequest)
def test_a_deleted_topic_is_gone_and_so_are_its_folders(version: int) -> None:
    broker = LittleBroker()
    topic_id = broker.create("orders", partition_count=2).topic_id
    before = broker.disk.names("")
    (result,) = delete(broker, version, "orders")
    broker.delete_doomed()

    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    assert result.topic_id == (topic_id if version >= 6 else NO_UUID)
    assert names(broker) == []
    assert "orders-0" in before
    assert not [name for name in broker.disk.names("") if name.startswith("orders")]
    assert broker.partitions.find("orders", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@each_version(DeleteTopicsRequest)
def test_a_topic_that_is_not_there_cannot_be_deleted(version: int) -> None:
    (result,) = delete(LittleBroker(), version, "nowhere")
    assert (result.name, result.error_code) == ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert (result.error_message is None) is (version < 5)


@each_version(DeleteTopicsRequest)
def test_a_topic_that_is_named_twice_is_kept(version: int) -> None:
    broker = LittleBroker()
    broker.create("orders")
    results = delete(broker, version, "orders", "missing", "orders", "missing")
    assert [(result.name, result.error_code) for result in results] == [
        ("orders", ErrorCode.INVALID_REQUEST),
        ("missing", ErrorCode.INVALID_REQUEST),
    ]
    assert names(broker) == ["orders"]


@each_version(DeleteTopicsRequest)
def test_deletion_can_be_forbidden(version: int) -> None:
    broker = LittleBroker({"delete.topic.enable": "false"})
    broker.create("orders")
    results = delete(broker, version, "orders", "nowhere")
    error = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert [(result.name, result.error_code) for result in results] == [
        ("orders", error),
        ("nowhere", error),
    ]
    assert names(broker) == ["orders"]


def test_since_v6_topics_are_deleted_by_id_too() -> None:
    broker = LittleBroker()
    topic_id = broker.create("orders").topic_id
    broker.create("kept")
    found, unknown = delete(
        broker,
        NEWEST_DELETE,
        topics=(
            DeleteTopicState(name=None, topic_id=topic_id),
            DeleteTopicState(name=None, topic_id=UNKNOWN_ID),
        ),
    )
    assert (found.name, found.topic_id, found.error_code) == ("orders", topic_id, 0)
    assert (unknown.name, unknown.topic_id) == (None, UNKNOWN_ID)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert names(broker) == ["kept"]


def test_a_topic_is_asked_for_by_name_or_by_id_and_not_by_both_or_neither() -> None:
    broker = LittleBroker()
    topic_id = broker.create("orders").topic_id
    results = delete(
        broker,
        NEWEST_DELETE,
        topics=(
            DeleteTopicState(name="orders", topic_id=topic_id),
            DeleteTopicState(name=None, topic_id=NO_UUID),
        ),
    )
    assert [(result.name, result.topic_id, result.error_code) for result in results] == [
        ("orders", topic_id, ErrorCode.INVALID_REQUEST),
        (None, NO_UUID, ErrorCode.INVALID_REQUEST),
    ]
    assert names(broker) == ["orders"]


@pytest.mark.parametrize("times", [1, 2])
def test_a_topic_that_is_asked_for_by_name_and_again_by_id_is_kept(times: int) -> None:
    broker = LittleBroker()
    topic_id = broker.create("orders").topic_id
    by_id = DeleteTopicState(name=None, topic_id=topic_id)
    results = delete(broker, NEWEST_DELETE, "orders", topics=(by_id,) * times)
    assert {result.error_code for result in results} == {ErrorCode.INVALID_REQUEST}
    assert len({(result.name, result.topic_id) for result in results}) == len(results) == times
    assert names(broker) == ["orders"]


@each_version(CreatePartitionsRequest)
def test_new_partitions_can_be_used_and_old_ones_keep_their_records(version: int) -> None:
    broker = LittleBroker()
    broker.create("orders")
    broker.append("orders", b"first")
    assert grow(broker, version, more("orders", 3)) == [("orders", 0)]

    broker.append("orders", b"hello", index=2)
    assert broker.partition("orders", 0).next_offset == 1


@each_version(CreatePartitionsRequest)
def test_every_topic_of_the_request_has_its_row(version: int) -> None:
    broker = LittleBroker()
    broker.create("orders", partition_count=2)
    broker.create("twice")
    rows = grow(
        broker,
        version,
        more("orders", 2),
        more("nowhere", 2),
        more("twice", 2),
        more("twice", 3),
    )
    assert sorted(rows) == [
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", ErrorCode.INVALID_PARTITIONS),
        ("twice", ErrorCode.INVALID_REQUEST),
    ]
    assert len(broker.controller.image.topics["twice"].partitions) == 1


def test_a_dry_run_adds_no_partition() -> None:
    broker = LittleBroker()
    broker.create("orders")
    assert grow(broker, NEWEST_GROW, more("orders", 2), validate_only=True) == [("orders", 0)]
    assert len(broker.controller.image.topics["orders"].partitions) == 1


@pytest.mark.parametrize(
    ("assignments", "error"),
    [
        (((1,), (1,)), ErrorCode.NONE),
        (((1,),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (((1,), (2,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NONE),
    ],
)
def test_new_partitions_are_placed_by_the_client_or_by_the_broker(
    assignments: tuple[tuple[int, ...], ...] | None, error: ErrorCode
) -> None:
    broker = LittleBroker()
    broker.create("orders")
    assert grow(broker, NEWEST_GROW, more("orders", 3, assignments)) == [("orders", error)]
