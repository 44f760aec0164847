"""What the broker moves, as a share of what the bare loopback and disk move in the same run.

Both are processes of their own, and are sent the same bytes by the same load generator, in turns:
a round of one, a round of the other.  The broker checks, stores and answers; the other one only
answers, or where the broker syncs, writes, syncs and answers.  Each round gives a share, and the
median of those is the figure; the CPU time is that of the server, without the load generator.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from bench import standing
from bench.blast import (
    Load,
    WrongAnswerError,
    ask,
    batch_of,
    blast,
    connected,
    create_topic,
    fetch_request,
    produce_request,
)
from bench.growth import part
from bench.processes import Served, bare, broker, data_dir, warm_memory
from bench.report import aligned, with_quartiles
from ottla.records.batch import Batch
from ottla.wire.registry import ApiKey

ROUND_COUNT = 7
PRODUCE_VERSION, FETCH_VERSION = 9, 12
SET_BY_BROKER_BYTES = 16
"""Base offset, length and leader epoch: what a stored batch may differ in."""

GB = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kind of traffic."""

    api: Literal["produce", "fetch"]
    batch_bytes: int
    """0 for a single record of 100 bytes."""
    depth: int
    count: int
    """Requests in a round."""
    flush: Literal["os", "commit"] = "os"
    max_cpu_s_per_gb: float | None = None
    min_requests_per_s: int | None = None

    @property
    def title(self) -> str:
        size = {0: "one record", 16_000: "16 KB", 1_000_000: "1 MB"}[self.batch_bytes]
        flow = "one at a time" if self.depth == 1 else f"{self.depth} under way"
        return f"{self.api} {size}, {flow}, flush={self.flush}"


CASES = [
    Case(api="produce", batch_bytes=1_000_000, depth=4, count=64, max_cpu_s_per_gb=1.0),
    Case(api="produce", batch_bytes=1_000_000, depth=1, count=64),
    Case(api="produce", batch_bytes=16_000, depth=64, count=1_000),
    Case(api="produce", batch_bytes=16_000, depth=1, count=500),
    Case(api="produce", batch_bytes=0, depth=64, count=5_000, min_requests_per_s=40_000),
    Case(api="produce", batch_bytes=0, depth=1, count=500),
    Case(
        api="produce",
        batch_bytes=1_000_000,
        depth=4,
        count=64,
        flush="commit",
        max_cpu_s_per_gb=1.0,
    ),
    Case(
        api="produce",
        batch_bytes=0,
        depth=64,
        count=2_000,
        flush="commit",
        min_requests_per_s=20_000,
    ),
    Case(api="produce", batch_bytes=0, depth=1, count=200, flush="commit"),
    Case(api="fetch", batch_bytes=1_000_000, depth=4, count=64, max_cpu_s_per_gb=0.6),
    Case(api="fetch", batch_bytes=1_000_000, depth=1, count=64, max_cpu_s_per_gb=0.6),
    Case(api="fetch", batch_bytes=16_000, depth=4, count=1_000),
    Case(api="fetch", batch_bytes=16_000, depth=1, count=500),
    Case(api="fetch", batch_bytes=0, depth=64, count=3_000),
    Case(api="fetch", batch_bytes=0, depth=1, count=500),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round of one server took, for each request."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All rounds of a case; `moved_bytes` is what a request and its answer weigh."""

    case: Case
    moved_bytes: int
    ours: list[Round]
    bare: list[Round]
    resident_bytes: tuple[int, int]
    """After all rounds: of the broker, and of the bare one."""

    @property
    def percents(self) -> list[float]:
        """How fast the broker was in each round, where the bare loopback is 100."""
        pairs = zip(self.ours, self.bare, strict=True)
        return [bare.wall_s / ours.wall_s * 100 for ours, bare in pairs]

    @property
    def requests_per_s(self) -> float:
        return 1 / statistics.median(r.wall_s for r in self.ours)

    def cpu_s_per_gb(self, rounds: list[Round]) -> float:
        return statistics.median(r.cpu_s for r in rounds) / self.moved_bytes * GB

    @property
    def target(self) -> tuple[str, bool | None]:
        """What is aimed at, and whether it was met."""
        if self.case.max_cpu_s_per_gb is not None:
            limit = self.case.max_cpu_s_per_gb
            return f"{limit:g} CPU s a GB", self.cpu_s_per_gb(self.ours) <= limit
        if self.case.min_requests_per_s is not None:
            least = self.case.min_requests_per_s
            return f"{least:,} requests a second", self.requests_per_s >= least
        return "", None


SETTLED_S = 2.0
"""So long after its start a broker has loaded what it left out then."""


def tables() -> list[str]:
    """Run everything; the method and both tables, line by line."""
    method = (
        f"{ROUND_COUNT} rounds in turns, medians, and in brackets the quartiles of the rounds; CPU "
        "time and memory are those of the server alone.  Bare is the loopback; with flush=commit, "
        "loopback and disk: the same bytes written and synced."
    )
    return [
        method,
        "",
        *part("traffic", _traffic),
        *part("at rest", lambda: aligned(standing.rows())),
    ][:-1]


def _traffic() -> list[str]:
    return aligned([TRAFFIC_HEADING, *(_row(measured(case)) for case in CASES)])


TRAFFIC_HEADING: tuple[str, ...] = (
    "traffic",
    "broker",
    "bare",
    "share",
    "broker's CPU",
    "CPU of the bare one",
    "broker's memory",
    "memory of the bare one",
    "target",
    "",
)


def measured(case: Case) -> Measured:
    """Run one case: check the answers, then take turns, then check what was stored."""
    with data_dir() as folder, broker(folder, case.flush) as ours:
        create_topic(ours.port, 1)
        batch = batch_of(case.batch_bytes)
        prepare = _prepared_produce if case.api == "produce" else _prepared_fetch
        load, check = prepare(ours, batch, case)
        request_bytes = len(load.requests[0])
        synced_in = folder if case.flush == "commit" else None
        stored_bytes = case.count * request_bytes if case.api == "produce" else 0
        with bare(request_bytes, load.response_bytes, synced_in) as floor:
            time.sleep(SETTLED_S)
            before = partial(warm_memory, folder, stored_bytes)
            rounds = _turns(ours, floor, load, case.count, before)
            resident_bytes = ours.resident_bytes, floor.resident_bytes
        check()
    return Measured(
        case=case,
        moved_bytes=len(load.requests[0]) + load.response_bytes,
        ours=rounds[0],
        bare=rounds[1],
        resident_bytes=resident_bytes,
    )


def _turns(
    ours: Served, floor: Served, load: Load, count: int, before: Callable[[], None]
) -> tuple[list[Round], list[Round]]:
    """Rounds of both servers, in turns; a round before them warms both up and is not counted.

    `before` is called before each.
    """
    rounds: tuple[list[Round], list[Round]] = ([], [])
    with connected(ours.port) as to_ours, connected(floor.port) as to_floor:
        sides = ((ours, to_ours, rounds[0]), (floor, to_floor, rounds[1]))
        for number in range(ROUND_COUNT + 1):
            for server, connection, taken in sides if number % 2 else sides[::-1]:
                before()
                before_ns = server.cpu_ns
                wall_s = blast(connection, load, count)
                cpu_s = (server.cpu_ns - before_ns) / 1e9
                if number:
                    taken.append(Round(wall_s=wall_s / count, cpu_s=cpu_s / count))
    return rounds


def _prepared_produce(ours: Served, batch: bytes, case: Case) -> tuple[Load, Callable[[], None]]:
    request = produce_request(batch, PRODUCE_VERSION)
    response_bytes = _produced(ours, request, 0)
    load = Load(requests=[request], response_bytes=response_bytes, depth=case.depth)

    def check() -> None:
        last = (ROUND_COUNT + 1) * case.count
        _fetched(ours, batch, last * Batch.parse(batch).record_count)

    return load, check


def _prepared_fetch(ours: Served, batch: bytes, case: Case) -> tuple[Load, Callable[[], None]]:
    """A topic of 64 MB, or of a few hundred small batches, that is read from end to end."""
    batch_count = max(64, min(512, 64_000_000 // len(batch)))
    record_count = Batch.parse(batch).record_count
    request = produce_request(batch, PRODUCE_VERSION)
    for number in range(batch_count):
        _produced(ours, request, number * record_count)
    offsets = [number * record_count for number in range(batch_count)]
    requests = [fetch_request(offset, len(batch), FETCH_VERSION) for offset in offsets]
    response_bytes = _fetched(ours, batch, offsets[-1])
    load = Load(requests=requests, response_bytes=response_bytes, depth=case.depth)
    return load, lambda: None


def _produced(ours: Served, request: bytes, base_offset: int) -> int:
    answer, response_bytes = ask(ours.port, request, ApiKey.PRODUCE, PRODUCE_VERSION)
    result = answer.responses[0].partition_responses[0]
    if (result.error_code, result.base_offset) != (0, base_offset):
        raise WrongAnswerError(f"produced at {result.base_offset}, not {base_offset}: {result}")
    return response_bytes


def _fetched(ours: Served, batch: bytes, offset: int) -> int:
    """Fetch the batch at `offset`; it must be the one that was produced."""
    request = fetch_request(offset, len(batch), FETCH_VERSION)
    answer, response_bytes = ask(ours.port, request, ApiKey.FETCH, FETCH_VERSION)
    records: Any = bytes(answer.responses[0].partitions[0].records)
    if records[SET_BY_BROKER_BYTES:] != batch[SET_BY_BROKER_BYTES:]:
        raise WrongAnswerError(f"the batch at {offset} is not the one that was produced")
    if Batch.parse(records).base_offset != offset:
        raise WrongAnswerError(f"the batch at {offset} says it is another one")
    return response_bytes


def _row(measured: Measured) -> tuple[str, ...]:
    target, is_met = measured.target
    return (
        measured.case.title,
        _rate(measured, measured.ours),
        _rate(measured, measured.bare),
        with_quartiles(measured.percents, ".0f", " %", is_bold=True),
        _cpu(measured, measured.ours),
        _cpu(measured, measured.bare),
        *(f"{size_bytes / 1e6:.0f} MB" for size_bytes in measured.resident_bytes),
        target,
        "" if is_met is None else "met" if is_met else "missed",
    )


def _rate(measured: Measured, rounds: list[Round]) -> str:
    per_s = 1 / statistics.median(r.wall_s for r in rounds)
    if measured.case.batch_bytes:
        return f"{per_s * measured.moved_bytes / 1e6:,.0f} MB/s"
    return f"{per_s:,.0f} requests/s"


def _cpu(measured: Measured, rounds: list[Round]) -> str:
    if measured.case.batch_bytes >= 1_000_000:
        return f"{measured.cpu_s_per_gb(rounds):.2f} s a GB"
    return f"{statistics.median(r.cpu_s for r in rounds) * 1e6:.1f} µs a request"
