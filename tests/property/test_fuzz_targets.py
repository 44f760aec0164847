"""Each fuzz target holds for its seeds, and for a short search from them, the same every time."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from fuzz.runner import REPOSITORY, TARGETS, Effort, module_of, run, why_not

needs_the_fuzzer = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

SHORT = Effort(seconds=100, executions=2_000, seed=1)
LEAST_SEEDS = 9


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_wrong_with_the_seeds(target: str) -> None:
    module = import_module(module_of(target))
    seeds = list(module.seeds())

    assert len(set(seeds)) >= LEAST_SEEDS
    for seed in seeds:
        module.one_input(seed)


@needs_the_fuzzer
@pytest.mark.parametrize("target", TARGETS)
def test_a_short_search_finds_nothing(target: str, tmp_path: Path) -> None:
    result = run(module_of(target), SHORT, tmp_path)

    assert not result.is_failure, result.output
    assert result.executions >= 500


@needs_the_fuzzer
def test_what_its_parent_once_had_is_not_its_own(tmp_path: Path) -> None:
    ask = f"""
from pathlib import Path
from fuzz.runner import Effort, module_of, run

b"x" * 1_200_000_000
search = Effort(seconds=3, seed=1)  # the limit is looked after once in a second
result = run(module_of("frame"), search, Path({str(tmp_path)!r}))
print(result.output if result.is_failure else "good")
"""
    done = subprocess.run(
        [sys.executable, "-c", ask], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )

    assert done.stdout == "good\n"


@needs_the_fuzzer
def test_a_failure_is_found_and_its_input_saved(tmp_path: Path) -> None:
    result = run("tests.broken_target", SHORT, tmp_path)

    assert result.is_failure
    assert "an exception that may not escape" in result.output
    assert result.reproducer is not None
    assert result.reproducer.read_bytes().startswith(b"\x01")


def test_a_saved_input_can_be_tried_again(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.write_bytes(next(import_module(module_of("frame")).seeds()))

    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "--target", "frame", "--reproduce", str(saved)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == f"frame: nothing is wrong with {saved}\n"
