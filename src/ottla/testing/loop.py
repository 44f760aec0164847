"""An asyncio event loop on which time is simulated and order is drawn from a seed.

Nothing sleeps: when every task waits, the clock jumps to the next deadline.  When nothing is left
to wait for, the run is stuck, and says who waits where.

asyncio promises to call callbacks in the order of `call_soon`.  `Order.DRAWN` breaks that promise
on purpose: tasks that are ready together run in any order, as they might on another day.  Code that
needs the promise (other people's clients, for example) runs with `Order.FIFO`.
"""

import asyncio
import contextlib
import contextvars
import enum
import random
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

from ottla.testing.disk import PowerLoss
from ottla.testing.process import WORLD, Process, process_of

EXECUTOR_DELAY_MS: Final = (0.0, 3.0)
"""The least and the most that a call in a thread pool takes, in virtual time."""

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
# A deadline is met when it is this near: sums of floating-point delays are not exact, and less so
# the later it is.  This is good for runs of seventeen years.
_RESOLUTION_S: Final = 1e-7


class Order(enum.Enum):
    """Which of the callbacks that are ready comes next."""

    FIFO = "fifo"
    DRAWN = "drawn"


class StuckError(AssertionError):
    """What a run waits for will never happen."""


class LoopNetwork(Protocol):
    """What the loop needs so that asyncio's own connections and streams are simulated too."""

    async def open_server(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> asyncio.AbstractServer: ...

    async def open_connection(
        self, factory: Callable[[], Any], host: str, port: int
    ) -> tuple[asyncio.Transport, Any]: ...


class _DrawnOrder(deque[asyncio.Handle]):
    """A queue that serves any of its callbacks next."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng

    def popleft(self) -> asyncio.Handle:
        drawn = self._rng.randrange(len(self))
        self[0], self[drawn] = self[drawn], self[0]
        return super().popleft()


class _TimeJump:
    """Stands where a loop has its selector: asked to wait, it moves the clock instead."""

    def __init__(self, loop: "SimLoop") -> None:
        self._loop = loop

    def select(self, timeout_s: float | None) -> tuple[()]:
        if timeout_s is None:
            raise StuckError(
                f"every task waits, and no timer is set\n{self._loop.describe_tasks()}"
            )
        self._loop.jump(timeout_s)
        return ()


class SimLoop(asyncio.BaseEventLoop):
    """Same seed, same run, to the last callback.

    Callbacks of a process that was killed never run, and their tasks end nowhere: no `finally`
    of theirs is reached before `close`, when there is no world left to change.
    """

    def __init__(self, rng: random.Random, order: Order = Order.DRAWN) -> None:
        super().__init__()
        self.network: LoopNetwork | None = None
        self.executor_delay_ms = EXECUTOR_DELAY_MS
        self._rng = rng
        self._now_s = 0.0
        self._clock_resolution = _RESOLUTION_S
        self._selector = _TimeJump(self)
        self._ready: deque[asyncio.Handle] = (
            _DrawnOrder(random.Random(rng.random())) if order is Order.DRAWN else deque()
        )
        self._scheduled: list[asyncio.TimerHandle]
        self._tasks: list[tuple[asyncio.Task[Any], contextvars.Context]] = []
        self._prune_at = 64

    def time(self) -> float:
        return self._now_s

    def jump(self, timeout_s: float) -> None:
        """Let `timeout_s` pass, to the very deadline that it was computed from, if there is one."""
        target_s = self._now_s + timeout_s
        if timeout_s and self._scheduled:
            deadline_s = self._scheduled[0].when()
            if abs(target_s - deadline_s) < _RESOLUTION_S:
                target_s = deadline_s
        self._now_s = max(self._now_s, target_s)

    def run_for(self, duration_ms: float) -> None:
        """Run everything that is due within `duration_ms`."""
        timer = self.call_later(duration_ms / 1000, self.stop)
        try:
            self.run_forever()
        finally:
            timer.cancel()

    def kill(self, process: Process) -> None:
        """Let nothing that `process` has begun ever go on."""
        assert process is not WORLD
        process.is_alive = False
        for handle in [*self._ready, *self._scheduled]:
            if process_of(handle_context(handle)) is process:
                handle.cancel()

    def close(self) -> None:
        """End the run.  Coroutines that never ended are closed now; what they begin never runs."""
        if self.is_closed():
            return
        for task, context in self._tasks:
            if not task.done():
                _bury(task, context)
        self._tasks.clear()
        super().close()

    def describe_tasks(self) -> str:
        """Who waits, and where; a line for each task."""
        lines = [f"at {self._now_s * 1000:.3f} ms:"]
        for task, context in self._tasks:
            process = process_of(context)
            if not task.done() and process.is_alive:
                lines.append(f"  {task.get_name()} of {process} at {_where(task)}")
        return "\n".join(lines)

    def call_soon(
        self,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if not process_of(context).is_alive:
            return _canceled(asyncio.Handle(callback, args, self, context))
        return super().call_soon(callback, *args, context=context)

    # There is one thread.
    call_soon_threadsafe = call_soon

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if not process_of(context).is_alive:
            timer = asyncio.TimerHandle(when, callback, args, self, context)
            # `TimerHandle.cancel` would tell the loop, which does not know this one.
            asyncio.Handle.cancel(timer)
            return timer
        return super().call_at(when, callback, *args, context=context)

    def create_task(
        self,
        coro: Generator[Any, None, _T] | Coroutine[Any, Any, _T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
        **options: Any,
    ) -> asyncio.Task[_T]:
        context = context if context is not None else contextvars.copy_context()
        task = super().create_task(coro, name=str(name or ""), context=context, **options)
        if name is None:
            # asyncio numbers its tasks for the whole program, and so differently in each run.
            task.set_name(getattr(coro, "__qualname__", "task"))
        if len(self._tasks) >= self._prune_at:
            self._tasks = [entry for entry in self._tasks if not entry[0].done()]
            self._prune_at = 2 * len(self._tasks) + 64
        self._tasks.append((task, context))
        return task

    def run_in_executor(  # type: ignore[override]  # typeshed's is an async def, asyncio's is not
        self, executor: Any, func: Callable[..., _T], *args: Any
    ) -> "asyncio.Future[_T]":
        """Call `func` on the loop after a while: a thread pool, as far as one can tell."""
        future: asyncio.Future[_T] = self.create_future()

        def call() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:  # as an executor does: it belongs to whoever awaits
                future.set_exception(error)

        self.call_later(self._rng.uniform(*self.executor_delay_ms) / 1000, call)
        return future

    async def getaddrinfo(  # type: ignore[override]
        self, host: str, port: int, **_: Any
    ) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int = 0,
        **_: Any,
    ) -> asyncio.AbstractServer:
        assert self.network is not None, "this loop has no network"
        return await self.network.open_server(protocol_factory, host or "", port)

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int, **_: Any
    ) -> tuple[asyncio.Transport, Any]:
        assert self.network is not None, "this loop has no network"
        return await self.network.open_connection(protocol_factory, host, port)

    def _process_events(self, event_list: object) -> None:
        """Nothing comes from outside."""

    def _write_to_self(self) -> None:
        """Nobody waits in a selector."""


def handle_context(handle: asyncio.Handle) -> contextvars.Context:
    """The context in which `handle` runs its callback."""
    # Handle.get_context is new in Python 3.12; the attribute is the same everywhere.
    context = handle._context  # type: ignore[attr-defined]
    assert isinstance(context, contextvars.Context)
    return context


def _where(task: "asyncio.Task[Any]") -> str:
    """The line that the innermost coroutine of `task` waits in."""
    where = "its start"
    awaited: Any = task.get_coro()
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        awaited = awaited.cr_await
    return where


def _canceled(handle: asyncio.Handle) -> asyncio.Handle:
    handle.cancel()
    return handle


def _bury(task: "asyncio.Task[Any]", context: contextvars.Context) -> None:
    """Close the coroutine of a task that will never go on, and expect no answer from it."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = task.get_coro()
    assert isinstance(coroutine, Coroutine | Generator), coroutine
    with contextlib.suppress(Exception, PowerLoss):
        # Whatever its `finally` clauses raise, in a world that is gone, is no finding.
        context.run(coroutine.close)
