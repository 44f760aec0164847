"""The sink's protocol, step by step: what it asks for after which answer."""

from collections.abc import Generator
from typing import Any

import pytest

from ottla.spark.sink.decisions import Decision, Identity, Participant
from ottla.spark.sink.protocol import (
    AfterLoss,
    Current,
    Decide,
    End,
    Fence,
    Journal,
    LostError,
    Open,
    Plan,
    Read,
    Settle,
    Step,
    SupersededError,
    Writers,
    abort,
    commit,
    commit_unrecorded,
    plan,
)

MINE = Identity("ottla-eos.s", 1, 4)
NEWER = Identity("ottla-eos.s", 1, 6)
STRAY = Identity("ottla-eos.s/w.9", 99, 0)
NOTHING = Journal(None, is_settled=True, is_whole=True)


def participant(task: int) -> Participant:
    return Participant(Identity(f"ottla-eos.s/w.{task}", 10 + task, 0), task, 5)


def decision(task_count: int) -> Decision:
    return Decision(
        sink_id="s",
        query_id="q",
        batch_id=3,
        round=MINE,
        participants=tuple(participant(task) for task in range(task_count)),
        offsets_digest=None,
        decided_ms=0,
        duration_ms=0,
    )


NONE, ONE, TWO = decision(0), decision(1), decision(2)
A, B = participant(0).identity, participant(1).identity


def played(steps: Generator[Step, Any, Any], *answers: tuple[Step, Any]) -> Any:
    """Perform steps: each must be the one that is expected, and gets its answer."""
    answer: Any = None
    expected = iter(answers)
    while True:
        try:
            step = steps.throw(answer) if isinstance(answer, Exception) else steps.send(answer)
        except StopIteration as done:
            assert list(expected) == []
            return done.value
        wanted, answer = next(expected)
        assert step == wanted


def test_a_plan_takes_over_and_finds_nothing_to_do() -> None:
    found = played(plan(), (Fence(), MINE), (Open(), ()), (Read(), NOTHING))

    assert found == Plan(MINE, None)


def test_a_plan_carries_out_what_is_decided_before_it_aborts_the_rest() -> None:
    found = played(
        plan(),
        (Fence(), MINE),
        (Open(), (A, STRAY)),
        (Read(), Journal(TWO, is_settled=False, is_whole=True)),
        (End((A, B), commits=True), ()),
        (Settle(TWO), None),
        (Read(waits=True), Journal(TWO, is_settled=True, is_whole=True)),
        (Current(), MINE),
        (End((STRAY,), commits=False), ()),
    )

    assert found == Plan(MINE, TWO)


def test_a_plan_aborts_ids_of_the_last_decision_that_were_used_again() -> None:
    again = Identity(A.transactional_id, A.producer_id, 7)

    played(
        plan(),
        (Fence(), MINE),
        (Open(), (again,)),
        (Read(), Journal(TWO, is_settled=True, is_whole=True)),
        (Current(), MINE),
        (End((again,), commits=False), ()),
    )


def test_a_plan_ends_an_open_decision_of_one_phase_before_it_reads_on() -> None:
    played(
        plan(),
        (Fence(), MINE),
        (Open(), ()),
        (Read(), Journal(None, is_settled=True, is_whole=False)),
        (Open(), (A,)),
        (Writers((A,)), (A,)),
        (Current(), MINE),
        (End((A,), commits=False), ()),
        (Read(waits=True), NOTHING),
        (Current(), MINE),
        (End((A,), commits=False), ()),
    )


def test_a_plan_aborts_nothing_if_a_newer_one_has_begun() -> None:
    with pytest.raises(SupersededError, match="took over"):
        played(plan(), (Fence(), MINE), (Open(), (STRAY,)), (Read(), NOTHING), (Current(), NEWER))


def lost_half() -> tuple[tuple[Step, Any], ...]:
    """A plan that finds that the second of two transactions is gone."""
    return (
        (Fence(), MINE),
        (Open(), ()),
        (Read(), Journal(TWO, is_settled=False, is_whole=True)),
        (End((A, B), commits=True), (B,)),
    )


@pytest.mark.parametrize("after_loss", [None, AfterLoss(2, rewrites=True)])
def test_what_is_lost_is_told_with_what_to_do(after_loss: AfterLoss | None) -> None:
    with pytest.raises(LostError, match=r"tasks 1; 5 of 10 rows.*rewrite 3.*skip 3"):
        played(plan(after_loss), *lost_half())


def test_a_batch_that_lost_a_part_is_written_again_if_the_user_says_so() -> None:
    found = played(
        plan(AfterLoss(3, rewrites=True)),
        *lost_half(),
        (Settle(TWO, is_void=True), None),
        (Read(waits=True), NOTHING),
    )

    assert not found.covers("q", 3)


def test_a_batch_that_lost_a_part_is_left_so_if_the_user_says_so() -> None:
    found = played(
        plan(AfterLoss(3, rewrites=False)),
        *lost_half(),
        (Settle(TWO), None),
        (Read(waits=True), Journal(TWO, is_settled=True, is_whole=True)),
    )

    assert found.covers("q", 3)


@pytest.mark.parametrize(
    ("query_id", "batch_id", "covers"),
    [("q", 2, True), ("q", 3, True), ("q", 4, False), ("another", 3, False)],
)
def test_a_plan_knows_which_batches_are_written(query_id: str, batch_id: int, covers: bool) -> None:
    assert Plan(MINE, TWO).covers(query_id, batch_id) is covers


CLOSING: tuple[tuple[Step, Any], ...] = ((Fence(only=MINE), NEWER), (Open(), ()))


def test_two_transactions_are_committed_after_the_decision_is() -> None:
    played(
        commit(TWO),
        (Decide(MINE, TWO), None),
        (End((MINE,), commits=True), ()),
        (End((A, B), commits=True), ()),
        (Settle(TWO), None),
        *CLOSING,
    )


def test_one_transaction_has_its_decision_inside() -> None:
    played(
        commit(ONE),
        (Decide(A, ONE), None),
        (Current(), MINE),
        (End((A,), commits=True), ()),
        *CLOSING,
    )


def test_a_batch_without_rows_is_decided_too() -> None:
    played(commit(NONE), (Decide(MINE, NONE), None), (End((MINE,), commits=True), ()), *CLOSING)


def test_the_end_of_a_round_aborts_what_it_left_behind() -> None:
    played(
        commit(ONE),
        (Decide(A, ONE), None),
        (Current(), MINE),
        (End((A,), commits=True), ()),
        (Fence(only=MINE), NEWER),
        (Open(), (A, STRAY)),
        (Current(), NEWER),
        (End((STRAY,), commits=False), ()),
    )


def test_a_committed_batch_is_no_failure_because_another_driver_came() -> None:
    played(
        commit(ONE),
        (Decide(A, ONE), None),
        (Current(), MINE),
        (End((A,), commits=True), ()),
        (Fence(only=MINE), SupersededError("newer")),
    )


def test_a_driver_that_was_replaced_decides_nothing() -> None:
    with pytest.raises(SupersededError):
        played(
            commit(ONE),
            (Decide(A, ONE), None),
            (Current(), NEWER),
            (End((A,), commits=False), ()),
        )
    with pytest.raises(SupersededError):
        played(commit(TWO), (Decide(MINE, TWO), None), (End((MINE,), commits=True), (MINE,)))


def test_an_abort_before_the_commit_ends_what_was_written() -> None:
    assert played(abort(None, [A]), (End((A,), commits=False), ())) is True


def test_an_abort_leaves_what_is_decided() -> None:
    told = played(
        abort(TWO, [A, B]),
        (Fence(only=MINE), NEWER),
        (Read(waits=True), Journal(TWO, is_settled=False, is_whole=True)),
    )

    assert told is False


def test_an_abort_of_what_is_not_decided_ends_it() -> None:
    told = played(
        abort(TWO, [A, B]),
        (Fence(only=MINE), NEWER),
        (Read(waits=True), NOTHING),
        (End((A, B), commits=False), ()),
    )

    assert told is True


def test_an_abort_leaves_everything_to_a_newer_driver() -> None:
    assert played(abort(TWO, [A, B]), (Fence(only=MINE), SupersededError("newer"))) is False


def test_an_abort_of_one_transaction_finds_out_by_trying() -> None:
    assert played(abort(ONE, [A]), (End((A,), commits=False), (A,))) is False


def test_a_job_without_a_name_tells_what_is_missing() -> None:
    with pytest.raises(LostError, match="1 of 2 transactions"):
        played(
            commit_unrecorded([participant(0), participant(1)]),
            (End((A, B), commits=True), (B,)),
        )
