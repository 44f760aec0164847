"""`python -m bench.guard`: fails when a hot path has become much slower; `make check` runs it.

No clock on the wall is looked at.  Each path's CPU time is measured against that of a yardstick, a
fixed piece of work in the same process and the same moment, and it is the ratio of the two that is
compared with the one that is written down here.  The best of several rounds counts, since whatever
disturbs a round makes it slower, never faster; and rounds end as soon as every path is fast enough.
So a busy machine makes this slow, not red; only a path that is never fast makes it red.

A ratio of times differs from one processor and one Python to the next, so only what is much slower
can be told from it.  So the lines of Python that a path runs are counted as well, which are
nearly the same everywhere: a fifth more of them is too many.

A change that is meant to cost something raises its figure in `RECORDED` or `RECORDED_LINES`, and
says why.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from bench.blast import TOPIC, framed
from bench.lines import Lines
from bench.membership import commit_request
from bench.metered import DEPTH, DEPTHS, Served, served
from bench.processes import warm_memory
from bench.records import PLAIN, build_from_arrow, read_to_arrow
from bench.report import aligned
from bench.wire import FETCH_RESPONSE, PRODUCE_REQUEST
from ottla.records.batch import batches
from ottla.records.builder import build
from ottla.twins import CHOSEN
from ottla.wire.codec import codec, encode
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest

FACTOR = 2.0
"""How many times slower than written down is too slow: more than one machine differs from the next,
or a busy one from a quiet one."""
LINES_FACTOR = 1.2
"""How many times the lines that are written down are too many."""
FEWEST_ROUNDS, MOST_ROUNDS = 5, 25
SMALL_COUNT, LARGE_COUNT = 320, 4
"""Requests in a round: those of one record, and those of 1 MB."""
WRITTEN_BYTES = 128 * 1024 * 1024
"""What all rounds write together.  Memory is made ready for it: to get it back from the host of a
virtual machine takes longer than to write into it, and would be taken for our slowness."""

Work = Callable[[], object]
Stopwatch = Callable[[Work], int]
"""Does the work, and says how many nanoseconds of CPU time it took."""

RECORDED: dict[str, dict[str, float]] = {
    "compiled": {
        "build a batch of 1,000 records": 1.0,
        "read it to tuples": 2.0,
        "read a Produce request": 1.3,
        "write a Fetch response": 0.95,
        "read 1 MB to Arrow": 0.5,
        "build a batch of 1 MB from Arrow": 0.35,
        "broker: produce one record": 6.0,
        "broker: fetch one record": 11.0,
        "broker: produce 1 MB": 2.0,
        "broker: fetch 1 MB": 0.7,
    },
    "python": {
        "build a batch of 1,000 records": 15.5,
        "read it to tuples": 75.0,
        "read a Produce request": 20.0,
        "write a Fetch response": 26.0,
        "read 1 MB to Arrow": 45.0,
        "build a batch of 1 MB from Arrow": 16.5,
        "broker: produce one record": 24.0,
        "broker: fetch one record": 28.0,
        "broker: produce 1 MB": 22.0,
        "broker: fetch 1 MB": 1.2,
    },
}
"""Twin -> path -> its CPU time, where that of its yardstick is 1."""

RECORDED_LINES: dict[str, dict[str, float]] = {
    "compiled": {
        "build a batch of 1,000 records": 38,
        "read it to tuples": 42,
        "read a Produce request": 0,
        "write a Fetch response": 0,
        "read 1 MB to Arrow": 423,
        "build a batch of 1 MB from Arrow": 89,
        "broker: produce one record": 224,
        "broker: fetch one record": 294,
        "broker: produce 1 MB": 451,
        "broker: fetch 1 MB": 506,
        "broker: produce one record, synced": 236,
        "broker: commit an offset, synced": 451,
    },
    "python": {
        "build a batch of 1,000 records": 20_077,
        "read it to tuples": 95_899,
        "read a Produce request": 168,
        "write a Fetch response": 196,
        "read 1 MB to Arrow": 1_149_052,
        "build a batch of 1 MB from Arrow": 251_160,
        "broker: produce one record": 712,
        "broker: fetch one record": 732,
        "broker: produce 1 MB": 116_491,
        "broker: fetch 1 MB": 1_054,
        "broker: produce one record, synced": 725,
        "broker: commit an offset, synced": 1_006,
    },
}
"""Twin -> path -> how many lines of our Python it runs."""


@dataclass(slots=True)
class Path:
    """What is guarded, beside the yardstick that resembles it."""

    name: str
    work: Work
    yardstick: Work
    count: int = 1
    """How often the work does what the path is named for."""
    spent_ns: list[int] = field(default_factory=list)
    yardstick_ns: list[int] = field(default_factory=list)

    def measure(self, cpu_ns_of: Stopwatch) -> None:
        """One round."""
        self.yardstick_ns.append(cpu_ns_of(self.yardstick))
        self.spent_ns.append(cpu_ns_of(self.work))

    @property
    def ratio(self) -> float:
        return min(self.spent_ns) / min(self.yardstick_ns)


def spent_ns(work: Work) -> int:
    """Of all threads of this process."""
    start_ns = time.process_time_ns()
    work()
    return time.process_time_ns() - start_ns


def slow_paths(
    paths: list[Path], recorded: dict[str, float], cpu_ns_of: Stopwatch = spent_ns
) -> list[Path]:
    """Those that were too slow in every round."""
    for path in paths:
        path.work()  # what is compiled at first use is compiled now
    pending = paths
    for number in range(MOST_ROUNDS):
        for path in pending:
            path.measure(cpu_ns_of)
        if number + 1 >= FEWEST_ROUNDS:
            pending = [path for path in pending if path.ratio > FACTOR * recorded[path.name]]
        if not pending:
            break
    return pending


# Yardsticks


def interpreter() -> int:
    """What Python code does most: look up, call, make small objects; and some copying."""
    found: dict[int, tuple[int, str]] = {}
    for number in range(6_000):
        found[number & 511] = (number, "name")
        number += len(found)
    page = bytes(65_536)
    return sum(len(page + b"%d" % number) for number in range(100))


# Paths


def repeated(work: Work, count: int) -> Work:
    def all_of_it() -> None:
        for _ in range(count):
            work()

    return all_of_it


def codec_paths() -> list[Path]:
    """Records and messages, without a broker."""
    batch = bytes(build(PLAIN))
    request = encode(PRODUCE_REQUEST, 9)
    reader, writer = codec(type(PRODUCE_REQUEST), 9), codec(type(FETCH_RESPONSE), 12)

    def read() -> None:
        for found in batches(batch, partial_tail=False):
            found.check_crc()
            found.record_list()

    works: dict[str, tuple[Work, int]] = {
        "build a batch of 1,000 records": (lambda: build(PLAIN), 20),
        "read it to tuples": (read, 20),
        "read a Produce request": (lambda: reader.decode(request), 2_000),
        "write a Fetch response": (lambda: writer.encode(FETCH_RESPONSE), 2_000),
        "read 1 MB to Arrow": (read_to_arrow().run, 1),
        "build a batch of 1 MB from Arrow": (build_from_arrow().run, 1),
    }
    return [
        Path(name, repeated(work, count), interpreter, count)
        for name, (work, count) in works.items()
    ]


def broker_paths(broker: Served) -> list[Path]:
    """A whole broker in this process, asked from memory: no socket, no other thread."""
    counts = {path: SMALL_COUNT if depth > 1 else LARGE_COUNT for path, depth in DEPTHS.items()}
    return [
        Path(f"broker: {path}", partial(broker.serve, path, count), interpreter, count)
        for path, count in counts.items()
    ]


# Lines


def lines_of(paths: list[Path]) -> dict[str, float]:
    """Path -> how many lines of our Python it runs, when its work was done before."""
    found = {}
    for path in paths:
        with Lines() as lines:
            path.work()
        found[path.name] = lines.count / path.count
    return found


async def lines_of_the_synced(broker: Served) -> dict[str, float]:
    """The same of a broker that answers when all is synced, as brokers do."""
    requests = {
        "broker: produce one record, synced": broker.requests["produce one record"],
        "broker: commit an offset, synced": commit_request("group", TOPIC, 1, 7),
    }
    await broker.client.answered(_coordinator_of("group"))
    found = {}
    for path, request in requests.items():
        await broker.serve_later(request, DEPTH)
        with Lines() as lines:
            await broker.serve_later(request, SMALL_COUNT)
        found[path] = lines.count / SMALL_COUNT
    return found


def _coordinator_of(group: str) -> bytes:
    """Who asks for it has the offsets loaded."""
    return framed(FindCoordinatorRequest(coordinator_keys=(group,)), 4)


def long_paths(found: dict[str, float], recorded: dict[str, float]) -> list[str]:
    """Those that run too many lines."""
    return [path for path, lines in found.items() if lines > LINES_FACTOR * recorded[path]]


# The command


async def main(*, is_verbose: bool) -> int:
    is_compiled = all(CHOSEN[name] == "compiled" for name in ("records", "wire"))
    twin = "compiled" if is_compiled else "python"
    recorded, recorded_lines = RECORDED[twin], RECORDED_LINES[twin]
    warm_memory(tempfile.gettempdir(), WRITTEN_BYTES)
    async with served() as broker:
        paths = [*codec_paths(), *broker_paths(broker)]
        slow = slow_paths(paths, recorded)
        lines = lines_of(paths)
    async with served("commit") as broker:
        lines |= await lines_of_the_synced(broker)
    long = long_paths(lines, recorded_lines)
    rows: list[tuple[str, ...]] = [("hot path", "of its yardstick", "written down", "")]
    rows += [_row(path.name, path.ratio, recorded[path.name], ".2f") for path in paths]
    if slow or is_verbose:
        print(*aligned(rows), sep="\n")
    rows = [("hot path", "lines of Python", "written down", "")]
    rows += [_row(path, count, recorded_lines[path], ".0f") for path, count in lines.items()]
    if long or is_verbose:
        print(*aligned(rows), sep="\n")
    for path in slow:
        _complain(
            f"{path.name}: more than {FACTOR:g} times slower than written down, in each of "
            f"{len(path.spent_ns)} rounds ({twin} twin)"
        )
    for name in long:
        _complain(f"{name}: more than {LINES_FACTOR:g} times the lines written down ({twin} twin)")
    return 1 if slow or long else 0


def _row(name: str, found: float, recorded: float, form: str) -> tuple[str, ...]:
    times = f"{found / recorded:.2f} times" if recorded else ""
    return name, format(found, form), format(recorded, form), times


def _complain(fault: str) -> None:
    hint = "profile it; if the cost is meant, write the new figure into bench/guard.py"
    print(f"error: {fault}\nhint:  {hint}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(is_verbose="-v" in sys.argv[1:])))
