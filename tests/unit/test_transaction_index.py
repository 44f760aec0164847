"""The index of aborted transactions: its bytes, and what overlaps a range."""

from collections.abc import Iterator

import pytest

from ottla.errors import StorageError
from ottla.log.producer_state import CompletedTransaction
from ottla.log.transaction_index import ENTRY_BYTES, TransactionIndex, aborted_in
from ottla.wire.stored.log_files import AbortedTxn


def aborted(producer_id: int, first: int, last: int, stable: int) -> AbortedTxn:
    return AbortedTxn(
        producer_id=producer_id, first_offset=first, last_offset=last, last_stable_offset=stable
    )


EARLY = aborted(1, first=0, last=10, stable=3)
LONG = aborted(2, first=3, last=20, stable=15)
LATE = aborted(3, first=15, last=30, stable=31)


def index_of(*entries: AbortedTxn) -> TransactionIndex:
    index = TransactionIndex()
    for entry in entries:
        index.append(entry)
    return index


def test_an_entry_has_the_bytes_that_kafka_writes() -> None:
    data = index_of(aborted(0x0102, first=5, last=9, stable=10)).to_bytes()

    assert len(data) == ENTRY_BYTES == 34
    assert data == bytes.fromhex(
        "0000 0000000000000102 0000000000000005 0000000000000009 000000000000000a"
    )


def test_an_index_is_read_back() -> None:
    index = index_of(EARLY, LONG, LATE)

    assert list(TransactionIndex.parse(index.to_bytes(), base_offset=0)) == [EARLY, LONG, LATE]


def test_no_bytes_are_an_index_without_entries() -> None:
    assert list(TransactionIndex.parse(b"", base_offset=50)) == []


@pytest.mark.parametrize(
    ("data", "base_offset"),
    [
        pytest.param(index_of(EARLY).to_bytes()[:-1], 0, id="cut short"),
        pytest.param(b"\x00\x01" + index_of(EARLY).to_bytes()[2:], 0, id="unknown version"),
        pytest.param(index_of(EARLY).to_bytes(), 11, id="marker before the segment"),
        pytest.param(index_of(LONG).to_bytes() + index_of(EARLY).to_bytes(), 0, id="unordered"),
        pytest.param(index_of(aborted(1, first=9, last=8, stable=9)).to_bytes(), 0, id="backward"),
        pytest.param(bytes(2 * ENTRY_BYTES), 0, id="empty pages"),
    ],
)
def test_a_damaged_index_is_refused(data: bytes, base_offset: int) -> None:
    with pytest.raises(StorageError):
        TransactionIndex.parse(data, base_offset=base_offset)


def test_only_aborted_transactions_are_noted() -> None:
    index = TransactionIndex()
    index.note(None)
    index.note(CompletedTransaction(1, 0, 10, is_aborted=False, last_stable_offset=11))
    index.note(CompletedTransaction(2, 4, 12, is_aborted=True, last_stable_offset=13))

    assert list(index) == [aborted(2, first=4, last=12, stable=13)]


def test_a_transaction_overlaps_a_range_from_its_first_record_to_its_marker() -> None:
    index = index_of(LONG)

    assert index.overlapping(0, 3).entries == []
    assert index.overlapping(0, 4).entries == [LONG]
    assert index.overlapping(20, 21).entries == [LONG]
    assert index.overlapping(21, 40).entries == []


def test_the_search_is_complete_once_everything_below_the_end_was_decided() -> None:
    index = index_of(EARLY, LONG, LATE)

    found = index.overlapping(0, 15)
    assert found.entries == [EARLY, LONG]
    assert found.is_complete
    assert not index.overlapping(0, 32).is_complete
    assert index.overlapping(0, 31).is_complete


def test_transactions_of_several_segments_come_in_the_order_in_which_they_began() -> None:
    first = index_of(aborted(1, first=5, last=10, stable=2))
    second = index_of(aborted(2, first=2, last=20, stable=21))

    found = aborted_in([first, second], 0, 30)

    assert [entry.producer_id for entry in found] == [2, 1]


def test_no_more_indexes_are_asked_for_than_needed() -> None:
    asked = []

    def indexes() -> Iterator[TransactionIndex]:
        for index in (index_of(EARLY), index_of(LONG), index_of(LATE)):
            asked.append(index)
            yield index

    found = aborted_in(indexes(), 0, 12)

    assert found == [EARLY, LONG]
    assert len(asked) == 2


def test_a_truncated_index_forgets_the_markers_from_there_on() -> None:
    index = index_of(EARLY, LONG, LATE)
    index.truncate_to(20)

    assert list(index) == [EARLY]

    index.append(LONG)
    index.truncate_to(21)
    assert list(index) == [EARLY, LONG]
