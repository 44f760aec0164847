"""Fetches that ask for what is not there, or for more than anybody should get."""

import time

import pytest

from ottla.errors import ErrorCode
from ottla.wire.messages.fetch import FetchRequest, ReplicaState
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.schema import replace
from tests.broker.wire_client import FETCH_VERSION, WireClient, batch_of, fetch_request

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


@pytest.fixture
def filled(client: WireClient, topic: str) -> str:
    """A topic with the records 0, 1 and 2, in three batches."""
    for value in (b"0", b"1", b"2"):
        assert client.produce(topic, batch_of(value)).error_code == ErrorCode.NONE
    return topic


@pytest.mark.parametrize("offset", [-2, -1, 4, INT64_MAX])
def test_row_45_an_offset_outside_the_log_is_out_of_range(
    client: WireClient, filled: str, offset: int
) -> None:
    fetched = client.fetch(filled, offset, max_wait_ms=10_000)

    assert fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert not fetched.records


def test_row_45_the_end_of_the_log_is_in_range(client: WireClient, filled: str) -> None:
    assert client.values(filled, 3) == []


def test_row_46_a_leader_epoch_that_is_not_ours_is_fenced_or_unknown(
    client: WireClient, filled: str
) -> None:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=filled),))
    epoch = client.ask(request, 8).topics[0].partitions[0].leader_epoch

    newer = client.fetch(filled, current_leader_epoch=epoch + 1)
    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    right = client.fetch(filled, current_leader_epoch=epoch)
    assert right.error_code == ErrorCode.NONE
    older = client.fetch(filled, current_leader_epoch=epoch - 1 if epoch else -2)
    assert older.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_row_47_a_client_that_poses_as_a_follower_gets_nothing(
    client: WireClient, filled: str
) -> None:
    before = client.fetch(filled)

    posing = client.fetch(filled, offset=2, replica_id=1)

    assert posing.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not posing.records
    assert client.fetch(filled).high_watermark == before.high_watermark == 3


def test_row_47_a_follower_of_the_newer_protocol_gets_nothing_either(
    client: WireClient, filled: str
) -> None:
    asked = MetadataRequest(topics=(MetadataRequestTopic(name=filled),))
    topic_id = client.ask(asked, 12).topics[0].topic_id
    request = fetch_request(filled, replica_state=ReplicaState(replica_id=1))
    by_id = replace(request, topics=(replace(request.topics[0], topic_id=topic_id),))

    (topic,) = client.ask(by_id, 15).responses

    assert topic.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_row_48_a_fetch_of_zero_bytes_gets_one_batch(client: WireClient, filled: str) -> None:
    assert client.values(filled, max_bytes=0, partition_max_bytes=0) == [b"0"]


def test_row_48_a_fetch_of_negative_size_gets_one_batch(client: WireClient, filled: str) -> None:
    assert client.values(filled, max_bytes=-1, partition_max_bytes=-1) == [b"0"]


def test_row_48_a_fetch_of_unlimited_size_gets_no_more_than_the_broker_allows(
    client: WireClient, filled: str
) -> None:
    everything = client.values(filled, max_bytes=INT32_MAX, partition_max_bytes=INT32_MAX)

    assert everything == [b"0", b"1", b"2"]


def test_row_48_a_fetch_that_wants_two_gigabytes_waits_no_longer_than_it_says(
    client: WireClient, filled: str
) -> None:
    started = time.monotonic()

    values = client.values(filled, min_bytes=INT32_MAX, max_wait_ms=300)

    assert values == [b"0", b"1", b"2"]
    assert time.monotonic() - started >= 0.25


def test_row_48_a_fetch_that_would_wait_for_weeks_ends_with_its_connection(
    client: WireClient, filled: str
) -> None:
    request = fetch_request(filled, 3, min_bytes=INT32_MAX, max_wait_ms=INT32_MAX)
    client.send(request, FETCH_VERSION)

    assert not client.is_closed_within(0.2)


@pytest.mark.parametrize("epoch", [1, 5, INT32_MAX])
def test_row_49_a_fetch_session_that_nobody_opened_is_not_found(
    client: WireClient, filled: str, epoch: int
) -> None:
    request = fetch_request(filled, session_id=12_345, session_epoch=epoch)

    assert client.ask(request, FETCH_VERSION).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [2, 3, INT32_MAX])
def test_row_49_a_fetch_session_with_the_wrong_epoch_is_refused(
    client: WireClient, filled: str, epoch: int
) -> None:
    opened = client.ask(fetch_request(filled, session_epoch=0), FETCH_VERSION)
    assert opened.session_id != 0
    wrong = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=opened.session_id,
        session_epoch=epoch,
        topics=(),
    )

    assert client.ask(wrong, FETCH_VERSION).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    right = replace(wrong, session_epoch=1)
    assert client.ask(right, FETCH_VERSION).error_code == ErrorCode.NONE
