"""`python -m bench.guard`: fails when a hot path has become much slower; `make check` runs it.

No clock on the wall is looked at.  Each path's CPU time is measured against that of a yardstick, a
fixed piece of work in the same process and the same moment, and it is the ratio of the two that is
compared with the one that is written down here.  The best of several rounds counts, since whatever
disturbs a round makes it slower, never faster; and rounds end as soon as every path is fast enough.
So a busy machine makes this slow, not red; only a path that is never fast makes it red.

A change that is meant to cost something raises its figure in `RECORDED`, and says why.
"""

import socket
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from bench.blast import (
    Load,
    ask,
    batch_of,
    blast,
    connected,
    create_topic,
    fetch_request,
    produce_request,
)
from bench.records import PLAIN
from bench.report import aligned
from bench.wire import FETCH_RESPONSE, PRODUCE_REQUEST
from ottla.broker.embedded import Broker
from ottla.records.batch import batches
from ottla.records.builder import build
from ottla.twins import CHOSEN
from ottla.wire.codec import codec, encode
from ottla.wire.registry import ApiKey

FACTOR = 2.0
"""How many times slower than written down is too slow."""
BROKER_FACTOR = 1.6
"""The same for a request to a broker.  A third of what it costs is spent by the kernel, the loop
and ourselves, which no change of ours makes slower; so a handler that takes twice as long as it did
makes the whole of it 1.7 times slower, and that must not pass."""
FEWEST_ROUNDS, MOST_ROUNDS = 5, 25
DEPTH = 64

Work = Callable[[], object]
Stopwatch = Callable[[Work], int]
"""Does the work, and says how many nanoseconds of CPU time it took."""

RECORDED: dict[str, dict[str, float]] = {
    "compiled": {
        "build a batch of 1,000 records": 0.9,
        "read it to tuples": 1.7,
        "read a Produce request": 1.1,
        "write a Fetch response": 0.82,
        "broker: produce one record": 2.8,
        "broker: fetch one record": 4.8,
    },
    "python": {
        "build a batch of 1,000 records": 25.5,
        "read it to tuples": 60.0,
        "read a Produce request": 19.0,
        "write a Fetch response": 23.0,
        "broker: produce one record": 10.0,
        "broker: fetch one record": 12.0,
    },
}
"""Twin -> path -> its CPU time, where that of its yardstick is 1."""


@dataclass(slots=True)
class Path:
    """What is guarded, beside the yardstick that resembles it."""

    name: str
    work: Work
    yardstick: Work
    factor: float = FACTOR
    """How many times slower than written down is too slow."""
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
            pending = [path for path in pending if path.ratio > path.factor * recorded[path.name]]
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
    return sum(zlib.crc32(page + b"%d" % number) for number in range(20))


def loopback() -> None:
    """The same, and small messages through the kernel."""
    interpreter()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for _ in range(400):
            ours.send(b"v" * 200)
            theirs.recv(4_096)


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

    works = {
        "build a batch of 1,000 records": repeated(lambda: build(PLAIN), 20),
        "read it to tuples": repeated(read, 20),
        "read a Produce request": repeated(lambda: reader.decode(request), 2_000),
        "write a Fetch response": repeated(lambda: writer.encode(FETCH_RESPONSE), 2_000),
    }
    return [Path(name, work, interpreter) for name, work in works.items()]


@contextmanager
def broker_paths() -> Iterator[list[Path]]:
    """A whole broker in this process, asked through a socket; its CPU time and ours count."""
    batch = batch_of(0)
    with ExitStack() as stack:
        served = stack.enter_context(Broker())
        port = int(served.bootstrap_servers.rpartition(":")[2])
        create_topic(port, 1)
        paths = []
        for name, request, key, version in (
            ("broker: produce one record", produce_request(batch), ApiKey.PRODUCE, 9),
            ("broker: fetch one record", fetch_request(0, len(batch)), ApiKey.FETCH, 12),
        ):
            _, response_bytes = ask(port, request, key, version)
            load = Load(requests=[request], response_bytes=response_bytes, depth=DEPTH)
            connection = stack.enter_context(connected(port))
            paths.append(Path(name, _blasting(connection, load), loopback, BROKER_FACTOR))
        yield paths


def _blasting(connection: socket.socket, load: Load) -> Work:
    return lambda: blast(connection, load, 300)


def main() -> int:
    is_compiled = all(CHOSEN[name] == "compiled" for name in ("records", "wire"))
    twin = "compiled" if is_compiled else "python"
    recorded = RECORDED[twin]
    with broker_paths() as at_the_broker:
        paths = [*codec_paths(), *at_the_broker]
        slow = slow_paths(paths, recorded)
    heading = ("hot path", "of its yardstick", "written down", "")
    rows = [
        (
            path.name,
            f"{path.ratio:.2f}",
            f"{recorded[path.name]:.2f}",
            f"{path.ratio / recorded[path.name]:.2f} times",
        )
        for path in paths
    ]
    if slow or "-v" in sys.argv[1:]:
        print(*aligned([heading, *rows]), sep="\n")
    for path in slow:
        print(
            f"error: {path.name}: more than {path.factor:g} times slower than written down, "
            f"in each of {len(path.spent_ns)} rounds ({twin} twin)\n"
            "hint:  profile it; if the cost is meant, write the new ratio into bench/guard.py",
            file=sys.stderr,
        )
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
