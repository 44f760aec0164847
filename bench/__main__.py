"""`python -m bench [TABLE ...] [--write]`: race, report, and say which targets were missed.

A missed target does not fail the command: figures are for reading.  A contestant that gives a
wrong answer does, and so does a table that cannot be finished; the other tables are run, and each
one is written as soon as it is there.  A table whose peers are not to be had here says so instead.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType

from bench import plots
from bench.growth import what_is_missing
from bench.harness import Outcome
from bench.report import HEADINGS, RACES, circumstances, table
from bench.results import Ran, page

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "RESULTS.md"
TWINS = ("compiled", "python")
NOT_FINISHED = "not finished"
"""What a part of a table says that failed, and did not cost the others their figures."""
LIMIT_S = 900
"""What one table may take; then something hangs."""


class OverdueError(BaseException):
    """A table took too long; nobody who catches what goes wrong in a part of it may catch this."""


def lines_of(name: str) -> list[str]:
    """Run one table."""
    if name in RACES:
        return table(outcomes_of(name))
    lines: list[str] = import_module(f"bench.{name.replace('-', '_')}").tables()
    return lines


def outcomes_of(name: str) -> list[Outcome]:
    """Run one table of races, each twin in a process of its own."""
    outcomes = []
    for twin in TWINS:
        environment = {key: value for key, value in os.environ.items() if key != "OTTLA_PURE"}
        if twin == "python":
            environment["OTTLA_PURE"] = "1"
        command = [sys.executable, "-m", "bench.child", name, twin]
        child = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        outcomes += [
            Outcome(**{**row, "ratios": tuple(row["ratios"])}) for row in json.loads(child.stdout)
        ]
    return outcomes


@contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """Raise `OverdueError` in the block when it takes longer."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise OverdueError(f"it took longer than {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def ran(
    name: str, run: Callable[[str], list[str]] = lines_of, limit_s: float = LIMIT_S
) -> tuple[Ran, bool]:
    """One table, whatever comes of it, and whether it failed."""
    begin = time.perf_counter()
    is_failed = False
    try:
        with time_limit(limit_s):
            lines = run(name)
        is_failed = any(NOT_FINISHED in line.lower() for line in lines)
    except (Exception, OverdueError) as error:
        if reason := what_is_missing(error):
            lines = [f"Not run: {reason}."]
        else:
            traceback.print_exc()
            is_failed, lines = True, [f"**Not finished**: {type(error).__name__}: {error}"]
    return Ran(name=name, lines=lines, wall_s=time.perf_counter() - begin), is_failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="table", help=f"of {', '.join(HEADINGS)}")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} too")
    arguments = parser.parse_args()
    unknown = set(arguments.tables) - set(HEADINGS)
    if unknown:
        parser.error(f"no table {', '.join(sorted(unknown))}: there are {', '.join(HEADINGS)}")

    failed = []
    for name in arguments.tables or HEADINGS:
        result, is_failed = ran(name)
        failed += [name] * is_failed
        print(f"{HEADINGS[name]}: {result.wall_s:.0f} s\n", *result.lines, "", sep="\n", flush=True)
        if arguments.write:
            RESULTS.write_text(page(RESULTS.read_text("utf-8"), result), "utf-8")
            plots.draw(RESULTS)
    print(*circumstances(), sep="\n")
    if failed:
        print(f"error: not finished: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
