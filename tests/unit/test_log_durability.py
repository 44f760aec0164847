"""Which files a sync covers, in which order, and when those that it was the last for are closed."""

import pytest

from ottla.log.durability import SyncLedger
from ottla.ports import File, Folder
from ottla.testing.disk import SimDisk


def opened(*names: str) -> list[File]:
    disk = SimDisk()
    return [disk.open(name, create=True) for name in names]


def is_closed(file: File) -> bool:
    try:
        file.size_bytes()
    except OSError:
        return True
    return False


def test_a_file_that_is_written_for_the_last_time_is_closed_when_it_is_durable() -> None:
    ledger = SyncLedger(0)
    (index,) = opened("index")
    ledger.note(index, close_after=True)

    assert ledger.begin(1) == [index]
    assert not is_closed(index)
    ledger.finish(1)

    assert is_closed(index)
    assert ledger.synced_offset == 1


def test_no_file_is_synced_before_an_older_one() -> None:
    ledger = SyncLedger(0)
    old, new = opened("old", "new")
    ledger.note(old)
    ledger.begin(1)
    ledger.note(new)

    assert ledger.begin(2) == [old, new], "the first sync is not over, and may come to nothing"


def test_a_file_stays_open_while_another_sync_needs_it() -> None:
    ledger = SyncLedger(0)
    (index,) = opened("index")
    ledger.note(index, close_after=True)
    ledger.begin(1)
    assert ledger.begin(2) == [index]

    ledger.finish(1)
    assert not is_closed(index)
    ledger.finish(2)
    assert is_closed(index)


def test_what_is_durable_is_done_with_although_syncs_always_overlap() -> None:
    ledger = SyncLedger(0)
    batches, index = opened("batches", "index")
    folder = Folder(SimDisk(), "orders-0")
    ledger.note(folder)
    ledger.note(index, close_after=True)
    ledger.note(batches)
    assert ledger.begin(1) == [folder, index, batches]
    ledger.note(batches)
    assert ledger.begin(2) == [folder, index, batches]

    ledger.finish(1)
    assert not ledger.owes(folder)
    assert not is_closed(index), "the second sync has it still"
    ledger.note(batches)
    assert ledger.begin(3) == [batches]
    ledger.finish(2)

    assert is_closed(index)


def test_a_file_of_a_sync_that_came_to_nothing_is_closed_by_the_next() -> None:
    ledger = SyncLedger(0)
    batches, index = opened("batches", "index")
    ledger.note(index, close_after=True)
    ledger.begin(1)
    ledger.begin(2)
    ledger.finish(1)
    ledger.note(batches)
    assert ledger.begin(3) == [batches]

    ledger.finish(3)  # the second one was given up

    assert is_closed(index)


def test_a_sync_that_is_over_says_nothing_of_what_came_after_it_began() -> None:
    ledger = SyncLedger(0)
    log, late = opened("log", "late")
    ledger.note(log)
    ledger.begin(1)
    ledger.note(late)

    ledger.finish(1)

    assert ledger.synced_offset == 1
    assert ledger.begin(2) == [late]


@pytest.mark.parametrize("is_known", [True, False], ids=["twice", "never begun"])
def test_the_end_of_a_sync_that_nobody_waits_for_changes_nothing(is_known: bool) -> None:
    ledger = SyncLedger(5)
    if is_known:
        ledger.begin(7)
        ledger.finish(7)
    before = ledger.synced_offset

    ledger.finish(9)

    assert ledger.synced_offset == before


def test_nobody_syncs_what_was_given_up() -> None:
    ledger = SyncLedger(0)
    log, index = opened("log", "index")
    ledger.note(log)
    ledger.note(index, close_after=True)

    ledger.abandon()

    assert (is_closed(log), is_closed(index)) == (False, True), "the log is its segment's to close"
    assert ledger.begin(1) == []
