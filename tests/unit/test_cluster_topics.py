"""The controller creates, grows and deletes topics, durably, and refuses as Kafka does."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.cluster.changes import Change, PartitionsAdded, TopicCreated, TopicDeleted
from ottla.cluster.controller import PRODUCER_ID_BLOCK, Controller
from ottla.cluster.store.interface import Operation, Put, TxnResult, Unchanged
from ottla.cluster.store.memory import MemoryStore
from ottla.cluster.store.sqlite import SqliteStore
from ottla.cluster.topics import NewPartitions, NewTopic, TopicOutcome
from ottla.errors import ConfigError, ErrorCode, StorageError
from ottla.model import uuid_from_text
from tests.cluster_samples import broker, done, opened


def create(controller: Controller, *topics: NewTopic) -> list[TopicOutcome]:
    return done(controller.create_topics(topics, validate_only=False))


def created(controller: Controller, name: str, **details: object) -> TopicOutcome:
    (outcome,) = create(controller, NewTopic(name=name, **details))  # type: ignore[arg-type]
    return outcome


def names(controller: Controller) -> list[str]:
    return sorted(controller.image.topics)


def test_a_topic_gets_the_brokers_defaults() -> None:
    controller = opened(settings={"num.partitions": 3})
    outcome = created(controller, "orders")

    assert outcome.error is ErrorCode.NONE
    topic = controller.image.topics["orders"]
    assert outcome.topic == topic
    assert [p.index for p in topic.partitions] == [0, 1, 2]
    for partition in topic.partitions:
        assert (partition.leader, partition.leader_epoch) == (1, 0)
        assert partition.replicas == partition.isr == (1,)
    assert controller.image.topic_by_id(topic.topic_id) is topic
    assert not topic.is_internal


def test_a_topic_can_say_what_it_wants() -> None:
    controller = opened(broker_count=3)
    created(
        controller,
        "orders",
        partition_count=4,
        replication_factor=2,
        configs=[("retention.ms", "5")],
    )
    topic = controller.image.topics["orders"]
    assert len(topic.partitions) == 4
    assert topic.replication_factor == 2
    assert controller.topic_config("orders").retention_ms == 5


def test_internal_topics_are_marked() -> None:
    controller = opened()
    created(controller, "__consumer_offsets")
    assert controller.image.topics["__consumer_offsets"].is_internal


def test_topic_ids_are_random_and_never_reserved() -> None:
    controller = opened()
    ids = {created(controller, f"topic-{n}").topic.topic_id for n in range(20)}  # type: ignore[union-attr]
    assert len(ids) == 20
    assert {uuid[6] >> 4 for uuid in ids} == {4}


@pytest.mark.parametrize(
    ("details", "error"),
    [
        ({"partition_count": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"partition_count": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"partition_count": 10_001}, ErrorCode.POLICY_VIOLATION),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": -2}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"assignments": [(0, [1])], "partition_count": 1}, ErrorCode.INVALID_REQUEST),
        ({"assignments": [(0, [1])], "replication_factor": 1}, ErrorCode.INVALID_REQUEST),
        ({"assignments": [(0, [9])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [1, 1])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(1, [1])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [1]), (0, [2])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [1]), (1, [1, 2])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"configs": [("retention.ms", None)]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [("retention.ms", "soon")]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [("retention.mss", "1")]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [("segment.bytes", "1" * 40_000)]}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_topic_that_cannot_be_is_refused(details: dict[str, object], error: ErrorCode) -> None:
    controller = opened(broker_count=3)
    outcome = created(controller, "orders", **details)
    assert outcome.error is error
    assert outcome.message
    assert outcome.topic is None
    assert names(controller) == []


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__cluster_metadata", ErrorCode.INVALID_REQUEST),
        ("my.orders", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("my_orders", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_a_name_that_cannot_be_is_refused(name: str, error: ErrorCode) -> None:
    controller = opened()
    created(controller, "my.orders")
    assert created(controller, name).error is error
    assert names(controller) == ["my.orders"]


def test_replicas_can_be_placed_by_hand() -> None:
    controller = opened(broker_count=3)
    created(controller, "orders", assignments=[(1, [3, 1]), (0, [2, 3])])
    first, second = controller.image.topics["orders"].partitions
    assert (first.index, first.leader, first.replicas) == (0, 2, (2, 3))
    assert (second.index, second.leader, second.replicas) == (1, 3, (3, 1))


def test_one_bad_topic_does_not_fail_its_neighbors() -> None:
    controller = opened()
    outcomes = create(
        controller,
        NewTopic(name="good"),
        NewTopic(name="bad", partition_count=0),
        NewTopic(name="twice"),
        NewTopic(name="twice"),
        NewTopic(name="a.b"),
        NewTopic(name="a_b"),
    )
    assert [(outcome.name, outcome.error) for outcome in outcomes] == [
        ("good", ErrorCode.NONE),
        ("bad", ErrorCode.INVALID_PARTITIONS),
        ("twice", ErrorCode.INVALID_REQUEST),
        ("a.b", ErrorCode.NONE),
        ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert names(controller) == ["a.b", "good"]


def test_validation_alone_creates_nothing() -> None:
    controller = opened()
    topics = [NewTopic(name="good", configs=[("retention.ms", "5")]), NewTopic(name="")]
    good, bad = done(controller.create_topics(topics, validate_only=True))
    assert good.topic is not None
    assert good.error is ErrorCode.NONE
    assert bad.error is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert names(controller) == []


def test_a_topic_can_be_deleted_and_created_again() -> None:
    controller = opened()
    first = created(controller, "orders", partition_count=2, configs=[("retention.ms", "5")])
    (outcome,) = done(controller.delete_topics(["orders"]))
    assert outcome.topic == first.topic
    assert names(controller) == []

    second = created(controller, "orders")
    assert second.topic is not None
    assert first.topic is not None
    assert second.topic.topic_id != first.topic.topic_id
    assert controller.topic_config("orders").retention_ms == 604_800_000


def test_deleting_leaves_nothing_in_the_store() -> None:
    store = MemoryStore()
    controller = opened(store)
    before = [entry.key for entry in done(store.scan("")).entries]
    created(controller, "orders", partition_count=5, configs=[("retention.ms", "5")])
    done(controller.delete_topics(["orders"]))
    assert [entry.key for entry in done(store.scan("")).entries] == before


def test_what_cannot_be_deleted_says_why() -> None:
    controller = opened()
    created(controller, "orders")
    outcomes = done(controller.delete_topics(["nothing", "orders", "orders"]))
    assert [(outcome.name, outcome.error) for outcome in outcomes] == [
        ("nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", ErrorCode.INVALID_REQUEST),
    ]
    assert names(controller) == ["orders"]


def test_deleting_can_be_forbidden() -> None:
    controller = opened(settings={"delete.topic.enable": False})
    created(controller, "orders")
    (outcome,) = done(controller.delete_topics(["orders"]))
    assert outcome.error is ErrorCode.TOPIC_DELETION_DISABLED
    assert names(controller) == ["orders"]


def grow(controller: Controller, *wanted: NewPartitions) -> list[ErrorCode]:
    return [outcome.error for outcome in done(controller.create_partitions(wanted))]


def test_a_topic_can_grow() -> None:
    controller = opened(broker_count=3)
    created(controller, "orders", partition_count=2, replication_factor=2)
    before = controller.image.topics["orders"]

    assert grow(controller, NewPartitions(name="orders", count=4)) == [ErrorCode.NONE]

    after = controller.image.topics["orders"]
    assert after.partitions[:2] == before.partitions
    assert [p.index for p in after.partitions] == [0, 1, 2, 3]
    assert {len(p.replicas) for p in after.partitions} == {2}


@pytest.mark.parametrize(
    ("name", "count", "assignments", "error"),
    [
        ("orders", 2, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", -1, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", 10_003, None, ErrorCode.POLICY_VIOLATION),
        ("orders", 4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 3, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 3, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("nothing", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 3, [[2]], ErrorCode.NONE),
    ],
)
def test_growth_is_checked(
    name: str, count: int, assignments: list[list[int]] | None, error: ErrorCode
) -> None:
    controller = opened(broker_count=2)
    created(controller, "orders", partition_count=2)
    wanted = NewPartitions(name=name, count=count, assignments=assignments)
    assert grow(controller, wanted) == [error]
    expected = 3 if error is ErrorCode.NONE else 2
    assert len(controller.image.topics["orders"].partitions) == expected


def test_topics_in_which_keys_are_found_by_hashing_do_not_grow() -> None:
    controller = opened()
    created(controller, "__consumer_offsets", partition_count=2)
    wanted = NewPartitions(name="__consumer_offsets", count=4)
    assert grow(controller, wanted) == [ErrorCode.INVALID_PARTITIONS]


def test_subscribers_hear_of_a_change_when_it_is_in_the_image() -> None:
    controller = opened()
    heard: list[Change] = []

    def listen(change: Change) -> None:
        assert isinstance(change, TopicCreated | PartitionsAdded | TopicDeleted)
        exists = change.topic.name in controller.image.topics
        assert exists != isinstance(change, TopicDeleted)
        heard.append(change)

    controller.subscribe(listen)
    created(controller, "orders")
    grow(controller, NewPartitions(name="orders", count=2))
    done(controller.delete_topics(["orders"]))

    assert [type(change) for change in heard] == [TopicCreated, PartitionsAdded, TopicDeleted]
    assert isinstance(heard[1], PartitionsAdded)
    assert heard[1].first_index == 1


def test_a_restarted_broker_finds_what_was_there(tmp_path: Path) -> None:
    path = str(tmp_path / "metadata")
    store = SqliteStore(path)
    controller = opened(store)
    created(controller, "orders", partition_count=3, configs=[("retention.ms", "5")])
    created(controller, "gone")
    grow(controller, NewPartitions(name="orders", count=5))
    done(controller.delete_topics(["gone"]))
    done(controller.allocate_producer_ids())
    image = controller.image
    store.close()

    again_store = SqliteStore(path)
    again = opened(again_store, seed=2)
    assert again.image == image
    assert again.topic_config("orders").retention_ms == 5
    again_store.close()


def test_a_cluster_keeps_its_id() -> None:
    store = MemoryStore()
    first = opened(store, seed=1).image.cluster_id
    assert opened(store, seed=2).image.cluster_id == first
    assert len(uuid_from_text(first)) == 16
    assert opened(seed=2).image.cluster_id != first


def test_a_node_does_not_take_over_the_metadata_of_another() -> None:
    store = MemoryStore()
    opened(store)
    with pytest.raises(ConfigError, match=r"node\.id = 2, but this is the metadata of node 1"):
        opened(store, {"node.id": 2})


def test_a_topic_that_contradicts_the_brokers_new_settings_stops_the_start() -> None:
    store = MemoryStore()
    created(opened(store), "orders", configs=[("min.compaction.lag.ms", "1000")])
    with pytest.raises(ConfigError, match=r"topic 'orders': min\.compaction\.lag\.ms = 1000"):
        opened(store, {"log.cleaner.max.compaction.lag.ms": "999"})


def test_clients_are_told_where_the_broker_really_listens() -> None:
    store = MemoryStore()
    controller = opened(store)
    moved = replace(broker(), port=40_001)
    done(controller.register(moved))
    assert controller.image.brokers == {1: moved}
    assert done(store.scan("brokers/")).entries[0].value == (
        b'{"host":"localhost","port":40001,"rack":null}'
    )


def test_a_damaged_store_is_not_taken_for_an_empty_one() -> None:
    store = MemoryStore()
    created(opened(store), "orders")
    done(store.txn([], [Put("topics/orders", b'{"id": "A", "partitions": 1}')]))
    with pytest.raises(StorageError, match="the metadata store is damaged"):
        opened(store)


def test_producer_ids_are_never_given_twice() -> None:
    store = MemoryStore()
    one = opened(store)
    other = opened(store)
    blocks = [done(c.allocate_producer_ids()) for c in (one, other, one, other, opened(store))]
    given = [producer_id for block in blocks for producer_id in block]
    assert given == list(range(5 * PRODUCER_ID_BLOCK))


class SpoiledStore(MemoryStore):
    """Fails, or lets somebody else go first, when told to."""

    failure: str | None = None
    rival: Controller | None = None

    async def txn(self, checks: Sequence[Unchanged], operations: Sequence[Operation]) -> TxnResult:
        if self.failure is not None:
            raise StorageError(self.failure)
        if self.rival is not None:
            rival, self.rival = self.rival, None
            await rival.create_topics([NewTopic(name="orders", partition_count=7)])
        return await super().txn(checks, operations)


def test_a_store_that_cannot_be_written_refuses_and_changes_nothing() -> None:
    store = SpoiledStore()
    controller = opened(store)
    store.failure = "the disk is full"
    outcomes = create(controller, NewTopic(name="orders"), NewTopic(name=""))
    assert [outcome.error for outcome in outcomes] == [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert "the disk is full" in (outcomes[0].message or "")
    assert outcomes[0].topic is None
    assert names(controller) == []

    store.failure = None
    assert created(controller, "orders").error is ErrorCode.NONE


def test_a_request_is_decided_anew_if_somebody_else_was_faster() -> None:
    store = SpoiledStore()
    controller = opened(store)
    heard: list[Change] = []
    controller.subscribe(heard.append)
    store.rival = opened(store)

    assert created(controller, "orders").error is ErrorCode.TOPIC_ALREADY_EXISTS

    assert len(controller.image.topics["orders"].partitions) == 7
    assert heard == [TopicCreated(controller.image.topics["orders"])]


def test_a_controller_gives_up_if_somebody_else_is_always_faster() -> None:
    class Contested(MemoryStore):
        is_contested = False

        async def txn(
            self, checks: Sequence[Unchanged], operations: Sequence[Operation]
        ) -> TxnResult:
            if self.is_contested:
                return TxnResult(False, 0)
            return await super().txn(checks, operations)

    store = Contested()
    controller = opened(store)
    store.is_contested = True
    assert created(controller, "orders").error is ErrorCode.NOT_CONTROLLER
    with pytest.raises(StorageError, match="somebody else"):
        done(controller.allocate_producer_ids())


def test_many_partitions_are_created_at_once(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "metadata"))
    controller = opened(store)
    assert created(controller, "big", partition_count=10_000).error is ErrorCode.NONE
    assert len(opened(store).image.topics["big"].partitions) == 10_000
    store.close()
