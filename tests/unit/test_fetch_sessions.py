"""Fetch sessions (KIP-227): what is remembered, what is left out, what is refused."""

import pytest

from ottla.broker.fetch_sessions import Fetch, FetchSessions, Wanted
from ottla.errors import ErrorCode
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

VERSION = 12


class CountingEntropy:
    """Gives 1, 2, 3 ... as session ids."""

    def __init__(self) -> None:
        self.last = 0

    def random_bytes(self, count: int) -> bytes:
        self.last += 1
        return self.last.to_bytes(count, "big")

    def random(self) -> float:
        return 0.0


def sessions(*, max_sessions: int = 10, min_idle_ms: int = 1_000) -> FetchSessions:
    return FetchSessions(
        max_sessions=max_sessions, min_idle_ms=min_idle_ms, entropy=CountingEntropy()
    )


def request(
    *partitions: int,
    session_id: int = 0,
    epoch: int = 0,
    forgotten: tuple[int, ...] = (),
    offset: int = 0,
) -> FetchRequest:
    topics = (
        FetchTopic(
            topic="orders",
            partitions=tuple(
                FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1_000)
                for index in partitions
            ),
        ),
    )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=topics if partitions else (),
        forgotten_topics_data=(
            (ForgottenTopic(topic="orders", partitions=forgotten),) if forgotten else ()
        ),
    )


def data(wanted: Wanted, *, high_watermark: int = 5, records: bytes = b"") -> PartitionData:
    return PartitionData(
        partition_index=wanted.partition.partition,
        high_watermark=high_watermark,
        log_start_offset=0,
        aborted_transactions=None,
        records=records,
    )


def mentioned(fetch: Fetch, **kwargs: dict[int, PartitionData]) -> list[int]:
    """Answer `fetch` with nothing new but what `changed` says; the partitions in the response."""
    changed = kwargs.get("changed", {})
    results = [(w, changed.get(w.partition.partition, data(w))) for w in fetch.wanted]
    response = fetch.response(results)
    return [p.partition_index for topic in response.responses for p in topic.partitions]


def opened(manager: FetchSessions, *partitions: int) -> int:
    """Open a session and tell its client everything once; its id."""
    fetch = manager.open(request(*partitions), version=VERSION, now_ms=0)
    assert mentioned(fetch) == list(partitions)
    assert fetch.session is not None
    return fetch.session.session_id


def test_a_full_request_with_epoch_0_opens_a_session() -> None:
    fetch = sessions().open(request(0, 1), version=VERSION, now_ms=0)
    assert fetch.response([]).session_id == 1


def test_a_request_with_epoch_minus_1_gets_no_session() -> None:
    manager = sessions()
    fetch = manager.open(request(0, epoch=-1), version=VERSION, now_ms=0)
    assert fetch.response([]).session_id == 0
    assert len(manager) == 0


def test_an_incremental_request_need_not_name_its_partitions() -> None:
    manager = sessions()
    session_id = opened(manager, 0, 1)
    fetch = manager.open(request(session_id=session_id, epoch=1), version=VERSION, now_ms=0)
    assert [w.partition.partition for w in fetch.wanted] == [0, 1]


def test_partitions_without_news_are_left_out() -> None:
    manager = sessions()
    session_id = opened(manager, 0, 1, 2)
    fetch = manager.open(request(session_id=session_id, epoch=1), version=VERSION, now_ms=0)
    news = data(fetch.wanted[1], high_watermark=6)
    assert mentioned(fetch, changed={1: news}) == [1]


def test_an_error_is_told_again_and_again() -> None:
    manager = sessions()
    session_id = opened(manager, 0)
    for epoch in (1, 2):
        again = request(session_id=session_id, epoch=epoch)
        fetch = manager.open(again, version=VERSION, now_ms=0)
        failed = PartitionData(
            partition_index=0,
            error_code=ErrorCode.OFFSET_OUT_OF_RANGE,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )
        assert mentioned(fetch, changed={0: failed}) == [0]


def test_who_got_data_goes_to_the_end() -> None:
    manager = sessions()
    session_id = opened(manager, 0, 1)
    fetch = manager.open(request(session_id=session_id, epoch=1), version=VERSION, now_ms=0)
    mentioned(fetch, changed={0: data(fetch.wanted[0], records=b"batch")})
    fetch = manager.open(request(session_id=session_id, epoch=2), version=VERSION, now_ms=0)
    assert [w.partition.partition for w in fetch.wanted] == [1, 0]


def test_partitions_are_added_moved_and_forgotten() -> None:
    manager = sessions()
    session_id = opened(manager, 0, 1)
    change = request(1, 2, session_id=session_id, epoch=1, forgotten=(0,), offset=7)
    fetch = manager.open(change, version=VERSION, now_ms=0)
    assert {w.partition.partition: w.partition.fetch_offset for w in fetch.wanted} == {1: 7, 2: 7}


def test_a_session_without_partitions_ends() -> None:
    manager = sessions()
    session_id = opened(manager, 0)
    last = request(session_id=session_id, epoch=1, forgotten=(0,))
    assert manager.open(last, version=VERSION, now_ms=0).response([]).session_id == 0
    assert len(manager) == 0


@pytest.mark.parametrize(
    ("session_id", "epoch", "version", "error"),
    [
        (99, 1, VERSION, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (1, 2, VERSION, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, 1, 13, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_client_that_lost_track_is_told(
    session_id: int, epoch: int, version: int, error: ErrorCode
) -> None:
    manager = sessions()
    opened(manager, 0)
    lost = request(session_id=session_id, epoch=epoch)
    assert manager.open(lost, version=version, now_ms=0).error == error


def test_a_full_house_takes_the_place_of_who_was_idle_longest() -> None:
    manager = sessions(max_sessions=1, min_idle_ms=1_000)
    first = opened(manager, 0)
    soon = manager.open(request(1), version=VERSION, now_ms=999)
    assert soon.session is None
    later = manager.open(request(1), version=VERSION, now_ms=1_000)
    assert later.session is not None
    again = manager.open(request(session_id=first, epoch=1), version=VERSION, now_ms=1_000)
    assert again.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
