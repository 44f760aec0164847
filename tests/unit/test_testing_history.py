"""The history checker finds every planted anomaly, and nothing in clean histories."""

import random
from dataclasses import replace

import pytest

from ottla.testing.cycles import cycles
from ottla.testing.history import (
    REBALANCES,
    Anomaly,
    Operation,
    Outcome,
    Polled,
    Sent,
    check,
)

PARTITIONS = ("p0", "p1", "p2")
PROCESSES = ("ada", "bob", "eve", "joe", "kim")

OK, FAILED, UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN


class Model:
    """A perfect log, its clients, and the history they leave."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        # `None` stands for what takes an offset and is never seen, like a transaction's marker.
        self._logs: dict[str, list[int | None]] = {name: [] for name in PARTITIONS}
        self._positions: dict[tuple[str, str], int] = {}
        self._value = 0
        self.history: list[Operation] = []

    def run(self, operation_count: int) -> list[Operation]:
        for _ in range(operation_count):
            act = self._send if self._rng.random() < 0.5 else self._poll
            self.history.append(act(self._rng.choice(PROCESSES)))
        for partition in PARTITIONS:
            polls = self._values(partition, 0, len(self._logs[partition]))
            self.history.append(Operation(process=f"final {partition}", polls=polls))
        return self.history

    def _send(self, process: str) -> Operation:
        outcome = self._rng.choices([OK, FAILED, UNKNOWN], [93, 5, 2])[0]
        is_written = outcome is OK or (outcome is UNKNOWN and self._rng.random() < 0.5)
        sends = []
        for _ in range(self._rng.randint(1, 3)):
            self._value += 1
            log = self._logs[partition := self._rng.choice(PARTITIONS)]
            offset = len(log) if outcome is OK else None
            log.append(self._value if is_written else None)
            sends.append(Sent(partition, self._value, offset))
        return Operation(process=process, outcome=outcome, sends=tuple(sends), is_transaction=True)

    def _poll(self, process: str) -> Operation:
        polls: tuple[Polled, ...] = ()
        for partition in PARTITIONS:
            start = self._positions.get((process, partition), 0)
            end = min(len(self._logs[partition]), start + self._rng.randint(0, 20))
            self._positions[process, partition] = end
            polls += self._values(partition, start, end)
        return Operation(process=process, polls=polls)

    def _values(self, partition: str, start: int, end: int) -> tuple[Polled, ...]:
        log = self._logs[partition]
        return tuple(
            Polled(partition, value, offset)
            for offset in range(start, end)
            if (value := log[offset]) is not None
        )


def clean_history(seed: int = 1) -> list[Operation]:
    return Model(seed).run(600)


def found(history: list[Operation]) -> set[Anomaly]:
    return {finding.anomaly for finding in check(history)}


def acknowledged(history: list[Operation]) -> list[Sent]:
    return [sent for operation in history if operation.outcome is OK for sent in operation.sends]


def without(history: list[Operation], partition: str, value: object) -> list[Operation]:
    """The same, but nobody polled `value`."""
    return [
        replace(
            operation,
            polls=tuple(
                polled
                for polled in operation.polls
                if (polled.partition, polled.value) != (partition, value)
            ),
        )
        for operation in history
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_clean_history_has_no_findings(seed: int) -> None:
    assert check(clean_history(seed)) == []


def test_an_acknowledged_value_that_only_later_ones_followed_is_lost() -> None:
    history = clean_history()
    sent = acknowledged(history)[50]
    findings = check(without(history, sent.partition, sent.value))
    assert {finding.anomaly for finding in findings} >= {Anomaly.LOST_WRITE, Anomaly.UNSEEN}
    assert str(sent.value) in str(findings[0])


def test_the_last_value_may_be_unseen_without_being_lost() -> None:
    history = clean_history()
    last = [sent for sent in acknowledged(history) if sent.partition == "p0"][-1]
    later = {
        polled.value
        for operation in history
        for polled in operation.polls
        if polled.partition == "p0" and last.offset is not None and polled.offset > last.offset
    }
    for value in [last.value, *later]:
        history = without(history, "p0", value)
    assert Anomaly.UNSEEN in found(history)
    assert Anomaly.LOST_WRITE not in found(history)


def test_what_was_not_drained_is_not_missed() -> None:
    history = [Operation(process="ada", sends=(Sent("p", 1, 0),))]
    assert found(history) == {Anomaly.UNSEEN}
    assert check(history, is_drained=False) == []


def test_what_retention_removed_is_not_missed() -> None:
    history = [
        Operation(process="ada", sends=(Sent("p", 1, 0), Sent("p", 2, 1), Sent("p", 3, 2))),
        Operation(process="bob", polls=(Polled("p", 3, 2),)),
    ]
    assert check(history, start_offsets={"p": 2}) == []
    assert [finding.detail for finding in check(history, start_offsets={"p": 1})] == [
        "2 at 1, later ones were seen",
        "2 was never seen",
    ]


def poll_of(partition: str, value: object, offset: int) -> Operation:
    return Operation(process="stranger", polls=(Polled(partition, value, offset),))


def test_one_value_at_two_offsets_is_a_duplicate() -> None:
    history = clean_history()
    sent = acknowledged(history)[50]
    assert Anomaly.DUPLICATE in found([*history, poll_of(sent.partition, sent.value, 10**6)])


def test_two_values_at_one_offset_are_inconsistent() -> None:
    history = clean_history()
    sent = acknowledged(history)[50]
    assert sent.offset is not None
    planted = [*history, poll_of(sent.partition, "other", sent.offset)]
    assert Anomaly.INCONSISTENT_OFFSETS in found(planted)


def test_a_value_that_nobody_sent_is_a_phantom() -> None:
    assert found([*clean_history(), poll_of("p0", "ghost", 10**6)]) == {Anomaly.PHANTOM}


def test_a_value_whose_sending_failed_must_not_be_seen() -> None:
    history = clean_history()
    failed = next(op for op in history if op.outcome is FAILED).sends[0]
    planted = [*history, poll_of(failed.partition, failed.value, 10**6)]
    assert found(planted) == {Anomaly.ABORTED_READ}


def test_a_transaction_of_unknown_outcome_is_seen_whole_or_not_at_all() -> None:
    parts = (Sent("p", "one"), Sent("q", "two"))
    unknown = Operation(process="ada", outcome=UNKNOWN, sends=parts, is_transaction=True)
    assert check([unknown]) == []
    assert found([unknown, poll_of("p", "one", 0)]) == {Anomaly.UNSEEN}
    assert check([replace(unknown, is_transaction=False), poll_of("p", "one", 0)]) == []


def three_values(*polls: Operation) -> list[Operation]:
    sends = tuple(Sent("p", value, value) for value in range(3))
    final = Operation(process="final", polls=tuple(Polled("p", v, v) for v in range(3)))
    return [Operation(process="ada", sends=sends), *polls, final]


def polling(*values: int, outcome: Outcome = OK, rebalanced: bool = False) -> Operation:
    return Operation(
        process="bob",
        outcome=outcome,
        polls=tuple(Polled("p", value, value) for value in values),
        rebalanced=("p",) if rebalanced else (),
    )


@pytest.mark.parametrize(
    ("polls", "anomaly"),
    [
        ([polling(0, 2)], Anomaly.INTERNAL_POLL_SKIP),
        ([polling(1, 0)], Anomaly.INTERNAL_POLL_NONMONOTONIC),
        ([polling(0), polling(2)], Anomaly.POLL_SKIP),
        ([polling(0, 1), polling(1, 2)], Anomaly.POLL_NONMONOTONIC),
        ([polling(2), polling(0)], Anomaly.POLL_NONMONOTONIC),
    ],
)
def test_a_process_polls_each_value_once_and_in_order(
    polls: list[Operation], anomaly: Anomaly
) -> None:
    assert found(three_values(*polls)) == {anomaly}


@pytest.mark.parametrize(
    "polls",
    [
        [polling(0, 1), polling(2)],
        [polling(0), polling(1, outcome=FAILED), polling(1, 2)],
        [polling(0), polling(1, outcome=UNKNOWN), polling(1, 2)],
        [polling(0), polling(1, outcome=UNKNOWN), polling(2)],
        [polling(0), polling(2, rebalanced=True)],
        [polling(2), Operation(process="bob", assigned=()), polling(0)],
    ],
)
def test_a_process_may_go_back_for_a_reason(polls: list[Operation]) -> None:
    assert check(three_values(*polls)) == []


def test_an_assignment_that_keeps_a_partition_keeps_its_position() -> None:
    kept = Operation(process="bob", assigned=("p",))
    assert found(three_values(polling(2), kept, polling(0))) == {Anomaly.POLL_NONMONOTONIC}


def test_what_is_allowed_is_not_reported() -> None:
    assert check(three_values(polling(2), polling(0)), allow=REBALANCES) == []


def test_a_later_send_has_a_later_offset() -> None:
    drain = poll_of("p", "a", 1), poll_of("p", "b", 0)
    apart = [
        Operation(process="ada", sends=(Sent("p", "a", 1),)),
        Operation(process="ada", sends=(Sent("p", "b", 0),)),
    ]
    together = [Operation(process="ada", sends=(Sent("p", "a", 1), Sent("p", "b", 0)))]
    strangers = [replace(drain[1], process="x"), replace(drain[0], process="y")]
    assert found([*apart, *strangers]) == {Anomaly.SEND_NONMONOTONIC}
    assert found([*together, *strangers]) == {Anomaly.INTERNAL_SEND_NONMONOTONIC}


def test_transactions_do_not_see_each_other_in_a_circle() -> None:
    planted = [
        Operation(process="x", sends=(Sent("p", "a", 0),), polls=(Polled("q", "b", 0),)),
        Operation(process="y", sends=(Sent("q", "b", 0),), polls=(Polled("p", "a", 0),)),
    ]
    assert found([*clean_history(), *planted]) == {Anomaly.CYCLE}


def test_a_transaction_does_not_see_its_own_sends() -> None:
    own = Operation(process="x", sends=(Sent("p", "a", 0),), polls=(Polled("p", "a", 0),))
    assert found([own]) == {Anomaly.PRECOMMITTED_READ}


def test_a_value_that_was_sent_twice_proves_nothing() -> None:
    twice = Operation(process="x", sends=(Sent("p", "a", 0), Sent("p", "a", 1)))
    with pytest.raises(ValueError, match="'a' was sent to p twice"):
        check([twice])


def test_cycles_are_found_apart_and_without_recursion() -> None:
    long = {point: [point + 1] for point in range(5_000)} | {5_000: [0]}
    others = {6_000: [6_001, 6_002], 6_001: [6_000], 6_002: [6_003], 6_003: []}
    found_cycles = list(cycles(long | others))
    assert [len(cycle) for cycle in found_cycles] == [5_001, 2]
    assert found_cycles[1] == {6_000, 6_001}
