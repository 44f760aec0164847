"""Every batch is in the log once, however drivers die, overlap and come late."""

from contextlib import suppress
from itertools import islice, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.spark.sink.protocol import LostError, SupersededError
from tests.sink_model import (
    Cluster,
    Driver,
    FencedError,
    HiddenError,
    Moves,
    Spark,
    wanted_rows,
)

MAX_MOVES = 400

batch_lists = st.lists(st.sampled_from([0, 1, 1, 2, 4]), min_size=1, max_size=4)
accidents = st.lists(
    st.tuples(
        st.sampled_from(["go", "go", "go", "go", "loser", "loser", "kill", "start"]),
        st.integers(0, 3),
    ),
    max_size=MAX_MOVES,
)
bursts = st.lists(
    st.tuples(
        st.sampled_from(["go", "go", "loser", "kill", "start"]),
        st.integers(0, 3),
        st.integers(1, 25),
    ),
    max_size=30,
)


class World:
    """Drivers that take turns, as they are told to."""

    def __init__(self, batches: list[int], *, is_version_2: bool) -> None:
        self.batches = batches
        self.cluster = Cluster(is_version_2=is_version_2)
        self.spark = Spark()
        self.drivers: list[Driver] = []
        self.losers: list[Moves] = []
        self.begun_count = 0

    def begin(self) -> Driver:
        self.begun_count += 1
        driver = Driver(f"driver{self.begun_count}", self.cluster, self.spark, self.batches)
        self.drivers.append(driver)
        return driver

    def happen(self, what: str, which: int, times: int = 1) -> None:
        if what == "start" or not self.drivers:
            self.begin()
        driver = self.drivers[which % len(self.drivers)]
        if what == "kill":
            self.drivers.remove(driver)
            return
        if what == "loser":
            self.losers += driver.losers
            driver.losers.clear()
            for loser in self.losers[-times:]:
                with suppress(SupersededError, FencedError):
                    next(loser, None)
            return
        for _ in range(times):
            if next(driver.moves, None) is None and driver in self.drivers:
                self.drivers.remove(driver)
                return

    def sweep(self) -> None:
        """Plan once more: a task that was late, and killed, may have left something behind."""
        self.batches.append(0)
        for _ in self.begin().moves:
            pass

    def finish(self) -> Driver:
        """Everybody dies, and one driver more runs to its end, which may take two starts."""
        self.drivers.clear()
        driver = self.begin()
        for _ in range(3):
            driver = self.begin()
            for _ in driver.moves:
                pass
            if driver.failure is None:
                break
        return driver


@pytest.mark.parametrize("is_version_2", [False, True])
@pytest.mark.parametrize("batches", [[1], [2], [1, 1]])
def test_two_drivers_may_interrupt_each_other_anywhere(
    batches: list[int], is_version_2: bool
) -> None:
    """The first is interrupted by the second, goes on for a while, and is killed or not."""
    for first, second, again in product(range(24), range(24), (0, 1, 2, 3, 5, 8, 13, MAX_MOVES)):
        world = World(list(batches), is_version_2=is_version_2)
        one, two = world.begin(), world.begin()
        for driver, count in ((one, first), (two, second), (one, again), (two, MAX_MOVES)):
            _ = list(islice(driver.moves, count))

        failure = world.finish().failure

        assert failure is None, (first, second, again, failure)
        assert sorted(world.cluster.output) == wanted_rows(batches), (first, second, again)


@pytest.mark.parametrize("is_version_2", [False, True])
@pytest.mark.parametrize("batches", [[1], [2], [1, 4], [0, 2]])
def test_an_error_anywhere_gives_up_only_what_is_not_decided(
    batches: list[int], is_version_2: bool
) -> None:
    for count in range(1, 60):
        world = World(list(batches), is_version_2=is_version_2)
        driver = world.begin()
        if len(list(islice(driver.moves, count))) < count:
            break
        with suppress(StopIteration):
            driver.moves.throw(HiddenError())
            _ = list(driver.moves)

        assert world.finish().failure is None
        assert sorted(world.cluster.output) == wanted_rows(batches), count
    assert count > 10, "the steps came to their end"


@settings(max_examples=200)
@given(batches=batch_lists, told=bursts, is_version_2=st.booleans())
def test_every_batch_is_written_once_whatever_happens_to_drivers(
    batches: list[int], told: list[tuple[str, int, int]], is_version_2: bool
) -> None:
    world = World(batches, is_version_2=is_version_2)
    for what, which, times in told:
        world.happen(what, which, times)

    last = world.finish()

    assert last.failure is None
    assert sorted(world.cluster.output) == wanted_rows(batches)
    world.sweep()
    assert world.cluster.open_ids() == []


@settings(max_examples=200)
@given(batches=batch_lists, told=accidents, is_version_2=st.booleans())
def test_every_batch_is_written_once_in_any_order_of_single_steps(
    batches: list[int], told: list[tuple[str, int]], is_version_2: bool
) -> None:
    world = World(batches, is_version_2=is_version_2)
    for what, which in told:
        world.happen(what, which)

    assert world.finish().failure is None
    assert sorted(world.cluster.output) == wanted_rows(batches)


@settings(max_examples=200)
@given(
    batches=batch_lists,
    told=bursts,
    expired=st.lists(st.integers(0, 30), max_size=4),
    is_version_2=st.booleans(),
)
def test_what_expires_is_written_again_or_missed_aloud(
    batches: list[int],
    told: list[tuple[str, int, int]],
    expired: list[int],
    is_version_2: bool,
) -> None:
    world = World(batches, is_version_2=is_version_2)
    for index, (what, which, times) in enumerate(told):
        world.happen(what, which, times)
        if index in expired:
            for name in world.cluster.open_ids():
                world.cluster.expire(name)

    last = world.finish()

    if last.failure is None:
        assert sorted(world.cluster.output) == wanted_rows(batches)
    else:
        assert isinstance(last.failure, LostError)
        assert len(set(world.cluster.output)) == len(world.cluster.output)
