"""Batches that the I/O thread builds: in order, one ahead, and nobody waits for ever."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.producer.workshop import Order, Workshop
from ottla.errors import ClosedError

PATIENCE_S = 30.0


class Built(SimpleNamespace):
    """A batch, as far as a workshop looks at it."""

    has_left = False


def numbered(made: list[Any], count: int) -> Iterator[Any]:
    for number in range(count):
        made.append(Built(number=number))
        yield made[-1]


class Caller:
    """Somebody who has an order carried out, in a thread of his own."""

    def __init__(self, workshop: Workshop, order: Order) -> None:
        self.error: BaseException | None = None
        self._is_waiting = threading.Event()
        self._thread = threading.Thread(target=self._call, args=(workshop, order))
        self._thread.start()
        self._is_waiting.wait(PATIENCE_S)

    def _call(self, workshop: Workshop, order: Order) -> None:
        try:
            workshop.carry_out(order, self._is_waiting.set)
        except ClosedError as error:
            self.error = error
        except ZeroDivisionError as error:
            self.error = error

    def goes_on(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()


@pytest.fixture
def room() -> list[bool]:
    """Whether there is memory, each time that somebody asks; then always."""
    return []


@pytest.fixture
def workshop(room: list[bool]) -> Workshop:
    return Workshop(threading.Lock(), lambda size_bytes: room.pop(0) if room else True)


def test_one_batch_is_built_ahead_and_the_next_when_it_has_left(workshop: Workshop) -> None:
    made: list[Any] = []
    caller = Caller(workshop, Order(numbered(made, 3), 100))
    assert workshop.build_next()
    assert not workshop.build_next()
    assert len(made) == 1
    made[0].has_left = True
    assert workshop.build_next()
    made[1].has_left = True
    assert workshop.build_next()
    assert caller.waits
    made[2].has_left = True
    assert not workshop.build_next()
    caller.goes_on()
    assert caller.error is None
    assert [built.number for built in made] == [0, 1, 2]


def test_orders_are_carried_out_one_after_the_other(workshop: Workshop) -> None:
    first, second = [], []  # type: ignore[var-annotated]
    callers = [
        Caller(workshop, Order(numbered(first, 2), 1)),
        Caller(workshop, Order(numbered(second, 1), 1)),
    ]
    while workshop.build_next():
        (first + second)[-1].has_left = True
        assert not second or len(first) == 2
    for caller in callers:
        caller.goes_on()
    assert (len(first), len(second)) == (2, 1)


def test_without_memory_the_caller_goes_on_with_what_is_left(
    workshop: Workshop, room: list[bool]
) -> None:
    made: list[Any] = []
    batches = numbered(made, 3)
    room[:] = [True, False]
    caller = Caller(workshop, Order(batches, 100))
    assert workshop.build_next()
    made[0].has_left = True
    assert not workshop.build_next()
    caller.goes_on()
    assert [built.number for built in batches] == [1, 2]


def test_what_goes_wrong_is_raised_where_the_caller_is(workshop: Workshop) -> None:
    def broken() -> Iterator[Any]:
        yield Built(number=1 / 0)

    caller = Caller(workshop, Order(broken(), 100))
    assert not workshop.build_next()
    caller.goes_on()
    assert isinstance(caller.error, ZeroDivisionError)
    assert not workshop.build_next()


def test_who_waits_is_told_of_the_end_and_so_is_who_comes_after_it(workshop: Workshop) -> None:
    made: list[Any] = []
    caller = Caller(workshop, Order(numbered(made, 3), 100))
    assert workshop.build_next()
    workshop.close(ClosedError("the producer is closed"))
    caller.goes_on()
    assert isinstance(caller.error, ClosedError)
    with pytest.raises(ClosedError):
        workshop.carry_out(Order(numbered(made, 1), 100), lambda: None)
    assert not workshop.build_next()
    assert len(made) == 1


def test_a_caller_who_is_interrupted_leaves_no_order(workshop: Workshop) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    made: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        workshop.carry_out(Order(numbered(made, 3), 100), interrupted)
    assert not workshop.build_next()
    assert made == []
