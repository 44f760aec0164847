"""Which leader epoch began at which offset."""

import pytest

from ottla.log.leader_epochs import EpochEnd, LeaderEpochs

UNKNOWN = EpochEnd(-1, -1)


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(entries)


def test_an_epoch_begins_once() -> None:
    known = epochs()

    known.assign(2, 10)
    known.assign(2, 15)

    assert known.entries == ((2, 10),)


def test_an_epoch_that_wrote_nothing_gives_way_to_the_next() -> None:
    known = epochs((1, 0), (2, 10))

    known.assign(3, 10)

    assert known.entries == ((1, 0), (3, 10))


def test_an_entry_that_contradicts_the_new_one_is_dropped() -> None:
    known = epochs((1, 0), (4, 10), (5, 20))

    known.assign(4, 15)

    assert known.entries == ((1, 0), (4, 15))


def test_epochs_that_begin_beyond_the_end_go_with_their_records() -> None:
    known = epochs((1, 0), (2, 10), (3, 20))

    known.truncate_from_end(10)

    assert known.entries == ((1, 0),)
    assert known.is_changed


def test_truncating_beyond_the_last_epoch_changes_nothing() -> None:
    known = epochs((1, 0), (2, 10))

    known.truncate_from_end(11)
    known.truncate_from_start(0)

    assert known.entries == ((1, 0), (2, 10))
    assert not known.is_changed


@pytest.mark.parametrize(
    ("start_offset", "left"),
    [
        (5, ((1, 5), (2, 10), (3, 20))),
        (10, ((2, 10), (3, 20))),
        (15, ((2, 15), (3, 20))),
        (30, ((3, 30),)),
    ],
)
def test_the_first_epoch_begins_where_the_log_does(
    start_offset: int, left: tuple[tuple[int, int], ...]
) -> None:
    known = epochs((1, 0), (2, 10), (3, 20))

    known.truncate_from_start(start_offset)

    assert known.entries == left


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (-1, UNKNOWN),
        (1, EpochEnd(1, 5)),  # older than all we know: our first one begins at 5
        (2, EpochEnd(2, 10)),
        (3, EpochEnd(2, 10)),  # nobody wrote in it
        (4, EpochEnd(4, 20)),
        (6, EpochEnd(6, 33)),  # the latest one is still being written
        (7, UNKNOWN),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(epoch: int, end: EpochEnd) -> None:
    assert epochs((2, 5), (4, 10), (6, 20)).end_offset_for(epoch, log_end_offset=33) == end


def test_an_empty_log_knows_no_epoch() -> None:
    assert epochs().end_offset_for(0, log_end_offset=0) == UNKNOWN
    assert epochs().latest == -1


@pytest.mark.parametrize(("offset", "epoch"), [(4, -1), (5, 2), (9, 2), (10, 4), (99, 6)])
def test_a_record_was_written_in_the_epoch_that_began_before_it(offset: int, epoch: int) -> None:
    assert epochs((2, 5), (4, 10), (6, 20)).epoch_for(offset) == epoch
