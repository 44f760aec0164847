"""DescribeTopicPartitions: topics in order, so many partitions a page, and a cursor to go on."""

import pytest

from ottla.errors import ErrorCode
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.wire.schema import NO_UUID
from tests.broker_fixture import LittleBroker

NO_LIMIT = 2000
OPERATIONS = {
    3: "read",
    4: "write",
    5: "create",
    6: "delete",
    7: "alter",
    8: "describe",
    10: "describe settings",
    11: "alter settings",
}
"""What can be done to a topic, with the numbers of Kafka's ACL operations."""

Shown = list[tuple[str, list[int]]]
"""Topics, and the numbers of their partitions."""


def with_topics(**settings: object) -> LittleBroker:
    """Topics a, b and c have one, two and three partitions."""
    broker = LittleBroker({name.replace("_", "."): value for name, value in settings.items()})
    for name, count in (("c", 3), ("a", 1), ("b", 2)):
        broker.create(name, partition_count=count)
    return broker


def page(
    broker: LittleBroker,
    *names: str,
    limit: int = NO_LIMIT,
    cursor: tuple[str, int] | None = None,
) -> DescribeTopicPartitionsResponse:
    start = None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1])
    response: DescribeTopicPartitionsResponse = broker.ask(
        DescribeTopicPartitionsRequest(
            topics=tuple(TopicRequest(name=name) for name in names),
            response_partition_limit=limit,
            cursor=start,
        ),
        0,
    )
    return response


def shown(response: DescribeTopicPartitionsResponse) -> Shown:
    return [
        (topic.name or "", [partition.partition_index for partition in topic.partitions])
        for topic in response.topics
    ]


def next_of(response: DescribeTopicPartitionsResponse) -> tuple[str, int] | None:
    cursor = response.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


def errors(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in response.topics]


def test_no_names_stand_for_all_topics_in_order() -> None:
    response = page(with_topics())
    assert shown(response) == [("a", [0]), ("b", [0, 1]), ("c", [0, 1, 2])]
    assert next_of(response) is None


def test_a_partition_is_described_with_its_leader_and_replicas() -> None:
    broker = LittleBroker()
    image = broker.create("orders")
    (topic,) = page(broker, "orders").topics
    (partition,) = topic.partitions
    assert (topic.error_code, topic.topic_id, topic.is_internal) == (0, image.topic_id, False)
    assert (partition.leader_id, partition.leader_epoch) == (1, 0)
    assert partition.replica_nodes == partition.isr_nodes == (1,)
    assert partition.offline_replicas == partition.eligible_leader_replicas == ()
    bits = topic.topic_authorized_operations
    assert {number for number in range(32) if bits >> number & 1} == set(OPERATIONS)


def test_an_internal_topic_is_said_to_be_one() -> None:
    broker = LittleBroker()
    broker.create("__consumer_offsets")
    (topic,) = page(broker).topics
    assert topic.is_internal


def test_a_topic_that_is_named_twice_is_described_once() -> None:
    assert shown(page(with_topics(), "b", "a", "b")) == [("a", [0]), ("b", [0, 1])]


def test_topics_that_are_not_there_say_so_among_the_others() -> None:
    response = page(with_topics(), "a/b", "aa", "b", "a")
    assert errors(response) == [
        ("a", 0),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("aa", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("b", 0),
    ]
    assert response.topics[2].topic_id == NO_UUID


@pytest.mark.parametrize(
    ("limit", "cursor", "expected", "next_cursor"),
    [
        (1, None, [("a", [0])], ("b", 0)),
        (2, None, [("a", [0]), ("b", [0])], ("b", 1)),
        (3, None, [("a", [0]), ("b", [0, 1])], ("c", 0)),
        (2, ("b", 1), [("b", [1]), ("c", [0])], ("c", 1)),
        (2, ("c", 1), [("c", [1, 2])], None),
        (0, None, [("a", [0])], ("b", 0)),
        (-5, None, [("a", [0])], ("b", 0)),
        (NO_LIMIT, ("bb", 7), [("c", [0, 1, 2])], None),
        (NO_LIMIT, ("c", 7), [("c", [])], None),
        (NO_LIMIT, ("d", 0), [], None),
    ],
)
def test_a_page_begins_at_the_cursor_and_ends_at_the_limit(
    limit: int,
    cursor: tuple[str, int] | None,
    expected: Shown,
    next_cursor: tuple[str, int] | None,
) -> None:
    response = page(with_topics(), limit=limit, cursor=cursor)
    assert shown(response) == expected
    assert next_of(response) == next_cursor


@pytest.mark.parametrize("limit", range(1, 8))
def test_the_pages_together_show_every_partition_once(limit: int) -> None:
    broker = with_topics()
    seen: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(10):
        response = page(broker, limit=limit, cursor=cursor)
        seen += [(name, index) for name, indexes in shown(response) for index in indexes]
        cursor = next_of(response)
        if cursor is None:
            break
    assert seen == [("a", 0), ("b", 0), ("b", 1), ("c", 0), ("c", 1), ("c", 2)]


def test_the_broker_has_a_limit_of_its_own() -> None:
    broker = with_topics(max_request_partition_size_limit=2)
    assert next_of(page(broker, limit=1000)) == ("b", 1)


def test_a_cursor_can_point_to_a_topic_that_has_been_deleted() -> None:
    response = page(with_topics(), "a", "bb", "c", cursor=("bb", 1))
    assert errors(response) == [("bb", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("c", 0)]


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
def test_a_cursor_must_be_one_that_the_same_request_could_have_got(
    cursor: tuple[str, int],
) -> None:
    response = page(with_topics(), "a", "c", cursor=cursor)
    assert errors(response) == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("c", ErrorCode.INVALID_REQUEST),
    ]
    assert next_of(response) is None
