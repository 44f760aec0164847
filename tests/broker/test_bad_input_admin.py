"""Topics that cannot be created, and records that cannot be deleted."""

import pytest

from ottla.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest
from tests.broker.wire_client import CREATE_VERSION, WireClient, batch_of

ON_NODE_1 = (CreatableReplicaAssignment(partition_index=0, broker_ids=(1,)),)


def topic_of(
    name: str = "refused",
    *,
    partition_count: int = 1,
    replicas: int = 1,
    assignments: tuple[CreatableReplicaAssignment, ...] = (),
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partition_count,
        replication_factor=replicas,
        assignments=assignments,
        configs=tuple(
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ),
    )


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        pytest.param(topic_of(partition_count=0), ErrorCode.INVALID_PARTITIONS, id="0 partitions"),
        pytest.param(topic_of(partition_count=-5), ErrorCode.INVALID_PARTITIONS, id="-5"),
        # Kafka's controller, too, takes this for a violation of its own limit of 10,000 a request.
        pytest.param(topic_of(partition_count=10**9), ErrorCode.POLICY_VIOLATION, id="10^9"),
        pytest.param(topic_of(replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR, id="0 replicas"),
        pytest.param(topic_of(replicas=2), ErrorCode.INVALID_REPLICATION_FACTOR, id="2 replicas"),
        pytest.param(topic_of(assignments=ON_NODE_1), ErrorCode.INVALID_REQUEST, id="both"),
        pytest.param(
            topic_of(
                partition_count=-1,
                replicas=-1,
                assignments=(CreatableReplicaAssignment(partition_index=0, broker_ids=(99,)),),
            ),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            id="on a node that does not exist",
        ),
        pytest.param(
            topic_of(
                partition_count=-1,
                replicas=-1,
                assignments=(CreatableReplicaAssignment(partition_index=7, broker_ids=(1,)),),
            ),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            id="with a gap",
        ),
        pytest.param(topic_of(no_such_setting="1"), ErrorCode.INVALID_CONFIG, id="unknown setting"),
        pytest.param(topic_of(retention_ms="soon"), ErrorCode.INVALID_CONFIG, id="no number"),
        pytest.param(topic_of(retention_ms="-2"), ErrorCode.INVALID_CONFIG, id="out of range"),
        pytest.param(topic_of(cleanup_policy="burn"), ErrorCode.INVALID_CONFIG, id="no choice"),
        pytest.param(topic_of(retention_ms=None), ErrorCode.INVALID_CONFIG, id="null"),
    ],
)
def test_row_53_a_topic_that_cannot_be_is_refused(
    client: WireClient, topic: CreatableTopic, code: ErrorCode
) -> None:
    (result,) = client.ask(CreateTopicsRequest(topics=(topic,)), CREATE_VERSION).topics

    assert ErrorCode(result.error_code) is code
    assert result.error_message
    names = {known.name for known in client.ask(MetadataRequest(topics=None), 8).topics}
    assert topic.name not in names


def test_row_53_a_name_that_occurs_twice_is_refused_once(client: WireClient) -> None:
    request = CreateTopicsRequest(topics=(topic_of("twice"), topic_of("twice"), topic_of("once")))

    results = client.ask(request, CREATE_VERSION).topics

    assert {result.name: result.error_code for result in results} == {
        "twice": ErrorCode.INVALID_REQUEST,
        "once": ErrorCode.NONE,
    }
    assert len(results) == 2


def test_row_53_names_that_differ_in_dots_and_underscores_collide(client: WireClient) -> None:
    assert client.create_topic("co.llision") == ErrorCode.NONE

    assert client.create_topic("co_llision") == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("offset", [3, 2**63 - 1, -2])
def test_row_54_records_beyond_the_high_watermark_cannot_be_deleted(
    client: WireClient, topic: str, offset: int
) -> None:
    assert client.produce(topic, batch_of(b"0", b"1")).error_code == ErrorCode.NONE
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name=topic, partitions=(asked,)),), timeout_ms=1_000
    )

    (result,) = client.ask(request, 2).topics[0].partitions

    assert result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.values(topic) == [b"0", b"1"]
