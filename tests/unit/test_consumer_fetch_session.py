"""Fetch sessions: everything first, then only what changed, and all again when one is lost."""

from ottla.client.consumer.fetch_session import (
    NEWEST_WITH_NAMES,
    FetchLimits,
    FetchSession,
    partitions_of,
)
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.schema import NO_UUID
from tests.consumer_samples import OTHER, TP

ID = b"0123456789abcdef"
NEW_ID = b"fedcba9876543210"
LIMITS = FetchLimits(max_wait_ms=500, min_bytes=1, max_bytes=99, isolation_level=1, rack_id="r")


def wanted(**offsets: int) -> dict[TopicPartition, FetchPartition]:
    """`p0=5` asks for partition 0 from offset 5 on."""
    return {
        TopicPartition("orders", int(name[1:])): FetchPartition(
            partition=int(name[1:]), fetch_offset=offset, partition_max_bytes=10
        )
        for name, offset in offsets.items()
    }


def told(request: FetchRequest) -> dict[int, int]:
    return {p.partition: p.fetch_offset for t in request.topics for p in t.partitions}


def forgotten(request: FetchRequest) -> list[int]:
    return [p for t in request.forgotten_topics_data for p in t.partitions]


def opened() -> FetchSession:
    """A session that has asked for partitions 0 and 1 at offset 0."""
    session = FetchSession(LIMITS)
    session.request(wanted(p0=0, p1=0), {"orders": ID})
    assert session.answered(FetchResponse(session_id=77, responses=()))
    return session


def test_the_first_request_opens_a_session_and_tells_everything() -> None:
    request, version = FetchSession(LIMITS).request(wanted(p0=3, p1=4), {"orders": ID})
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert told(request) == {0: 3, 1: 4}
    assert (request.isolation_level, request.rack_id, request.max_bytes) == (1, "r", 99)
    assert version is None


def test_later_requests_tell_what_changed() -> None:
    request, _ = opened().request(wanted(p0=0, p1=9), {"orders": ID})
    assert (request.session_id, request.session_epoch) == (77, 1)
    assert told(request) == {1: 9}
    assert forgotten(request) == []


def test_what_is_not_wanted_for_a_while_is_forgotten_and_told_again() -> None:
    session = opened()
    request, _ = session.request(wanted(p0=0), {"orders": ID})
    assert (told(request), forgotten(request)) == ({}, [1])
    session.answered(FetchResponse(session_id=77, responses=()))
    request, _ = session.request(wanted(p0=0, p1=0), {"orders": ID})
    assert (told(request), request.session_epoch) == ({1: 0}, 2)


def test_a_lost_session_begins_again() -> None:
    session = opened()
    code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not session.answered(FetchResponse(error_code=code, session_id=0, responses=()))
    request, _ = session.request(wanted(p0=0, p1=0), {"orders": ID})
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert told(request) == {0: 0, 1: 0}


def test_a_broker_that_keeps_no_sessions_is_told_everything_each_time() -> None:
    session = FetchSession(LIMITS)
    for _ in range(2):
        request, _ = session.request(wanted(p0=0), {"orders": ID})
        assert told(request) == {0: 0}
        assert session.answered(FetchResponse(session_id=0, responses=()))


def test_a_topic_that_was_created_anew_is_forgotten_under_its_old_id() -> None:
    request, _ = opened().request(wanted(p0=0, p1=0), {"orders": NEW_ID})
    assert [t.topic_id for t in request.forgotten_topics_data] == [ID]
    assert [t.topic_id for t in request.topics] == [NEW_ID]


def test_a_topic_without_an_id_goes_by_its_name_in_an_older_version() -> None:
    session = opened()
    request, version = session.request(wanted(p0=0), {"orders": NO_UUID})
    assert version == NEWEST_WITH_NAMES
    assert (request.session_epoch, told(request)) == (0, {0: 0})
    assert request.topics[0].topic == "orders"


def test_answers_are_read_by_id_or_name_and_strangers_are_left_out() -> None:
    def data(index: int) -> tuple[PartitionData, ...]:
        return (
            PartitionData(
                partition_index=index, high_watermark=1, aborted_transactions=None, records=None
            ),
        )

    answer = FetchResponse(
        responses=(
            FetchableTopicResponse(topic_id=ID, partitions=data(0)),
            FetchableTopicResponse(topic="orders", partitions=data(1)),
            FetchableTopicResponse(topic_id=NEW_ID, partitions=data(2)),
        )
    )
    assert [tp for tp, _ in partitions_of(answer, {ID: "orders"})] == [TP, OTHER]
