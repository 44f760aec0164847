"""The choice between a compiled codec and its readable twin."""

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from ottla import twins


@pytest.fixture(autouse=True)
def _nothing_chosen_here_outlives_the_test() -> Iterator[None]:
    before = dict(twins.CHOSEN)
    yield
    twins.CHOSEN.clear()
    twins.CHOSEN.update(before)


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    """Two modules, importable as `fast` and `slow`."""
    monkeypatch.delenv("OTTLA_PURE", raising=False)
    fast, slow = ModuleType("fast"), ModuleType("slow")
    monkeypatch.setitem(sys.modules, "fast", fast)
    monkeypatch.setitem(sys.modules, "slow", slow)
    return fast, slow


def test_the_compiled_twin_runs_where_it_was_built(both: tuple[ModuleType, ModuleType]) -> None:
    assert twins.choose("demo", compiled="fast", python="slow") is both[0]
    assert twins.CHOSEN["demo"] == "compiled"


def test_the_readable_twin_runs_where_it_was_not(both: tuple[ModuleType, ModuleType]) -> None:
    assert twins.choose("demo", compiled="ottla._not_built", python="slow") is both[1]
    assert twins.CHOSEN["demo"] == "python (the compiled twin was not built)"


def test_the_readable_twin_runs_when_asked_for(
    both: tuple[ModuleType, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_PURE", "1")
    assert twins.choose("demo", compiled="fast", python="slow") is both[1]
    assert twins.CHOSEN["demo"] == "python (OTTLA_PURE is set)"


def test_a_compiled_twin_that_misses_something_else_is_an_error_not_a_fallback(
    both: tuple[ModuleType, ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("twin")
    (folder / "broken_twin.py").write_text("import a_module_nobody_has\n")
    monkeypatch.syspath_prepend(folder)
    with pytest.raises(ModuleNotFoundError, match="a_module_nobody_has"):
        twins.choose("demo", compiled="broken_twin", python="slow")
    assert "demo" not in twins.CHOSEN


def test_a_compiled_twin_that_needs_one_that_was_not_built_is_not_to_be_had_either(
    both: tuple[ModuleType, ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("twin")
    (folder / "needy_twin.py").write_text("import the_other_twin\n")
    monkeypatch.syspath_prepend(folder)
    chosen = twins.choose("demo", compiled="needy_twin", python="slow", needs="the_other_twin")
    assert chosen is both[1]
    assert twins.CHOSEN["demo"] == "python (the compiled twin was not built)"
