"""The parts of the small client that need no broker."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from ottla.client.basic.client import Address, parse_bootstrap, version_for
from ottla.client.basic.connection import Connection
from ottla.client.basic.reader import fetched_of
from ottla.errors import BatchError, ConfigError, TransportError, UnsupportedError
from ottla.model import TopicPartition
from ottla.records.builder import BatchOptions, build
from ottla.records.control import Marker, build_marker
from ottla.wire.messages.fetch import AbortedTransaction, PartitionData
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.registry import ApiKey

ORDERS = TopicPartition("orders", 0)
MARKERS_ONLY_END = 9


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost", [("localhost", 9092)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        ("::1", [("::1", 9092)]),
    ],
)
def test_brokers_are_named_by_host_and_port(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == addresses


@pytest.mark.parametrize("text", ["", ",", ":9092", "a:b", "a:70000", "[::1", "[::1]x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="like"):
        parse_bootstrap(text)


def test_an_address_is_shown_as_it_is_written() -> None:
    assert [str(Address("::1", 1)), str(Address("a", 2))] == ["[::1]:1", "a:2"]


def connection(versions: range) -> Connection:
    made = Connection("localhost:9092", "test")
    made.versions = {ApiKey.METADATA: versions}
    return made


@pytest.mark.parametrize(
    ("theirs", "at_most", "version"),
    [(range(9), None, 8), (range(4, 99), None, 13), (range(14), 5, 5)],
)
def test_the_newest_version_that_both_sides_speak_is_used(
    theirs: range, at_most: int | None, version: int
) -> None:
    assert version_for(connection(theirs), MetadataRequest(topics=None), at_most) == version


@pytest.mark.parametrize("theirs", [range(0), range(90, 99)])
def test_without_a_common_version_the_request_is_not_sent(theirs: range) -> None:
    with pytest.raises(UnsupportedError, match="does not speak Metadata"):
        version_for(connection(theirs), MetadataRequest(topics=None))


class Plugged(asyncio.Transport):
    """A transport that takes everything and sends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[bytes] = []
        self.high_bytes: int | None = None

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.taken += [bytes(part) for part in list_of_data]

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high_bytes = high

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        self.taken.clear()


def test_a_request_without_an_answer_is_waited_for_until_the_system_has_it() -> None:
    async def conversation() -> None:
        made, transport = Connection("localhost:9092", "test"), Plugged()
        made.connection_made(transport)
        assert transport.high_bytes == 0
        made.tell(MetadataRequest(topics=None), 9)
        made.pause_writing()
        drained = asyncio.ensure_future(made.drained())
        await asyncio.sleep(0)
        assert not drained.done()
        made.resume_writing()
        await drained

    asyncio.run(conversation())


def test_everybody_who_waits_learns_that_the_connection_broke() -> None:
    async def conversation() -> None:
        made = Connection("localhost:9092", "test")
        made.connection_made(Plugged())
        answers = [made.request(MetadataRequest(topics=None), 9) for _ in range(2)]
        made.connection_lost(ConnectionResetError("reset by peer"))
        for answer in answers:
            with pytest.raises(TransportError, match="reset by peer"):
                await answer

    asyncio.run(conversation())


def data_batch(offset: int, producer_id: int, *, transactional: bool = True) -> bytes:
    options = BatchOptions(
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=transactional,
    )
    return bytes(build([(1, None, b"%d" % offset, ())], options))


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    end = Marker(
        is_commit=is_commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=1,
    )
    return bytes(build_marker(end, base_offset=offset))


def interleaved() -> PartitionData:
    """Producer 7 aborts and then commits; 8 commits meanwhile; 9 uses no transactions."""
    return PartitionData(
        partition_index=0,
        high_watermark=10,
        last_stable_offset=MARKERS_ONLY_END,
        aborted_transactions=(AbortedTransaction(producer_id=7, first_offset=0),),
        records=b"".join(
            [
                data_batch(0, 7),
                data_batch(1, 8),
                data_batch(2, 9, transactional=False),
                data_batch(3, 7),
                marker(4, 7, is_commit=False),
                data_batch(5, 7),
                marker(6, 8, is_commit=True),
                marker(7, 7, is_commit=True),
                data_batch(8, 8),
            ]
        ),
    )


def test_what_was_rolled_back_is_left_out_up_to_its_marker() -> None:
    fetched = fetched_of(ORDERS, 0, interleaved(), read_committed=True)
    assert [record.offset for record in fetched.records()] == [1, 2, 5, 8]
    assert (fetched.next_offset, fetched.end_offset) == (9, MARKERS_ONLY_END)


def test_without_isolation_everything_but_markers_is_shown() -> None:
    fetched = fetched_of(ORDERS, 0, interleaved(), read_committed=False)
    assert [record.offset for record in fetched.records()] == [0, 1, 2, 3, 5, 8]
    assert fetched.end_offset == 10


def test_a_fetch_inside_a_batch_shows_only_what_was_asked_for() -> None:
    records = build([(1, None, b"%d" % n, ()) for n in range(5)])
    data = PartitionData(
        partition_index=0, high_watermark=5, aborted_transactions=None, records=bytes(records)
    )
    fetched = fetched_of(ORDERS, 3, data, read_committed=False)
    assert [record.value for record in fetched.records()] == [b"3", b"4"]


def test_a_batch_that_was_damaged_on_its_way_is_refused() -> None:
    records = build([(1, None, b"value", ())])
    records[-1] ^= 1
    data = PartitionData(
        partition_index=0, high_watermark=1, aborted_transactions=None, records=bytes(records)
    )
    with pytest.raises(BatchError):
        fetched_of(ORDERS, 0, data, read_committed=False)
