"""The guard of hot paths: what is slow once is forgiven, what is always slow is not."""

from collections.abc import Callable

import pytest

from bench.guard import FACTOR, FEWEST_ROUNDS, MOST_ROUNDS, RECORDED, Path, codec_paths, slow_paths

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
    guarded = {path.name for path in codec_paths()}
    assert guarded < set(RECORDED[twin])
    assert all(name.startswith("broker: ") for name in set(RECORDED[twin]) - guarded)


def test_the_work_of_each_path_can_be_done() -> None:
    for path in codec_paths():
        path.work()
        path.yardstick()
