"""ListOffsets: what a time, or an end of the log, leads to, and for whom."""

import pytest

from ottla.broker.handlers.list_offsets import SpecialTime
from ottla.errors import ErrorCode
from ottla.records.builder import BatchOptions
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.broker_fixture import NOW_MS, LittleBroker, each_version

OPEN = BatchOptions(producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
FIRST_WITH_ISOLATION = 2
FIRST_WITH_MAX_TIMESTAMP = 7
NEWEST = 10
NOTHING = (-1, -1)


def asked(
    broker: LittleBroker, timestamp_ms: int, *, version: int = NEWEST, committed: bool = False
) -> ListOffsetsPartitionResponse:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp_ms)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed),
        topics=(ListOffsetsTopic(name="orders", partitions=(partition,)),),
    )
    (topic,) = broker.ask(request, version).topics
    (found,) = topic.partitions
    assert isinstance(found, ListOffsetsPartitionResponse)
    return found


def with_open_transaction() -> LittleBroker:
    """A topic with nothing but a record of a transaction that is open."""
    broker = LittleBroker()
    broker.create("orders")
    broker.append("orders", b"undecided", options=OPEN)
    return broker


@each_version(ListOffsetsRequest, low=FIRST_WITH_ISOLATION)
def test_who_reads_committed_is_led_to_no_record_that_he_may_not_see(version: int) -> None:
    broker = with_open_transaction()

    committed = asked(broker, NOW_MS, version=version, committed=True)
    uncommitted = asked(broker, NOW_MS, version=version)

    assert (committed.offset, committed.timestamp) == NOTHING
    assert (uncommitted.offset, uncommitted.timestamp) == (0, NOW_MS)


@each_version(ListOffsetsRequest, low=FIRST_WITH_MAX_TIMESTAMP)
def test_nor_to_the_youngest_record_if_it_is_one_of_these(version: int) -> None:
    broker = with_open_transaction()

    committed = asked(broker, SpecialTime.MAX_TIMESTAMP, version=version, committed=True)
    uncommitted = asked(broker, SpecialTime.MAX_TIMESTAMP, version=version)

    assert (committed.offset, committed.timestamp) == NOTHING
    assert (uncommitted.offset, uncommitted.timestamp) == (0, NOW_MS)


@pytest.mark.parametrize(("committed", "end_offset"), [(True, 0), (False, 1)])
def test_the_end_is_where_the_reader_would_stop(committed: bool, end_offset: int) -> None:
    found = asked(with_open_transaction(), SpecialTime.LATEST, committed=committed)

    assert (found.error_code, found.offset) == (ErrorCode.NONE, end_offset)


def test_a_question_of_the_future_is_one_that_we_do_not_know() -> None:
    assert asked(with_open_transaction(), -99).error_code == ErrorCode.UNSUPPORTED_VERSION
