"""The memory of half-arrived requests: who waits for whom, and that somebody always goes on."""

from ottla.broker.read_budget import ReadBudget


class Connection:
    def __init__(self) -> None:
        self.is_waiting = False

    def wait_for_memory(self) -> None:
        self.is_waiting = True

    def go_on(self) -> None:
        self.is_waiting = False


def connections(count: int) -> list[Connection]:
    return [Connection() for _ in range(count)]


def waiting(among: list[Connection]) -> list[int]:
    return [index for index, connection in enumerate(among) if connection.is_waiting]


def test_nobody_waits_while_there_is_room() -> None:
    budget, (one, other) = ReadBudget(100), connections(2)
    budget.report(one, 60)
    budget.report(other, 40)
    assert waiting([one, other]) == []


def test_who_goes_over_the_limit_waits() -> None:
    budget, (one, other) = ReadBudget(100), connections(2)
    budget.report(one, 60)
    budget.report(other, 41)
    assert waiting([one, other]) == [1]


def test_the_first_one_may_always_finish() -> None:
    budget, (one, other) = ReadBudget(100), connections(2)
    budget.report(one, 60)
    budget.report(other, 50)
    budget.report(one, 500)
    assert waiting([one, other]) == [1]


def test_those_who_wait_go_on_when_there_is_room_again() -> None:
    budget, (one, other, third) = ReadBudget(100), connections(3)
    budget.report(one, 90)
    budget.report(other, 20)
    budget.report(third, 20)
    assert waiting([one, other, third]) == [1, 2]
    budget.report(one, 0)
    assert waiting([one, other, third]) == []


def test_the_next_in_line_goes_on_even_if_there_is_no_room() -> None:
    budget, (one, other, third) = ReadBudget(100), connections(3)
    budget.report(one, 90)
    budget.report(other, 120)
    budget.report(third, 120)
    budget.report(one, 0)
    assert waiting([one, other, third]) == [2]


def test_a_connection_that_ends_is_forgotten() -> None:
    budget, (one, other) = ReadBudget(100), connections(2)
    budget.report(one, 90)
    budget.report(other, 90)
    budget.report(other, 0)
    budget.report(one, 0)
    assert budget.total_bytes == 0


def test_without_a_limit_nobody_waits() -> None:
    budget, (one, other) = ReadBudget(0), connections(2)
    budget.report(one, 10**12)
    budget.report(other, 10**12)
    assert waiting([one, other]) == []
