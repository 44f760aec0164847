"""Who gets which producer id and epoch, and what becomes of the one before."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.coordinator.txn.records import transaction_record
from ottla.coordinator.txn.transaction import LAST_CLIENT_EPOCH, NO_TIMEOUT_MS, Producer, State
from ottla.errors import ErrorCode
from tests.txn_samples import P0, P1, TIMEOUT_MS, TXN, Desk

TWO_PHASES: dict[str, Any] = {"enable2_pc": True}
KEEP: dict[str, Any] = {"enable2_pc": True, "keep_prepared_txn": True}


def aged_desk(epoch: int = LAST_CLIENT_EPOCH) -> tuple[Desk, Producer]:
    """A producer in a late epoch."""
    desk = Desk()
    desk.producer()
    aged = replace(desk.now(), producer_epoch=epoch)
    desk.put(aged, transaction_record(TXN, aged))
    return desk, aged.writer


def test_the_first_producer_of_an_id_gets_a_fresh_id_and_epoch_0() -> None:
    assert Desk().producer() == Producer(1000, 0)


def test_a_new_producer_gets_the_next_epoch() -> None:
    desk = Desk()
    desk.producer()

    assert desk.producer() == Producer(1000, 1)


def test_a_producer_that_asks_twice_for_the_next_epoch_gets_it_once() -> None:
    desk = Desk()
    first = desk.producer()
    second = desk.producer(first)

    assert desk.producer(first) == second == Producer(1000, 1)


def test_a_retry_across_a_restart_is_fenced_because_nobody_remembers() -> None:
    desk = Desk()
    first = desk.producer()
    desk.producer(first)
    desk.started()

    granted = desk.init(first)

    assert granted is not None
    assert granted.error_code == ErrorCode.PRODUCER_FENCED


def test_a_retry_is_fenced_once_a_new_producer_has_come() -> None:
    desk = Desk()
    first = desk.producer()
    desk.producer(first)
    desk.producer()

    granted = desk.init(first)

    assert granted is not None
    assert granted.error_code == ErrorCode.PRODUCER_FENCED


def test_a_fenced_producer_cannot_abort_the_transaction_of_its_successor() -> None:
    desk = Desk()
    old = desk.producer()
    new = desk.producer()
    desk.add(new, P0)

    granted = desk.init(old)

    assert granted is not None
    assert granted.error_code == ErrorCode.PRODUCER_FENCED
    assert desk.now().state is State.ONGOING


def test_a_new_producer_gets_its_epoch_when_the_old_transaction_is_aborted() -> None:
    desk = Desk()
    old = desk.producer()
    desk.add(old, P0)
    refused = desk.init()
    assert refused is not None
    assert refused.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    (order,) = desk.orders
    assert (order.is_commit, order.producer_epoch) == (False, 1)

    desk.write_markers()

    assert desk.producer() == Producer(1000, 2)


def test_a_used_up_id_is_followed_by_a_fresh_one() -> None:
    desk, last = aged_desk()

    assert desk.producer(last) == Producer(1001, 0)
    assert desk.producer(last) == Producer(1001, 0)  # the answer was lost


def test_an_end_in_version_2_that_uses_up_the_id_names_its_successor() -> None:
    desk, last = aged_desk()
    desk.add(last, P0, version=5)

    ended = desk.end(last, is_commit=True, version=5)

    assert ended is not None
    successor = Producer(ended.producer_id, ended.producer_epoch)
    assert successor == Producer(1001, 0)
    assert desk.orders[0].producer_id == last.producer_id
    assert desk.orders[0].producer_epoch == LAST_CLIENT_EPOCH + 1
    # The successor is known to its client before it is known to us.
    assert desk.add(successor, P0, version=5) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    desk.write_markers()
    assert desk.end(last, is_commit=True, version=5) == ended
    assert desk.add(successor, P0, version=5) == [ErrorCode.NONE]


def test_while_no_producer_id_is_at_hand_producers_are_told_to_ask_again() -> None:
    desk, last = aged_desk()
    desk.add(last, P0, version=5)
    desk.has_ids = False
    before = desk.now()

    first = desk.init(transactional_id="another")
    fencing = desk.init()
    ended = desk.end(last, is_commit=True, version=5)
    desk.pass_time(TIMEOUT_MS + 20_000)

    assert first is not None
    assert fencing is not None
    assert ended is not None
    codes = {first.error_code, fencing.error_code, ended.error_code}
    assert codes == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert desk.now() == before
    desk.has_ids = True
    desk.pass_time(desk.config.timed_out_check_interval_ms)
    assert desk.now().state is State.PREPARE_ABORT


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_must_be_positive_and_within_the_limit(timeout_ms: int) -> None:
    granted = Desk().init(transaction_timeout_ms=timeout_ms)

    assert granted is not None
    assert granted.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_half_a_producer_is_no_producer() -> None:
    granted = Desk().init(Producer(1000, -1))

    assert granted is not None
    assert granted.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("fields", [TWO_PHASES, KEEP, {"keep_prepared_txn": True}])
def test_two_phases_must_be_allowed(fields: dict[str, Any]) -> None:
    granted = Desk().init(**fields)

    assert granted is not None
    assert granted.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_transaction_in_two_phases_never_times_out() -> None:
    desk = Desk(two_phase_commit_enable=True)
    producer = desk.producer(**TWO_PHASES)
    desk.add(producer, P0, version=5)
    assert desk.now().timeout_ms == NO_TIMEOUT_MS

    desk.pass_time(30 * 86_400_000)

    assert desk.now().state is State.ONGOING


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_prepared_transaction_is_ended_by_the_producer_it_is_handed_to(is_commit: bool) -> None:
    desk = Desk(two_phase_commit_enable=True)
    old = desk.producer(**TWO_PHASES)
    desk.add(old, P0, P1, version=5)

    granted = desk.init(**KEEP)
    assert granted is not None
    assert (granted.ongoing_txn_producer_id, granted.ongoing_txn_producer_epoch) == old
    new = Producer(granted.producer_id, granted.producer_epoch)
    desk.started()
    fenced = desk.end(old, is_commit=not is_commit, version=5)
    ended = desk.end(new, is_commit=is_commit, version=5)

    assert fenced is not None
    assert ended is not None
    assert fenced.error_code == ErrorCode.PRODUCER_FENCED
    assert ended.error_code == ErrorCode.NONE
    (order,) = desk.orders
    assert (order.is_commit, order.partitions) == (is_commit, (P0, P1))
    assert (order.producer_id, order.producer_epoch) == (old.producer_id, old.epoch + 1)
    desk.write_markers()
    assert desk.now().writer == (ended.producer_id, ended.producer_epoch)
    assert desk.end(new, is_commit=is_commit, version=5) == ended
    assert desk.add(desk.now().writer, P0, version=5) == [ErrorCode.NONE]


def test_a_prepared_transaction_takes_in_nothing_more() -> None:
    desk = Desk(two_phase_commit_enable=True)
    old = desk.producer(**TWO_PHASES)
    desk.add(old, P0, version=5)
    new = desk.producer(**KEEP)

    assert desk.add(old, P1, version=5) == [ErrorCode.PRODUCER_FENCED]
    assert desk.add(new, P1, version=5) == [ErrorCode.INVALID_TXN_STATE]
    assert desk.add(new, P0, verify_only=True, version=5) == [ErrorCode.INVALID_TXN_STATE]


def test_a_prepared_transaction_can_be_handed_on_again_and_by_a_used_up_id() -> None:
    desk = Desk(two_phase_commit_enable=True)
    old = desk.producer(**TWO_PHASES)
    desk.add(old, P0, version=5)
    first = desk.producer(**KEEP)
    aged = replace(desk.now(), next_producer_epoch=LAST_CLIENT_EPOCH)
    desk.put(aged, transaction_record(TXN, aged))

    second = desk.init(**KEEP)

    assert first == Producer(1000, 1)
    assert second is not None
    assert (second.producer_id, second.producer_epoch) == (1001, 0)
    assert (second.ongoing_txn_producer_id, second.ongoing_txn_producer_epoch) == old


def test_with_nothing_prepared_there_is_nothing_to_keep() -> None:
    desk = Desk(two_phase_commit_enable=True)
    desk.producer()

    granted = desk.init(**KEEP)

    assert granted is not None
    assert (granted.producer_epoch, granted.ongoing_txn_producer_id) == (1, -1)
    assert desk.now().state is State.EMPTY


def test_a_new_producer_that_keeps_nothing_aborts_what_was_prepared() -> None:
    desk = Desk(two_phase_commit_enable=True)
    old = desk.producer(**TWO_PHASES)
    desk.add(old, P0, version=5)
    kept = desk.producer(**KEEP)

    desk.init()
    desk.write_markers()
    new = desk.producer()

    assert new.epoch > kept.epoch
    assert desk.add(kept, P0, version=5) == [ErrorCode.PRODUCER_FENCED]


def test_a_client_of_version_1_keeps_the_epoch_with_which_it_ends_what_was_prepared() -> None:
    desk = Desk(two_phase_commit_enable=True)
    old = desk.producer(**TWO_PHASES)
    desk.add(old, P0)
    desk.producer(**KEEP)
    new = desk.producer(**KEEP)

    desk.end(new, is_commit=True)
    (order,) = desk.orders
    early = desk.end(new, is_commit=True)
    desk.write_markers()
    late = desk.end(new, is_commit=True)

    assert order.producer_epoch > old.epoch, "or the old producer could write on"
    assert early is not None
    assert late is not None
    assert early.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert late.error_code == ErrorCode.NONE
    assert desk.now().writer == new


def test_an_epoch_that_was_bumped_is_no_retry_once_a_transaction_is_open() -> None:
    desk = Desk()
    first = desk.producer()
    second = desk.producer(first)
    desk.add(second, P0)

    granted = desk.init(first)

    assert granted is not None
    assert granted.error_code == ErrorCode.PRODUCER_FENCED
    assert desk.now().state is State.ONGOING


def test_every_id_that_is_used_up_is_remembered_as_the_previous_one() -> None:
    desk, first = aged_desk()
    desk.producer(first)
    aged = replace(desk.now(), producer_epoch=LAST_CLIENT_EPOCH)
    desk.put(aged, transaction_record(TXN, aged))
    second = aged.writer

    third = desk.producer(second)

    assert third == Producer(1002, 0)
    assert desk.producer(second) == third
    assert desk.now().previous_producer_id == third.producer_id


def test_who_takes_over_a_prepared_transaction_does_not_give_it_a_timeout() -> None:
    desk = Desk(two_phase_commit_enable=True)
    desk.add(desk.producer(**TWO_PHASES), P0, version=5)

    desk.producer(keep_prepared_txn=True)
    desk.pass_time(30 * 86_400_000)

    assert desk.now().state is State.ONGOING
