"""DeleteRecords, DescribeLogDirs, AlterReplicaLogDirs and DescribeProducers."""

import errno
from dataclasses import replace

import pytest

from ottla.errors import ErrorCode
from ottla.records.builder import BatchOptions
from ottla.testing.disk import SimDisk
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from tests.broker_fixture import DATA_DIR, NOW_MS, LittleBroker, each_version

NEWEST_DELETE = 2
UP_TO_HIGH_WATERMARK = -1


def with_records(count: int = 5) -> LittleBroker:
    """Partition 0 of "orders" has so many records, partition 1 has none."""
    broker = LittleBroker()
    broker.create("orders", partition_count=2)
    for number in range(count):
        broker.append("orders", b"%d" % number)
    return broker


def delete(
    broker: LittleBroker, version: int, topic: str, *offsets: tuple[int, int]
) -> list[tuple[int, int, int]]:
    """Index and offset of each partition -> index, low watermark and error code."""
    response: DeleteRecordsResponse = broker.ask(
        DeleteRecordsRequest(
            topics=(
                DeleteRecordsTopic(
                    name=topic,
                    partitions=tuple(
                        DeleteRecordsPartition(partition_index=index, offset=offset)
                        for index, offset in offsets
                    ),
                ),
            ),
            timeout_ms=1000,
        ),
        version,
    )
    (result,) = response.topics
    assert result.name == topic
    return [(p.partition_index, p.low_watermark, p.error_code) for p in result.partitions]


@each_version(DeleteRecordsRequest)
def test_records_below_the_offset_are_gone(version: int) -> None:
    broker = with_records(5)
    assert delete(broker, version, "orders", (0, 3)) == [(0, 3, 0)]
    partition = broker.partition("orders")
    assert (partition.log.start_offset, partition.next_offset) == (3, 5)


@each_version(DeleteRecordsRequest)
def test_all_that_consumers_can_see_is_deleted_if_no_offset_is_given(version: int) -> None:
    broker = with_records(5)
    rows = delete(broker, version, "orders", (0, UP_TO_HIGH_WATERMARK), (1, UP_TO_HIGH_WATERMARK))
    assert rows == [(0, 5, 0), (1, 0, 0)]


def test_what_is_gone_already_stays_gone() -> None:
    broker = with_records(5)
    delete(broker, NEWEST_DELETE, "orders", (0, 4))
    assert delete(broker, NEWEST_DELETE, "orders", (0, 2)) == [(0, 4, 0)]


@pytest.mark.parametrize("offset", [6, -2, 2**63 - 1])
def test_an_offset_that_nobody_can_read_cannot_be_deleted_up_to(offset: int) -> None:
    broker = with_records(5)
    rows = delete(broker, NEWEST_DELETE, "orders", (0, offset), (0, 1))
    assert rows == [(0, -1, ErrorCode.OFFSET_OUT_OF_RANGE), (0, 1, 0)]


def test_what_is_not_durable_yet_cannot_be_deleted() -> None:
    broker = with_records(5)
    broker.partition("orders").high_watermark = 3
    rows = delete(broker, NEWEST_DELETE, "orders", (0, 4), (0, UP_TO_HIGH_WATERMARK))
    assert rows == [(0, -1, ErrorCode.OFFSET_OUT_OF_RANGE), (0, 3, 0)]


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        ("compact", ErrorCode.POLICY_VIOLATION),
        ("compact,delete", ErrorCode.NONE),
        ("", ErrorCode.NONE),
    ],
)
def test_a_topic_that_is_only_compacted_keeps_its_records(policy: str, error: ErrorCode) -> None:
    broker = LittleBroker()
    broker.create("table", configs=[("cleanup.policy", policy)])
    broker.append("table", b"1", b"2")
    ((_, _, answer),) = delete(broker, NEWEST_DELETE, "table", (0, 1))
    assert answer == error
    assert broker.partition("table").log.start_offset == (0 if error else 1)


@each_version(DeleteRecordsRequest)
def test_partitions_that_are_not_there_have_no_records(version: int) -> None:
    broker = with_records()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(broker, version, "orders", (2, 0), (-1, 0)) == [
        (2, -1, unknown),
        (-1, -1, unknown),
    ]
    assert delete(broker, version, "nowhere", (0, 0)) == [(0, -1, unknown)]


def test_records_of_internal_topics_are_the_brokers_own() -> None:
    broker = LittleBroker()
    broker.create("__consumer_offsets")
    rows = delete(broker, NEWEST_DELETE, "__consumer_offsets", (0, 0))
    assert rows == [(0, -1, ErrorCode.INVALID_TOPIC_EXCEPTION)]


def test_a_partition_whose_disk_failed_says_so() -> None:
    broker = with_records()
    broker.partitions.take_offline()
    rows = delete(broker, NEWEST_DELETE, "orders", (0, 1))
    assert rows == [(0, -1, ErrorCode.KAFKA_STORAGE_ERROR)]


def directories(
    broker: LittleBroker, version: int, topics: dict[str, tuple[int, ...]] | None = None
) -> DescribeLogDirsResult:
    asked = [
        DescribableLogDirTopic(topic=name, partitions=indexes)
        for name, indexes in (topics or {}).items()
    ]
    response: DescribeLogDirsResponse = broker.ask(
        DescribeLogDirsRequest(topics=None if topics is None else tuple(asked)), version
    )
    assert response.error_code == 0
    (result,) = response.results
    return result


def sizes(result: DescribeLogDirsResult) -> dict[str, dict[int, int]]:
    return {
        topic.name: {p.partition_index: p.partition_size for p in topic.partitions}
        for topic in result.topics
    }


@each_version(DescribeLogDirsRequest)
def test_the_data_directory_is_described_with_all_that_lies_in_it(version: int) -> None:
    broker = with_records()
    broker.create("a")
    result = directories(broker, version)

    assert (result.error_code, result.log_dir) == (0, DATA_DIR)
    size_bytes = broker.partition("orders").log.size_bytes
    assert size_bytes > 0
    assert sizes(result) == {"orders": {0: size_bytes, 1: 0}, "a": {0: 0}}
    described = [partition for topic in result.topics for partition in topic.partitions]
    assert not any(partition.offset_lag or partition.is_future_key for partition in described)
    assert result.usable_bytes == (broker.disk.free_bytes() if version >= 4 else -1)
    assert result.total_bytes == (broker.disk.total_bytes() if version >= 4 else -1)


@each_version(DescribeLogDirsRequest)
def test_only_what_was_asked_for_is_described(version: int) -> None:
    broker = with_records()
    broker.create("a")
    assert sizes(directories(broker, version, {"orders": (1, 7, 1), "nowhere": (0,)})) == {
        "orders": {1: 0}
    }
    assert sizes(directories(broker, version, {})) == {}


class DeadDisk(SimDisk):
    """A disk whose free space cannot be told."""

    def free_bytes(self) -> int:
        raise OSError(errno.EIO, "the disk is gone")


def test_a_data_directory_that_cannot_be_read_is_described_as_such() -> None:
    broker = with_records()
    broker.node.ports = replace(broker.node.ports, disk=DeadDisk())
    result = directories(broker, 4)
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (result.log_dir, result.topics) == (DATA_DIR, ())


def moved(
    broker: LittleBroker, version: int, *dirs: tuple[str, str, tuple[int, ...]]
) -> dict[str, dict[int, int]]:
    """Path, topic and partitions -> topic -> partition -> error code."""
    response: AlterReplicaLogDirsResponse = broker.ask(
        AlterReplicaLogDirsRequest(
            dirs=tuple(
                AlterReplicaLogDir(
                    path=path, topics=(AlterReplicaLogDirTopic(name=name, partitions=indexes),)
                )
                for path, name, indexes in dirs
            )
        ),
        version,
    )
    return {
        result.topic_name: {p.partition_index: p.error_code for p in result.partitions}
        for result in response.results
    }


@each_version(AlterReplicaLogDirsRequest)
def test_a_replica_is_in_the_only_directory_there_is(version: int) -> None:
    broker = with_records()
    errors = moved(
        broker,
        version,
        (DATA_DIR, "orders", (0, 2)),
        ("/elsewhere", "orders", (1,)),
        (DATA_DIR, "nowhere", (0,)),
    )
    assert errors == {
        "orders": {
            0: 0,
            2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            1: ErrorCode.LOG_DIR_NOT_FOUND,
        },
        "nowhere": {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    }


def test_of_two_directories_for_one_replica_the_last_counts() -> None:
    asked = (("/elsewhere", "orders", (0,)), (DATA_DIR, "orders", (0,)))
    assert moved(with_records(), 2, *asked) == {"orders": {0: 0}}


def producers(broker: LittleBroker, topic: str, *indexes: int) -> list[PartitionResponse]:
    response: DescribeProducersResponse = broker.ask(
        DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=indexes),)), 0
    )
    (result,) = response.topics
    assert result.name == topic
    return list(result.partitions)


def test_the_producers_of_a_partition_are_described() -> None:
    broker = LittleBroker()
    broker.create("orders", partition_count=2)
    broker.append("orders", b"by nobody")
    plain = BatchOptions(producer_id=7, producer_epoch=1, base_sequence=0)
    broker.append("orders", b"a", b"b", b"c", options=plain)
    transactional = BatchOptions(
        producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    broker.append("orders", b"d", options=transactional)
    some, none = producers(broker, "orders", 0, 1)

    assert (some.partition_index, some.error_code, some.error_message) == (0, 0, None)
    idempotent, open_one = some.active_producers
    assert (idempotent.producer_id, idempotent.producer_epoch) == (7, 1)
    assert (idempotent.last_sequence, idempotent.last_timestamp) == (2, NOW_MS)
    assert idempotent.coordinator_epoch == -1
    assert idempotent.current_txn_start_offset == -1
    assert (open_one.producer_id, open_one.current_txn_start_offset) == (8, 4)
    assert (none.partition_index, none.error_code, none.active_producers) == (1, 0, ())


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_partitions_that_are_not_there_have_no_producers(topic: str, error: ErrorCode) -> None:
    (answer,) = producers(with_records(), topic, 9)
    assert (answer.partition_index, answer.error_code) == (9, error)
    assert answer.active_producers == ()
