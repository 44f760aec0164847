"""Batches that the I/O thread builds: in order, one ahead, and nobody waits for ever."""

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.client.producer.lines import Accumulator
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


class Memory(SimpleNamespace):
    """Lines, as far as a workshop looks at them."""

    used_bytes = 0

    def reserve(self, size_bytes: int) -> bool:
        has_room = self.room.pop(0) if self.room else True
        self.used_bytes += size_bytes if has_room else 0
        return bool(has_room)

    def release(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes


@pytest.fixture
def memory(room: list[bool]) -> Memory:
    return Memory(room=room)


@pytest.fixture
def workshop(memory: Memory) -> Workshop:
    return Workshop(threading.Lock(), cast(Accumulator, memory))


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes an order back, where a test does not say so."""
    monkeypatch.setattr("ottla.client.producer.workshop._PATIENCE_S", PATIENCE_S)


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


def test_callers_take_turns(workshop: Workshop) -> None:
    made: list[Any] = []
    callers = [Caller(workshop, Order(numbered(made, 3), 1)) for _ in range(2)]
    while workshop.build_next():
        made[-1].has_left = True
    for caller in callers:
        caller.goes_on()
    assert [built.number for built in made] == [0, 0, 1, 1, 2, 2]


def test_a_batch_that_does_not_leave_holds_up_nobody_else(workshop: Workshop) -> None:
    stuck: list[Any] = []
    made: list[Any] = []
    waiting = Caller(workshop, Order(numbered(stuck, 3), 1))
    assert workshop.build_next()
    caller = Caller(workshop, Order(numbered(made, 2), 1))
    while workshop.build_next():
        made[-1].has_left = True
    caller.goes_on()
    assert (len(stuck), len(made)) == (1, 2)
    assert waiting.waits
    workshop.close(ClosedError("over"))
    waiting.goes_on()


def test_a_caller_takes_back_what_nothing_comes_of(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.producer.workshop._PATIENCE_S", 0.001)
    made: list[Any] = []
    batches = numbered(made, 3)
    order = Order(batches, 100)
    order.in_hand.acquire()
    caller = Caller(workshop, order)
    time.sleep(0.05)
    assert caller.waits, "one is being built"
    order.in_hand.release()
    caller.goes_on()
    assert not workshop.build_next()
    assert [built.number for built in batches] == [0, 1, 2]


def test_room_is_kept_for_a_batch_while_it_is_built(workshop: Workshop, memory: Memory) -> None:
    seen: list[int] = []

    def looking() -> Iterator[Any]:
        seen.append(memory.used_bytes)
        yield Built(number=0, has_left=True)
        seen.append(memory.used_bytes)
        raise ZeroDivisionError

    caller = Caller(workshop, Order(looking(), 100))
    assert workshop.build_next()
    assert memory.used_bytes == 0
    assert not workshop.build_next()
    assert (seen, memory.used_bytes) == ([100, 100], 0)
    caller.goes_on()


def test_those_who_are_interrupted_are_told_and_others_may_come(workshop: Workshop) -> None:
    made: list[Any] = []
    caller = Caller(workshop, Order(numbered(made, 3), 100))
    workshop.interrupt(ClosedError("the transaction is over"))
    caller.goes_on()
    assert isinstance(caller.error, ClosedError)
    after = Caller(workshop, Order(numbered(made, 1), 100))
    assert workshop.build_next()
    made[0].has_left = True
    assert not workshop.build_next()
    after.goes_on()
    assert after.error is None


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
