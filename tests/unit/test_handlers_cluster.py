"""DescribeCluster, elections and reassignments: the answers of a cluster of one node."""

from dataclasses import replace

import pytest

from ottla.cluster import layout
from ottla.cluster.store.memory import MemoryStore
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from tests.broker_fixture import LittleBroker, each_version
from tests.cluster_samples import done

NOT_ASKED = -(2**31)
PREFERRED = 0
UNCLEAN = 1
OPERATIONS = {
    5: "create",
    7: "alter",
    8: "describe",
    9: "act as a broker",
    10: "describe settings",
    11: "alter settings",
    12: "write idempotently",
}
"""What can be done to a cluster, with the numbers of Kafka's ACL operations."""


def described(
    broker: LittleBroker, version: int, *, operations: bool = False, endpoint_type: int = 1
) -> DescribeClusterResponse:
    response: DescribeClusterResponse = broker.ask(
        DescribeClusterRequest(
            include_cluster_authorized_operations=operations, endpoint_type=endpoint_type
        ),
        version,
    )
    return response


@each_version(DescribeClusterRequest)
def test_the_cluster_is_described_with_its_id_and_brokers(version: int) -> None:
    broker = LittleBroker(broker_count=2)
    response = described(broker, version)
    assert (response.error_code, response.error_message) == (0, None)
    assert response.cluster_id == broker.controller.image.cluster_id
    assert response.controller_id == 1
    assert [(b.broker_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (1, "localhost", 9092, None),
        (2, "localhost", 9092, None),
    ]
    assert not any(b.is_fenced for b in response.brokers)
    assert response.cluster_authorized_operations == NOT_ASKED


def test_a_controller_that_is_no_broker_yet_is_not_named() -> None:
    response = described(LittleBroker(broker_count=0), 2)
    assert (response.controller_id, response.brokers) == (-1, ())


@each_version(DescribeClusterRequest)
def test_everybody_may_do_everything_and_is_told_so(version: int) -> None:
    response = described(LittleBroker(), version, operations=True)
    bits = response.cluster_authorized_operations
    assert {number for number in range(32) if bits >> number & 1} == set(OPERATIONS)


@each_version(DescribeClusterRequest, low=1)
@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_controllers_have_no_endpoints(version: int, endpoint_type: int, error: ErrorCode) -> None:
    response = described(LittleBroker(), version, endpoint_type=endpoint_type)
    assert response.error_code == error
    assert response.error_message
    assert response.brokers == ()


def elected(
    broker: LittleBroker,
    version: int,
    *topics: tuple[str, tuple[int, ...]],
    election_type: int = 0,
) -> ElectLeadersResponse:
    asked = tuple(TopicPartitions(topic=name, partitions=indexes) for name, indexes in topics)
    response: ElectLeadersResponse = broker.ask(
        ElectLeadersRequest(election_type=election_type, topic_partitions=asked or None), version
    )
    return response


def rows(response: ElectLeadersResponse) -> list[tuple[str, list[tuple[int, int]]]]:
    return [
        (
            topic.topic,
            [(result.partition_id, result.error_code) for result in topic.partition_result],
        )
        for topic in response.replica_election_results
    ]


@each_version(ElectLeadersRequest)
def test_a_partition_that_has_its_leader_needs_no_election(version: int) -> None:
    broker = LittleBroker()
    broker.create("orders", partition_count=2)
    response = elected(broker, version, ("orders", (1, 0, 2)), ("nowhere", (0,)))
    assert response.error_code == 0
    assert rows(response) == [
        (
            "orders",
            [
                (1, ErrorCode.ELECTION_NOT_NEEDED),
                (0, ErrorCode.ELECTION_NOT_NEEDED),
                (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ],
        ),
        ("nowhere", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]


@each_version(ElectLeadersRequest, low=1)
def test_an_unclean_election_is_not_needed_either(version: int) -> None:
    broker = LittleBroker()
    broker.create("orders")
    response = elected(broker, version, ("orders", (0,)), election_type=UNCLEAN)
    assert rows(response) == [("orders", [(0, ErrorCode.ELECTION_NOT_NEEDED)])]


@each_version(ElectLeadersRequest)
def test_an_election_everywhere_leaves_out_those_that_need_none(version: int) -> None:
    broker = LittleBroker()
    broker.create("orders", partition_count=2)
    broker.create("a")
    assert rows(elected(broker, version)) == [("a", []), ("orders", [])]


def led_by(leader: int) -> LittleBroker:
    """A broker that finds the only partition of "orders" with this leader, and replicas 1 and 2."""
    store = MemoryStore()
    topic = LittleBroker(broker_count=2, store=store).create("orders")
    partition = replace(topic.partitions[0], leader=leader, replicas=(1, 2), isr=(1, 2))
    done(store.txn([], layout.put_topic(replace(topic, partitions=(partition,)))))
    return LittleBroker(broker_count=2, store=store)


@pytest.mark.parametrize(
    ("leader", "election_type", "error"),
    [
        (1, PREFERRED, ErrorCode.ELECTION_NOT_NEEDED),
        (2, PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (2, UNCLEAN, ErrorCode.ELECTION_NOT_NEEDED),
        (-1, UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
def test_nobody_else_can_be_elected(leader: int, election_type: int, error: ErrorCode) -> None:
    broker = led_by(leader)
    response = elected(broker, 2, ("orders", (0,)), election_type=election_type)
    assert rows(response) == [("orders", [(0, error)])]
    missing = [] if error is ErrorCode.ELECTION_NOT_NEEDED else [(0, error)]
    assert rows(elected(broker, 2, election_type=election_type)) == [("orders", missing)]


@each_version(ElectLeadersRequest, low=1)
def test_there_are_two_types_of_elections(version: int) -> None:
    broker = LittleBroker()
    broker.create("orders")
    response = elected(broker, version, ("orders", (0,)), election_type=2)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert rows(response) == [("orders", [(0, ErrorCode.INVALID_REQUEST)])]
    assert elected(broker, version, election_type=2).error_code == ErrorCode.INVALID_REQUEST


def reassigned(
    broker: LittleBroker,
    version: int,
    *asked: tuple[str, int, tuple[int, ...] | None],
    may_resize: bool = True,
) -> list[int]:
    """The error codes of topic, partition and replicas, one topic each."""
    response: AlterPartitionReassignmentsResponse = broker.ask(
        AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=may_resize,
            topics=tuple(
                ReassignableTopic(
                    name=name,
                    partitions=(ReassignablePartition(partition_index=index, replicas=replicas),),
                )
                for name, index, replicas in asked
            ),
        ),
        version,
    )
    assert response.error_code == 0
    assert [topic.name for topic in response.responses] == [name for name, _, _ in asked]
    results = [topic.partitions[0] for topic in response.responses]
    assert [result.partition_index for result in results] == [index for _, index, _ in asked]
    for result in results:
        assert (result.error_message is None) is (result.error_code == 0), result
    return [result.error_code for result in results]


@each_version(AlterPartitionReassignmentsRequest)
def test_a_partition_stays_where_it_is(version: int) -> None:
    broker = LittleBroker()
    broker.create("orders")
    errors = reassigned(
        broker,
        version,
        ("orders", 0, (1,)),
        ("orders", 0, (2,)),
        ("orders", 0, (1, 2)),
        ("orders", 0, (1, 1)),
        ("orders", 0, ()),
        ("orders", 0, None),
        ("orders", 1, (1,)),
        ("nowhere", 0, None),
    )
    assert errors == [
        0,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_reassignment_may_be_forbidden_to_change_the_number_of_replicas() -> None:
    broker = LittleBroker(broker_count=2)
    broker.create("orders")
    (replica,) = broker.controller.image.topics["orders"].partitions[0].replicas
    both = (replica, 3 - replica)
    assert reassigned(broker, 1, ("orders", 0, both), may_resize=False) == [
        ErrorCode.INVALID_REPLICATION_FACTOR
    ]
    assert reassigned(broker, 1, ("orders", 0, both)) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]


@pytest.mark.parametrize(
    "topics",
    [
        None,
        (ListPartitionReassignmentsTopics(name="orders", partition_indexes=(0,)),),
        (ListPartitionReassignmentsTopics(name="nowhere", partition_indexes=(0,)),),
    ],
)
def test_nothing_is_on_the_move(
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None,
) -> None:
    broker = LittleBroker()
    broker.create("orders")
    response: ListPartitionReassignmentsResponse = broker.ask(
        ListPartitionReassignmentsRequest(topics=topics), 0
    )
    assert (response.error_code, response.error_message, response.topics) == (0, None, ())
