"""The owner of a program's tasks: starts them, watches them, stops them; and hears signals.

A task that ends by an exception is a bug or a broken machine.  It is logged, and the program stops:
half a broker is worse than none.  This is the only place that catches `Exception`.

    async with Supervisor() as supervisor:
        supervisor.stop_on_signals()
        supervisor.start("flusher", flusher.run())
        await supervisor.stopping()

On the way out tasks are canceled one by one, the last started first, since it may use the others.
"""

import asyncio
import logging
import signal
from collections.abc import Coroutine, Sequence
from types import FrameType, TracebackType
from typing import Any, Final, Self

log = logging.getLogger(__name__)

STOP_TIMEOUT_S: Final = 10.0
"""How long a task may take to end once it was canceled."""


class Supervisor:
    """An asynchronous context manager; what it started does not outlive it.

    Leaving it raises the exception of the first task that crashed, if one did.
    """

    def __init__(self, *, stop_timeout_s: float = STOP_TIMEOUT_S) -> None:
        self._stop_timeout_s = stop_timeout_s
        self._tasks: list[asyncio.Task[None]] = []
        self._signals: list[signal.Signals] = []
        self._crash: Exception | None = None
        self._stop_reason: str | None = None
        self._stop_asked = asyncio.Event()

    @property
    def stop_reason(self) -> str | None:
        """Why the program stops, or `None` while it runs."""
        return self._stop_reason

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` until it ends or the program stops.  Ending in peace is fine."""
        task = asyncio.get_running_loop().create_task(self._watch(name, work), name=name)
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)
        task.add_done_callback(lambda _: work.close())  # if it was canceled before it began

    def stop(self, reason: str) -> None:
        """Let `stopping` return.  Only the first reason counts."""
        if self._stop_reason is None:
            self._stop_reason = reason
            log.info("stopping: %s", reason)
            self._stop_asked.set()

    def stop_on_signals(
        self, signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)
    ) -> None:
        """Stop in good order at the first signal; a second one does what it always does."""
        loop = asyncio.get_running_loop()

        # Not by the loop's own way, which has `inspect` look whether a handler is a coroutine: to
        # load that takes a broker longer than to open its data directory.
        def tell(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self._on_signal, signal.Signals(number))

        for number in signals:
            signal.signal(number, tell)
            self._signals.append(number)

    async def stopping(self) -> None:
        """Wait until somebody asks to stop: a signal, a crashed task, or `stop`."""
        await self._stop_asked.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            while self._tasks:
                await self._end(self._tasks[-1])
        finally:
            self._ignore_signals()
        if self._crash is not None and error is None:
            raise self._crash

    async def _watch(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            log.exception("task crashed: %s", name)
            if self._crash is None:
                self._crash = error
            self.stop(f"{name} crashed")

    async def _end(self, task: "asyncio.Task[None]") -> None:
        task.cancel()
        _, late = await asyncio.wait([task], timeout=self._stop_timeout_s)
        if late:
            log.error("task %s did not end within %s s", task.get_name(), self._stop_timeout_s)
            self._tasks.remove(task)
            task.remove_done_callback(self._tasks.remove)

    def _on_signal(self, number: signal.Signals) -> None:
        self._ignore_signals()
        self.stop(f"{number.name} received")

    def _ignore_signals(self) -> None:
        """From now on signals do what they always do: they end the program."""
        while self._signals:
            number = self._signals.pop()
            usual = signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL
            signal.signal(number, usual)
