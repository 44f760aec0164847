"""Chunks: records from where they were asked for, without markers and aborted transactions."""

import pytest

from ottla.errors import BatchError
from tests.consumer_samples import chunk, marker, offsets_in, plain_batch, transactional_batch

ADA, BOB = 7, 8


def all_offsets(of: object, limit: int = 100) -> list[int]:
    found: list[int] = []
    while (portion := of.take(limit)) is not None:  # type: ignore[attr-defined]
        found += offsets_in(portion)
    return found


def test_a_fetch_that_began_inside_a_batch_shows_what_was_asked_for() -> None:
    part = chunk(3, [plain_batch(0, 5), plain_batch(5, 2)])
    assert all_offsets(part) == [3, 4, 5, 6]
    assert part.position == 7


def test_a_limit_ends_inside_a_batch_and_the_rest_comes_later() -> None:
    part = chunk(0, [plain_batch(0, 5)])
    assert offsets_in(part.take(2)) == [0, 1]
    assert (part.position, part.is_done) == (2, False)
    assert offsets_in(part.take(2)) == [2, 3]
    assert offsets_in(part.take(2)) == [4]
    assert (part.position, part.is_done) == (5, True)


def test_markers_are_no_records_and_the_position_moves_over_them() -> None:
    part = chunk(0, [transactional_batch(0, 2, ADA), marker(2, ADA, is_commit=True)])
    assert offsets_in(part.take(10)) == [0, 1]
    assert (part.position, part.is_done) == (3, True)


def test_an_aborted_transaction_is_left_out_up_to_its_marker() -> None:
    log = [
        transactional_batch(0, 2, ADA),
        transactional_batch(2, 2, BOB),
        marker(4, ADA, is_commit=False),
        transactional_batch(5, 1, ADA),
        marker(6, BOB, is_commit=True),
        marker(7, ADA, is_commit=True),
    ]
    assert all_offsets(chunk(0, log, aborted=[(0, ADA)])) == [2, 3, 5]
    assert all_offsets(chunk(0, log, aborted=None)) == [0, 1, 2, 3, 5]


def test_a_second_aborted_transaction_of_the_same_producer_counts_from_its_own_beginning() -> None:
    log = [
        transactional_batch(0, 1, ADA),
        marker(1, ADA, is_commit=False),
        transactional_batch(2, 1, ADA),
        marker(3, ADA, is_commit=True),
        transactional_batch(4, 1, ADA),
        marker(5, ADA, is_commit=False),
    ]
    assert all_offsets(chunk(0, log, aborted=[(0, ADA), (4, ADA)])) == [2]


def test_records_outside_of_transactions_are_seen_whoever_aborted() -> None:
    log = [plain_batch(0, 1), transactional_batch(1, 1, ADA), marker(2, ADA, is_commit=False)]
    part = chunk(0, log, aborted=[(1, ADA)])
    assert all_offsets(part) == [0]
    assert part.position == 3


def test_a_damaged_batch_is_raised_each_time_and_the_position_stays_before_it() -> None:
    damaged = plain_batch(2, 3)
    data = bytearray(damaged.data)
    data[-1] ^= 1
    part = chunk(0, [plain_batch(0, 2), type(damaged).parse(data)])
    assert offsets_in(part.take(10)) == [0, 1]
    for _ in range(2):
        with pytest.raises(BatchError, match="CORRUPT_MESSAGE"):
            part.take(10)
    assert part.position == 2


def test_whole_batches_are_taken_with_the_offsets_that_count() -> None:
    part = chunk(1, [plain_batch(0, 3), plain_batch(3, 3), marker(6, ADA, is_commit=True)])
    taken = [(p.batch.base_offset, p.from_offset, p.to_offset) for p in part.take_batches(100)]
    assert taken == [(0, 1, 3), (3, 3, 6)]
    assert (part.position, part.is_done) == (7, True)


def test_a_batch_that_is_larger_than_the_limit_is_taken_in_parts() -> None:
    part = chunk(0, [plain_batch(0, 5)])
    taken = []
    while parts := list(part.take_batches(2)):
        taken += [(p.from_offset, p.to_offset) for p in parts]
    assert taken == [(0, 2), (2, 4), (4, 5)]


def test_rows_and_whole_batches_can_be_taken_in_turn() -> None:
    part = chunk(0, [plain_batch(0, 5), plain_batch(5, 2)])
    assert offsets_in(part.take(2)) == [0, 1]
    assert [(p.from_offset, p.to_offset) for p in part.take_batches(100)] == [(2, 5), (5, 7)]
