"""Who calls a consumer: a thread that blocks, or a task in an event loop.

What a consumer does in its caller's thread is written once, as coroutines, in terms of a `Caller`.
For a thread, a caller's awaitables are done when they return: `drive` runs such a coroutine to its
end without an event loop.
"""

import asyncio
import inspect
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from ottla.client.bell import call_soon_in
from ottla.client.faces import Driver, Work
from ottla.errors import MisuseError

T = TypeVar("T")


class Caller(Protocol):
    """How the caller's side waits, and what it calls."""

    async def run(self, work: Work[T], timeout_s: float | None = None) -> T:
        """Run `work` on the I/O thread, and wait for it."""
        ...

    async def close(self, last: Work[None], timeout_s: float) -> None:
        """Do `last` on the I/O thread, and end it; see `Driver.close_blocking`."""
        ...

    async def listen(self, timeout_s: float) -> None:
        """Wait until the bell rings, or for so long."""
        ...

    async def result(self, returned: Awaitable[None] | None) -> None:
        """Finish what a listener returned: it may be a coroutine function."""
        ...

    def ring(self) -> None:
        """Wake who listens; from any thread, and from signal handlers."""
        ...

    def who(self) -> object:
        """Who is calling now."""
        ...

    def time_s(self) -> float:
        """A clock that never jumps."""
        ...


class BlockingCaller:
    """A thread."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        # Unlike an Event, a SimpleQueue may be used in a signal handler that interrupts itself.
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_rung = False

    async def run(self, work: Work[T], timeout_s: float | None = None) -> T:
        return self._driver.run_blocking(work, timeout_s)

    async def close(self, last: Work[None], timeout_s: float) -> None:
        self._driver.close_blocking(last, timeout_s)

    async def listen(self, timeout_s: float) -> None:
        try:
            self._bell.get(timeout=timeout_s)
        except queue.Empty:
            pass
        finally:
            # Also if an interrupt came just behind the ring: or no other would ever be heard.
            self._is_rung = False

    async def result(self, returned: Awaitable[None] | None) -> None:
        if returned is None:
            return
        if inspect.iscoroutine(returned):
            returned.close()
        raise MisuseError("a listener of a blocking Consumer must not be async; use AsyncConsumer")

    def ring(self) -> None:
        if self._is_rung:
            return
        try:
            self._is_rung = True
            self._bell.put(None)
        except BaseException:
            self._bell.put(None)  # an interrupt came between the two; once too often does no harm
            raise

    def who(self) -> object:
        return threading.get_ident()

    def time_s(self) -> float:
        return time.monotonic()


class AsyncCaller:
    """A task, in whatever loop the first call was made."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._loop: asyncio.AbstractEventLoop | None = None
        self._call_soon: Callable[[Callable[[], object]], object] | None = None
        self._is_rung = False
        self._listening: asyncio.Future[None] | None = None

    async def run(self, work: Work[T], timeout_s: float | None = None) -> T:
        self._at(asyncio.get_running_loop())
        async with asyncio.timeout(timeout_s):
            return await self._driver.run_async(work)

    async def close(self, last: Work[None], timeout_s: float) -> None:
        await self._driver.close_async(last, timeout_s)

    async def listen(self, timeout_s: float) -> None:
        # A bare future and a timer: `asyncio.timeout` and an Event cost three times as much.
        loop = asyncio.get_running_loop()
        self._at(loop)
        if not self._is_rung:
            self._listening = loop.create_future()
            alarm = loop.call_later(timeout_s, self._wake)
            try:
                await self._listening
            finally:
                alarm.cancel()
                self._listening = None
        self._is_rung = False

    async def result(self, returned: Awaitable[None] | None) -> None:
        if returned is not None:
            await returned

    def ring(self) -> None:
        if self._loop is None or self._call_soon is None:
            self._is_rung = True  # nobody listens yet
        elif not self._loop.is_closed():
            self._call_soon(self._hear)

    def _at(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            self._call_soon = call_soon_in(loop)
            self._loop = loop

    def _hear(self) -> None:
        self._is_rung = True
        self._wake()

    def _wake(self) -> None:
        if self._listening is not None and not self._listening.done():
            self._listening.set_result(None)

    def who(self) -> object:
        return asyncio.current_task()

    def time_s(self) -> float:
        return asyncio.get_running_loop().time()
