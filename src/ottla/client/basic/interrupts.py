"""An event loop that runs while a blocking call waits, and what Ctrl-C does to it.

An interrupt may strike between any two steps of Python.  Between the moment a coroutine is made and
the moment a task runs it, an exception would leave it behind, and Python would say so on stderr; so
from before the one until after the other an interrupt is only noted, and cancels the task.
"""

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class CallLoop:
    """Runs coroutines for a caller that blocks.

    In the main thread, Ctrl-C ends what runs with KeyboardInterrupt; elsewhere, and where somebody
    else takes care of SIGINT, it is not our business.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._task: asyncio.Task[Any] | None = None
        self._was_interrupted = False

    def run(self, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the coroutine returns that `start` makes."""
        with self._noting_interrupts():
            return self._runner.run(self._begin(start))

    def close(self) -> None:
        """End the loop, and what still runs in it.  Closing twice is no error."""
        with self._noting_interrupts():
            self._runner.close()

    async def _begin(self, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._task = asyncio.current_task()
        try:
            if self._was_interrupted:
                raise asyncio.CancelledError
            return await start()
        finally:
            self._task = None

    @contextmanager
    def _noting_interrupts(self) -> Iterator[None]:
        """Raise what was noted inside at the end."""
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        self._was_interrupted = False
        signal.signal(signal.SIGINT, self._on_interrupt)
        try:
            yield
        except asyncio.CancelledError:
            if not self._was_interrupted:
                raise
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._was_interrupted:
            raise KeyboardInterrupt

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._was_interrupted:
            raise KeyboardInterrupt  # it was not the first one, and the caller is impatient
        self._was_interrupted = True
        task = self._task
        if task is not None:
            # Not now: whoever was interrupted may have looked whether the task still waits.  And
            # the loop may be asleep in its selector, which goes on sleeping after a signal.
            task.get_loop().call_soon_threadsafe(task.cancel)
