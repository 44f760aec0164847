"""One seeded run of several nodes, with virtual time, a bad network and disks that forget.

    with Simulation(seed) as sim:
        sim.spawn("broker", serve)            # `serve` is an async function that takes `Ports`
        sim.spawn("client", produce)
        sim.run_for(duration_ms=500)
        sim.crash("broker")
        sim.spawn("broker", serve)
        sim.run(check())

Everything random comes from the seed, through a stream of its own for each part, so that a change
in one part does not change the luck of the others.

A crash stops the disk first, then the process, so that no `finally` can save what power loss would
not: what a dead process still does (its frames may be unwinding) meets a disk without power,
connections that are gone, and a loop that takes no callback from it.
"""

import asyncio
import hashlib
import os
import random
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import field
from types import TracebackType
from typing import Any, Final, Self, TextIO, TypeVar

from ottla.ports import Ports
from ottla.testing.clock import SimClock
from ottla.testing.disk import PowerLoss, SimDisk
from ottla.testing.entropy import SimEntropy
from ottla.testing.loop import Order, SimLoop, StuckError, handle_context
from ottla.testing.network import SimNetwork
from ottla.testing.process import Process, context_of, current_process, process_of
from ottla.values import dataclass

TRACE_TAIL_LINES: Final = 25
"""How many of the last events a failing run shows."""
RUN_LIMIT_MS: Final = 3_600_000
"""Virtual time after which `run` gives up: something repeats itself without end."""

_T = TypeVar("_T")

Main = Callable[[Ports], Coroutine[Any, Any, None]]
"""What a node runs."""


def seeds(count: int) -> list[int]:
    """The seeds that a test should try: `count` of them, unless the environment says otherwise.

    `OTTLA_SIM_SEED=17` is the one to replay, `OTTLA_SIM_SEEDS=1000` is how many to try.  With
    `OTTLA_SIM_TRACE=file` every event of a run is appended to that file.
    """
    if (one := os.environ.get("OTTLA_SIM_SEED")) is not None:
        return [int(one)]
    return list(range(int(os.environ.get("OTTLA_SIM_SEEDS", count))))


@dataclass(slots=True)
class Node:
    """A machine: what it has outlives what runs on it."""

    name: str
    disk: SimDisk
    clock: SimClock
    ports: Ports
    life: int = 0
    process: Process | None = field(default=None)

    @property
    def is_running(self) -> bool:
        """A process was started, and neither ended nor crashed."""
        return self.process is not None and self.process.is_alive


class Simulation:
    """Owns the loop, the network, the nodes, and the only source of randomness."""

    def __init__(self, seed: int, *, order: Order = Order.DRAWN) -> None:
        self.seed = seed
        self.rng = self.stream("test")
        self.loop = SimLoop(self.stream("loop"), order)
        self.network = SimNetwork(
            self.loop, self.stream("network"), observe=lambda line: self.note(f"net {line}")
        )
        self.loop.network = self.network
        self.loop.set_exception_handler(self._on_error)
        self._nodes: dict[str, Node] = {}
        self._failures: list[BaseException] = []
        self._trace = hashlib.sha256()
        self._trace_tail: deque[str] = deque(maxlen=TRACE_TAIL_LINES)
        self._trace_file = _open_trace(seed)

    def stream(self, name: str) -> random.Random:
        """A source of random numbers for one purpose."""
        return random.Random(f"{self.seed} {name}")

    @property
    def trace_hash(self) -> str:
        """Equal for equal runs: everything that disks, network and nodes did, and when."""
        return self._trace.hexdigest()

    def note(self, line: str) -> None:
        """Write an event into the trace."""
        line = f"{self.loop.time() * 1000:.6f} {line}"
        self._trace.update(line.encode())
        self._trace_tail.append(line)
        if self._trace_file is not None:
            print(line, file=self._trace_file)

    def node(self, name: str) -> Node:
        """The node of that name, which is made when it is first asked for."""
        if name not in self._nodes:
            disk = SimDisk(
                self.stream(f"disk {name}"), observe=lambda line: self.note(f"disk {name} {line}")
            )
            disk.on_power_loss = lambda: self.crash(name)
            clock = SimClock(self.loop)
            entropy = SimEntropy(self.stream(f"entropy {name}"))
            ports = Ports(clock=clock, disk=disk, network=self.network, entropy=entropy)
            self._nodes[name] = Node(name, disk, clock, ports)
        return self._nodes[name]

    def spawn(self, name: str, main: Main) -> "asyncio.Task[None]":
        """Start the node `name`, or start it again after it ended or crashed.

        If `main` raises, the run fails; power loss is no failure.
        """
        node = self.node(name)
        assert not node.is_running, f"{name} is running"
        _restore_power(node)
        node.life += 1
        node.process = process = Process(name, node.life)
        self.network.start_node(name)
        self.note(f"start {process}")
        context = context_of(process)
        task: asyncio.Task[None] = self.loop.create_task(
            context.run(main, node.ports), name=repr(process), context=context
        )
        task.add_done_callback(
            lambda done: self._on_end(node, process, done), context=self.network.context
        )
        return task

    def crash(self, name: str) -> None:
        """Cut the node's power.  What its disk has not synced is lost, wholly or partly."""
        node, process = self._running(name)
        self.note(f"crash {process}")
        node.disk.cut_power()
        self.loop.kill(process)
        self.network.end_process(process, is_silent=True)
        if current_process() is process:
            # Its frames still unwind: the disk must stay without power until they are gone.
            self.loop.call_soon(_restore_power, node, context=self.network.context)
        else:
            _restore_power(node)

    def kill(self, name: str) -> None:
        """End the node's process at once, as `kill -9` does: the machine lives on."""
        node, process = self._running(name)
        assert current_process() is not process, "a process cannot kill itself"
        self.note(f"kill {process}")
        node.disk.end_process()
        self.loop.kill(process)
        self.network.end_process(process, is_silent=False)

    def run_for(self, duration_ms: float) -> None:
        """Let virtual time pass.  Raises what a node, or a callback, raised meanwhile."""
        self._raise_failure()
        self.loop.run_for(duration_ms)
        self._raise_failure()

    def run(self, work: Coroutine[Any, Any, _T], *, limit_ms: float = RUN_LIMIT_MS) -> _T:
        """Run until `work` is done, and return what it returned; it belongs to no node.

        Raises `StuckError`, with all tasks that wait, if that takes longer than `limit_ms`.
        """
        self._raise_failure()
        task = self.loop.create_task(work, name="run")
        task.add_done_callback(lambda _: self.loop.stop())
        limit = self.loop.call_later(limit_ms / 1000, self._on_limit)
        self.loop.run_forever()
        limit.cancel()
        self._raise_failure()
        return task.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self._nodes.values():
            node.disk.cut_power()
        self.loop.close()
        if self._trace_file is not None:
            self._trace_file.close()
        if error is not None:
            self._explain(error)
        elif self._failures:
            self._explain(self._failures[0])
            raise self._failures[0]

    def _explain(self, error: BaseException) -> None:
        tail = "\n".join(f"  {line}" for line in self._trace_tail)
        error.add_note(f"the last events of the run (ms):\n{tail}")
        error.add_note(f"seed {self.seed}; to replay it: make sim SEED={self.seed}")

    def _running(self, name: str) -> tuple[Node, Process]:
        node = self.node(name)
        assert node.process is not None, f"{name} was never started"
        assert node.process.is_alive, f"{name} is not running"
        return node, node.process

    def _on_end(self, node: Node, process: Process, task: "asyncio.Task[None]") -> None:
        """The main function returned, so the process exits: whatever else it began is gone."""
        error = None if task.cancelled() else task.exception()
        if not process.is_alive:
            return
        self.note(f"end {process} {type(error).__name__ if error is not None else 'well'}")
        if error is not None:
            self._fail(error)
        node.disk.end_process()
        self.loop.kill(process)
        self.network.end_process(process, is_silent=False)

    def _on_limit(self) -> None:
        self._fail(StuckError(f"the run takes too long\n{self.loop.describe_tasks()}"))

    def _on_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not _process_at_fault(context).is_alive:
            return
        error = context.get("exception")
        self._fail(error if error is not None else AssertionError(context["message"]))

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, PowerLoss):
            self._failures.append(error)
            self.loop.stop()

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures.pop(0)


def _open_trace(seed: int) -> TextIO | None:
    """Where the environment wants the whole trace; several runs follow each other there."""
    if (path := os.environ.get("OTTLA_SIM_TRACE")) is None:
        return None
    trace = open(path, "a", encoding="utf-8")  # noqa: SIM115  # `__exit__` closes it
    test = os.environ.get("PYTEST_CURRENT_TEST", "").removesuffix(" (call)")
    print(f"# seed {seed}, time in ms {test}".rstrip(), file=trace)
    return trace


def _restore_power(node: Node) -> None:
    if not node.disk.has_power:
        node.disk.lose_power()


def _process_at_fault(context: dict[str, Any]) -> Process:
    handle = context.get("handle")
    return current_process() if handle is None else process_of(handle_context(handle))
