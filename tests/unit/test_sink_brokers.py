"""What a process keeps of its sinks: connections are closed when nobody uses them any more."""

import threading
from collections.abc import Iterator

import pytest

from ottla.client.faces import Driver
from ottla.spark.sink.brokers import MAX_KEPT, Brokers, close_kept, kept_drivers
from ottla.spark.sink.decisions import Names
from ottla.spark.sink.protocol import Steps

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    close_kept()
    yield
    close_kept()


def sink(number: int, *, client: int | None = None) -> Brokers:
    """One of many sinks; by default with options of its own, so with connections of its own."""
    options = {"client.id": f"client-{number if client is None else client}"}
    return Brokers.kept(options, Names(f"sink-{number}"))


def driver_of(brokers: Brokers) -> Driver:
    return brokers._driver


def test_a_process_with_many_sinks_closes_the_connections_of_those_it_used_longest_ago() -> None:
    first = sink(0)
    others = [sink(number) for number in range(1, MAX_KEPT)]
    assert sink(0) is first
    for number in range(MAX_KEPT, MAX_KEPT + 10):
        sink(number)

    assert len(kept_drivers()) == MAX_KEPT
    assert not driver_of(first).engine.is_closed
    assert [driver_of(other).engine.is_closed for other in others[:12]] == [True] * 10 + [False] * 2


def test_connections_stay_open_for_as_long_as_one_of_their_sinks_is_kept() -> None:
    old = [sink(number, client=0) for number in range(2)]
    for number in range(2, MAX_KEPT + 1):
        sink(number)
    assert driver_of(old[0]) is driver_of(old[1])
    assert not driver_of(old[1]).engine.is_closed

    sink(MAX_KEPT + 1)
    assert driver_of(old[1]).engine.is_closed


def test_a_sink_that_is_at_work_keeps_its_connections() -> None:
    entered, may_end = threading.Event(), threading.Event()

    def works() -> Steps[str]:
        yield from ()
        entered.set()
        assert may_end.wait(PATIENCE_S)
        return "done"

    busy = sink(0)
    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(busy.run("plan", works())))
    thread.start()
    try:
        assert entered.wait(PATIENCE_S)
        for number in range(1, MAX_KEPT + 2):
            sink(number)
        assert not driver_of(busy).engine.is_closed
    finally:
        may_end.set()
        thread.join()
    assert results == ["done"]
