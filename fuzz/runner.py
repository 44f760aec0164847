"""Starts a fuzzer, waits for it, and says what came of it.

Each target has its own process, because Atheris ends the one it runs in.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

TARGETS: Final = ("wire", "frame", "records", "compression")
REPOSITORY: Final = Path(__file__).parents[1]
CORPUS: Final = Path(__file__).parent / "corpus"

MAX_INPUT_BYTES: Final = 4096
MAX_SECONDS_PER_INPUT: Final = 20
_START_SECONDS: Final = 60
"""For imports, and for reading the corpus, before the clock of the fuzzer starts."""

_EXECUTIONS: Final = re.compile(r"^stat::number_of_executed_units: *(\d+)", re.MULTILINE)
_SAVED: Final = re.compile(r"Test unit written to (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long to search: until either limit is reached."""

    seconds: int
    executions: int = -1
    """-1: no limit."""
    seed: int = 0
    """0: another one each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one target."""

    executions: int
    reproducer: Path | None
    """The input that made the target fail, if one did."""
    output: str

    @property
    def is_failure(self) -> bool:
        return self.reproducer is not None


def why_not() -> str | None:
    """Why this Python cannot fuzz, or None if it can."""
    if find_spec("atheris") is None:
        return "atheris is not installed: it exists for Linux and Python up to 3.13"
    return None


def module_of(target: str) -> str:
    return f"fuzz.targets.{target}"


def run(module: str, effort: Effort, corpus: Path) -> Result:
    """Fuzz the target `module`, starting from its seeds and what `corpus` has of earlier runs."""
    found, seeds, failures = (corpus / part for part in ("found", "seeds", "failures"))
    for folder in (found, seeds, failures):
        folder.mkdir(parents=True, exist_ok=True)
    _write_seeds(module, seeds)
    options = [
        f"-max_total_time={effort.seconds}",
        f"-runs={effort.executions}",
        f"-seed={effort.seed}",
        f"-max_len={MAX_INPUT_BYTES}",
        f"-timeout={MAX_SECONDS_PER_INPUT}",
        f"-artifact_prefix={failures}/",
        "-print_final_stats=1",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.engine", module, *options, str(found), str(seeds)],
        cwd=REPOSITORY,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=effort.seconds + _START_SECONDS,
        check=False,
    )
    return _result(done, failures)


def _write_seeds(module: str, folder: Path) -> None:
    for old in folder.iterdir():
        old.unlink()
    for seed in import_module(module).seeds():
        (folder / sha256(seed).hexdigest()[:20]).write_bytes(seed)


def _result(done: "subprocess.CompletedProcess[str]", failures: Path) -> Result:
    output = done.stdout + done.stderr
    executed, saved = _EXECUTIONS.search(output), _SAVED.search(output)
    if done.returncode == 0 and executed is None:
        raise RuntimeError(f"the fuzzer did not say what it did:\n{output}")
    reproducer = None
    if done.returncode != 0:
        # Without a saved input the fuzzer itself failed: its folder is all that can be named.
        reproducer = failures if saved is None else Path(saved[1])
    return Result(
        executions=0 if executed is None else int(executed[1]),
        reproducer=reproducer,
        output=output,
    )
