"""The guard of hot paths: what is slow once is forgiven, what is always slow is not."""

import asyncio
import pathlib
from collections.abc import Callable

import pytest

from bench.guard import (
    FACTOR,
    FEWEST_ROUNDS,
    LINES_FACTOR,
    MOST_ROUNDS,
    RECORDED,
    RECORDED_LINES,
    Path,
    broker_paths,
    codec_paths,
    lines_of,
    lines_of_the_synced,
    long_paths,
    slow_paths,
)
from bench.lines import Lines
from bench.metered import PATHS, served

NAME = "read it to tuples"


def yardstick() -> None:
    """Something to compare with."""


def work() -> None:
    """What is guarded."""


def a_path() -> Path:
    return Path(NAME, work, yardstick)


def taking(*spent_ns: int) -> Callable[[Callable[[], object]], int]:
    """A stopwatch that says 100 for the yardstick, and for the work one of these after the other;
    the last one again and again."""
    left = list(spent_ns)

    def stopwatch(timed: Callable[[], object]) -> int:
        if timed is yardstick:
            return 100
        return left.pop(0) if len(left) > 1 else left[0]

    return stopwatch


def test_a_path_as_fast_as_written_down_is_fine_after_the_fewest_rounds() -> None:
    path = a_path()
    assert slow_paths([path], {NAME: 1.0}, taking(100)) == []
    assert len(path.spent_ns) == FEWEST_ROUNDS


def test_a_path_that_is_never_fast_enough_is_reported() -> None:
    path = a_path()
    too_slow_ns = int(100 * FACTOR) + 1
    assert slow_paths([path], {NAME: 1.0}, taking(too_slow_ns)) == [path]
    assert len(path.spent_ns) == MOST_ROUNDS


def test_a_machine_that_is_busy_for_some_rounds_reports_nothing() -> None:
    busy = [900] * (MOST_ROUNDS - 1)
    assert slow_paths([a_path()], {NAME: 1.0}, taking(*busy, 150)) == []


def test_only_the_path_that_is_slow_is_measured_again() -> None:
    fast, slow = Path("fast", yardstick, yardstick), a_path()
    found = slow_paths([fast, slow], {"fast": 1.0, NAME: 1.0}, taking(900))
    assert found == [slow]
    assert len(fast.spent_ns) == FEWEST_ROUNDS


@pytest.mark.parametrize("twin", ["compiled", "python"])
def test_every_path_has_a_figure_for_each_twin(twin: str) -> None:
    guarded = {path.name for path in codec_paths()} | {f"broker: {path}" for path in PATHS}
    assert guarded == set(RECORDED[twin])
    assert set(RECORDED_LINES[twin]) > guarded


def test_the_work_of_each_path_can_be_done() -> None:
    for path in codec_paths():
        path.work()
        path.yardstick()


def test_every_request_to_the_broker_can_be_served_and_its_lines_counted() -> None:
    async def all_of_them() -> dict[str, float]:
        async with served() as broker:
            paths = broker_paths(broker)
            for path in paths:
                path.work()
            found = lines_of([*codec_paths()[:2], *paths])
        async with served("commit") as broker:
            return found | await lines_of_the_synced(broker)

    found = asyncio.run(all_of_them())
    assert set(found) < set(RECORDED_LINES["compiled"])
    assert min(found.values()) > 0


# Lines

HERE = str(pathlib.Path(__file__).parent)


def three_lines() -> None:
    first = 1
    second = first + 1
    assert second == 2


async def awaiting() -> None:
    await asyncio.sleep(0)
    three_lines()


def many_lines() -> None:
    for _ in range(10):
        three_lines()


def lines_of_work(work: Callable[[], None], folder: str) -> int:
    with Lines(folder) as lines:
        work()
    return lines.count


def test_every_line_that_runs_counts_as_often_as_it_runs() -> None:
    assert lines_of_work(three_lines, HERE) == 3
    assert lines_of_work(many_lines, HERE) >= 40


def test_lines_of_other_folders_do_not_count() -> None:
    assert lines_of_work(many_lines, "/nowhere") == 0


def test_lines_behind_an_await_count_too() -> None:
    async def work() -> int:
        with Lines(HERE) as lines:
            await asyncio.create_task(awaiting())
        return lines.count

    assert asyncio.run(work()) >= 4


def test_a_path_with_a_few_lines_more_is_fine_and_one_with_a_fifth_more_is_not() -> None:
    recorded = {"produce": 100.0, "fetch": 100.0}
    assert long_paths({"produce": 100 * LINES_FACTOR, "fetch": 90.0}, recorded) == []
    assert long_paths({"produce": 121.0, "fetch": 90.0}, recorded) == ["produce"]
