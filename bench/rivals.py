"""Two brokers that take turns, ours and Apache Kafka, and how their figures are put side by side.

Each round goes to the one, then to the other; and the one whose turn it is not is stopped, as by
Ctrl-Z, so that nobody is measured beside the other's housekeeping.  The first rounds warm both up,
for Java compiles what runs often, and are not counted.  Before a round of writing, memory is ready
for what it writes.  Each round gives a ratio, and the median of those is the figure.  Every record
that was written is counted at the end.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

import ottla
from bench.blast import check_end
from bench.contest import Contestant, Taken
from bench.harness import quartiles
from bench.processes import (
    background,
    broker,
    contestant,
    cpu_ns,
    data_dir,
    peak_bytes,
    resident_bytes,
    round_of,
    warm_memory,
)
from tools.apache_kafka import NEWEST, ApacheKafka, Setup
from tools.maven import UnavailableError

SETTLING_S = 0.1

Kind = type[Contestant]
Row = tuple[str, ...]
HEADING: Row = ("what", "Ottla", "Apache Kafka", "Ottla / Kafka", "bar", "")


@dataclass(frozen=True, slots=True)
class Rival:
    """A running broker."""

    name: str
    port: int
    pid: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


Pair = tuple[Rival, Rival]
"""Ours, and Kafka's."""


@dataclass(slots=True)
class Figures:
    """What one broker gave in the rounds of one load."""

    record_bytes: int
    taken: list[Taken] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    """Of the broker."""
    resident_bytes: list[int] = field(default_factory=list)
    """Of the broker, after each round."""

    def megabytes_a_second(self) -> list[float]:
        return [each.count * self.record_bytes / 1e6 / each.wall_s for each in self.taken]

    def cpu_s_per_gigabyte(self) -> list[float]:
        sizes = (each.count * self.record_bytes / 1e9 for each in self.taken)
        return [cpu_s / size for cpu_s, size in zip(self.cpu_s, sizes, strict=True)]

    def client_cpu_us(self) -> list[float]:
        """Of the client, for each record."""
        return [each.cpu_s / each.count * 1e6 for each in self.taken]

    def broker_cpu_us(self) -> list[float]:
        """Of the broker, for each record."""
        pairs = zip(self.cpu_s, self.taken, strict=True)
        return [cpu_s / each.count * 1e6 for cpu_s, each in pairs]

    def broker_megabytes(self) -> list[float]:
        """What the broker had in memory after each round."""
        return [size_bytes / 1e6 for size_bytes in self.resident_bytes]

    def client_megabytes(self) -> list[float]:
        """What the client had in memory at most, until each round was over."""
        return [each.peak_bytes / 1e6 for each in self.taken]

    def trips_ms(self, quantile: int) -> list[float]:
        """Of each round, how long at most so many in a hundred took."""
        return [statistics.quantiles(t.waits_s, n=100)[quantile - 1] * 1e3 for t in self.taken]

    def rare_trip_ms(self) -> float:
        """How long at most 999 of 1,000 took, of all rounds: one round has too few for that."""
        waits_s = [wait_s for each in self.taken for wait_s in each.waits_s]
        return statistics.quantiles(waits_s, n=1_000)[-1] * 1e3


Rounds = tuple[Figures, Figures]
"""Ours, and Kafka's."""


@contextmanager
def rivals(flush: str, settings: Mapping[str, object]) -> Iterator[Pair]:
    """Both, started and empty; `settings` are Kafka's."""
    with ExitStack() as stack:
        theirs = stack.enter_context(ApacheKafka(NEWEST, Setup(settings=settings)))
        ours = stack.enter_context(broker(stack.enter_context(data_dir()), flush))
        port = int(theirs.bootstrap_servers.rpartition(":")[2])
        yield Rival("ottla", ours.port, ours.process.pid), Rival("kafka", port, theirs.pid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a client does, round by round, at both brokers."""

    kind: str
    """The name of a `Contestant`."""
    topic: str
    record_bytes: int
    count: int
    """In a round: records, or round trips."""
    is_writing: bool = True
    warm_up_count: int = 3
    round_count: int = 7
    beside_a_second: int = 0
    """How many records of the same size somebody else writes meanwhile."""


def turns(pair: Pair, work: Work) -> Rounds:
    """Rounds of one client against both, in turns."""
    figures = Figures(work.record_bytes), Figures(work.record_bytes)
    with ExitStack() as stack:
        clients: list[subprocess.Popen[str]] = []
        loads: list[Callable[[], AbstractContextManager[None]]] = []
        for rival in pair:
            if work.is_writing:
                create(rival, work.topic)
            client = contestant(work.kind, rival.port, work.topic, work.record_bytes)
            clients.append(stack.enter_context(client))
            loads.append(stack.enter_context(_beside(rival, work)))
        for number in range(work.warm_up_count + work.round_count):
            for place in (0, 1) if number % 2 else (1, 0):
                with alone(pair, place):
                    _have_memory_ready(work)
                    with loads[place]():
                        before_ns = cpu_ns(pair[place].pid)
                        taken = round_of(clients[place], work.count)
                        spent_ns = cpu_ns(pair[place].pid) - before_ns
                taken.peak_bytes = peak_bytes(clients[place].pid)
                if number >= work.warm_up_count:
                    figures[place].taken.append(taken)
                    figures[place].cpu_s.append(spent_ns / 1e9)
                    figures[place].resident_bytes.append(resident_bytes(pair[place].pid))
    if work.is_writing:
        for rival in pair:
            total = (work.warm_up_count + work.round_count) * work.count
            check_end(rival.port, total, work.topic)
    return figures


@contextmanager
def alone(pair: Pair, place: int) -> Iterator[None]:
    """Have one of them run without the other; what it left for later is done by then."""
    other = pair[1 - place].pid
    os.kill(other, signal.SIGSTOP)
    try:
        time.sleep(SETTLING_S)
        yield
    finally:
        os.kill(other, signal.SIGCONT)


def _have_memory_ready(work: Work) -> None:
    """For what a round writes into files, whoever's they are; see `warm_memory`."""
    if work.is_writing:
        record_count = work.count + work.beside_a_second
        warm_memory(tempfile.gettempdir(), record_count * work.record_bytes)


@contextmanager
def _beside(rival: Rival, work: Work) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Somebody else's load on the same broker, for as long as a round takes."""
    if not work.beside_a_second:
        yield nullcontext
        return
    topic = f"{work.topic}-beside"
    create(rival, topic)
    with background(rival.port, topic, work.record_bytes, work.beside_a_second) as load:
        yield load.running
        check_end(rival.port, load.written_count, topic)


def create(rival: Rival, topic: str) -> None:
    with ottla.Admin(rival.address) as admin:
        admin.create_topic(topic)


# Words


def row(
    title: str,
    rounds: Rounds,
    figures_of: Callable[[Figures], list[float]],
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Row:
    """The medians of both, and of the ratios of the rounds."""
    ours, theirs = figures_of(rounds[0]), figures_of(rounds[1])
    ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
    low, high = quartiles(ratios)
    ratio = statistics.median(ratios)
    is_met = None
    if at_least is not None:
        is_met = ratio >= at_least
    elif at_most is not None:
        is_met = ratio <= at_most
    bar = "" if is_met is None else f"≥ {at_least:g}" if at_least is not None else f"≤ {at_most:g}"
    return (
        title,
        f"{statistics.median(ours):.2f}",
        f"{statistics.median(theirs):.2f}",
        f"**{ratio:.2f}** ({low:.2f} to {high:.2f})",
        bar,
        verdict(is_met),
    )


def single(title: str, ours: list[float], theirs: list[float], at_most: float | None = None) -> Row:
    """Figures that are few: the ratio of the medians, and the quartiles of pairs of them."""
    ratio = statistics.median(ours) / statistics.median(theirs)
    shown = f"**{ratio:.3f}**"
    if len(ours) > 1:
        pairs = [our / their for our, their in zip(ours, theirs, strict=True)]
        low, high = quartiles(pairs)
        shown += f" ({low:.3f} to {high:.3f})"
    return (
        title,
        f"{statistics.median(ours):.2f}",
        f"{statistics.median(theirs):.2f}",
        shown,
        "" if at_most is None else f"≤ {at_most:g}",
        verdict(None if at_most is None else ratio <= at_most),
    )


def verdict(is_met: bool | None) -> str:
    return "" if is_met is None else "met" if is_met else "missed"


def whole(title: str, part: Callable[[], Iterable[Row]]) -> Iterator[Row]:
    """The rows of one part; where it cannot be finished, one that says why follows them."""
    try:
        yield from part()
    except UnavailableError:
        raise  # then no part can be run
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        reason = " ".join(str(error).split())[:200]
        yield title, "", "", "", "", f"not finished: {type(error).__name__}: {reason}"
