"""How programs call an engine: from threads that block, and from event loops of their own.

An engine runs on its client's own I/O thread (`OwnThread`), whoever calls it: user code that is
busy delays no heartbeat.  A blocking face waits for its coroutines with `run_blocking`, an asyncio
face awaits them with `run_async`; both run there.  In a simulation the engine runs in the loop of
the simulation (`SameLoop`), which has no other threads.

The thread starts with the first call, and belongs to the process that made it.  After a fork the
child has no such thread: every call says so, rather than wait for ever.
"""

import asyncio
import itertools
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from ottla.client.bell import call_soon_in
from ottla.client.engine import Engine
from ottla.errors import ClosedError, DeadlineError, MisuseError

if TYPE_CHECKING:
    from ottla.runtime.thread import LoopThread

T = TypeVar("T")
Work = Coroutine[Any, Any, T]
Start = Callable[[], Work[T]]

_numbers: Final[dict[str, "itertools.count[int]"]] = {}


def next_client_id(kind: str) -> str:
    """The name of a client that has none: its kind, and how many of them this process has made."""
    return f"ottla-{kind}-{next(_numbers.setdefault(kind, itertools.count(1)))}"


class Host(Protocol):
    """Where an engine runs.  What it cannot run, it closes."""

    def submit(self, work: Work[T]) -> "Future[T]":
        """Run `work` there, from another thread."""
        ...

    def begin(self, start: "Start[T]", begun: "Begun[T]") -> None:
        """As `submit`, for work that is not even made before it is there."""
        ...

    async def await_there(self, work: Work[T]) -> T:
        """Run `work` there, from the loop of the caller."""
        ...

    def call_soon(self, act: Callable[[], object]) -> None:
        """Call `act` there soon, from any thread."""
        ...

    @property
    def is_foreign(self) -> bool:
        """Whether it belongs to the process that forked this one."""
        ...

    async def close(self) -> None:
        """End what runs there; call it when nothing does any more, from any loop but its own."""
        ...

    def close_blocking(self) -> None:
        """As `close`, from a thread."""
        ...


class OwnThread:
    """An event loop on a thread of its own, made with the first call."""

    def __init__(self, name: str, engine: Engine) -> None:
        self._name = name
        self._engine = engine
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: LoopThread | None = None
        self._call_soon: Callable[[Callable[[], object]], object] = _nowhere
        self._pid = os.getpid()
        self._is_closed = False

    @property
    def is_foreign(self) -> bool:
        # Before the thread exists, a client may be carried over to a child.
        return self._loop is not None and self._pid != os.getpid()

    def submit(self, work: Work[T]) -> "Future[T]":
        try:
            loop = self._running()
        except BaseException:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, loop)

    def begin(self, start: "Start[T]", begun: "Begun[T]") -> None:
        loop = self._running()
        loop.call_soon_threadsafe(begun.begin, loop, start)

    async def await_there(self, work: Work[T]) -> T:
        return await asyncio.wrap_future(self.submit(work))

    def call_soon(self, act: Callable[[], object]) -> None:
        # Callbacks on the I/O thread may do this: nobody waits for it.
        if self._loop is None:
            self._running()
        self._call_soon(act)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close_blocking)

    def close_blocking(self) -> None:
        if self.is_foreign:
            return  # the lock may be held by a thread that this process does not have
        with self._lock:
            thread, self._thread, self._is_closed = self._thread, None, True
        if thread is not None:
            thread.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self.is_foreign:
            raise MisuseError(
                f"this client belongs to process {self._pid}, which forked process {os.getpid()}; "
                "make a new client there"
            )
        if self._is_closed:
            raise ClosedError("the client is closed")
        # Without the lock wherever that will do: an interrupt may strike right before it is let go.
        loop = self._loop or self._started()
        if asyncio._get_running_loop() is loop:
            raise MisuseError(
                "called from a callback on the client's I/O thread, which would wait for "
                "itself; hand the work to another thread"
            )
        return loop

    def _started(self) -> asyncio.AbstractEventLoop:
        from ottla.runtime.thread import LoopThread

        with self._lock:
            if self._is_closed:
                raise ClosedError("the client is closed")
            if self._loop is None:
                self._pid = os.getpid()
                loop = asyncio.new_event_loop()
                self._call_soon = call_soon_in(loop)
                self._thread = LoopThread(self._name, loop)
                # It waits for nothing, and so is over before the first work that is submitted
                # begins.
                asyncio.run_coroutine_threadsafe(self._engine.start(), loop)
                self._loop = loop
            return self._loop


def _nowhere(act: Callable[[], object]) -> None:
    raise AssertionError("there is no loop yet")


class Begun(Future[T]):
    """The future of work that is made in the loop that runs it, and canceled with it.

    It is there before the work: so there is no moment in which nobody could cancel that.
    """

    def begin(self, loop: asyncio.AbstractEventLoop, start: "Start[T]") -> None:
        """In the loop: make the work, and let it run."""
        if self.cancelled():
            return
        task = loop.create_task(start())
        task.add_done_callback(self._over)
        self.add_done_callback(lambda _: loop.call_soon_threadsafe(task.cancel))

    def _over(self, task: "asyncio.Task[T]") -> None:
        if task.cancelled():
            self.cancel()
        elif not self.set_running_or_notify_cancel():
            task.exception()  # nobody waits for it any more
        elif (error := task.exception()) is not None:
            self.set_exception(error)
        else:
            self.set_result(task.result())


class SameLoop:
    """The loop that is running anyway: for simulations, and for tests."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def is_foreign(self) -> bool:
        return False

    def submit(self, work: Work[T]) -> "Future[T]":
        work.close()
        raise MisuseError("a blocking call would stop the loop that it waits for")

    def begin(self, start: "Start[T]", begun: "Begun[T]") -> None:
        raise MisuseError("a blocking call would stop the loop that it waits for")

    async def await_there(self, work: Work[T]) -> T:
        await self._engine.start()
        return await work

    def call_soon(self, act: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_soon(act)

    async def close(self) -> None:
        """The loop goes on."""

    def close_blocking(self) -> None:
        """The loop goes on."""


class Driver:
    """An engine and its host; what the six faces hold, and hardly anything else.

    The first call starts the engine.  Closing twice is no error; every other call after it raises
    `ClosedError`.  A coroutine that cannot be run is closed.
    """

    def __init__(self, engine: Engine, host: Host | None = None) -> None:
        """`host` is by default a thread of its own."""
        self.engine = engine
        self._host = host or OwnThread(engine.client_id, engine)

    def run_blocking(self, work: Work[T], timeout_s: float | None = None) -> T:
        """Run `work` where the engine is, and wait for its result here.

        An interrupt (Ctrl-C) and a timeout cancel it, and end the wait at once.

        Raises:
            DeadlineError: It took longer than `timeout_s`.
            MisuseError: Called in a forked process, or from the I/O thread itself.
            ClosedError: The client was closed.
        """
        self._check_open(work)
        return self._waited(self._host.submit(work), timeout_s)

    def call_blocking(self, start: "Start[T]") -> T:
        """As `run_blocking`, for work that is made where it runs.

        So an interrupt never leaves work behind: neither some that was made here and was not begun,
        nor some that goes on with nobody waiting for it.
        """
        self.engine.check_open()
        begun = Begun[T]()
        try:
            self._host.begin(start, begun)
            return begun.result()
        except BaseException:
            begun.cancel()
            raise

    def _waited(self, future: "Future[T]", timeout_s: float | None = None) -> T:
        try:
            return future.result(timeout_s)
        except TimeoutError:
            if future.done():
                raise  # it is what the work itself raised
            future.cancel()
            raise DeadlineError(f"not done within {timeout_s:g} s") from None
        except BaseException:
            future.cancel()
            raise

    def start(self, work: Work[T]) -> "Future[T]":
        """Run `work` where the engine is, and do not wait for it."""
        self._check_open(work)
        return self._host.submit(work)

    async def run_async(self, work: Work[T]) -> T:
        """Run `work` where the engine is, and await its result here; canceling it cancels both."""
        self._check_open(work)
        return await self._host.await_there(work)

    def call_soon(self, act: Callable[[], object]) -> None:
        """Call `act` where the engine is, soon, without waiting: to wake something, say."""
        self._host.call_soon(act)

    def close_blocking(
        self, last: Work[None] | None = None, timeout_s: float | None = None
    ) -> None:
        """Do `last` (a flush, a goodbye), then close engine and thread; raise what `last` raised.

        After `timeout_s` the rest of `last` is given up: `DeadlineError`.
        """
        work = self._ended(last, timeout_s)
        try:
            if self.is_over:
                _drop(work, last)
            else:
                self._host.submit(work).result()
        finally:
            self._host.close_blocking()

    async def close_async(
        self, last: Work[None] | None = None, timeout_s: float | None = None
    ) -> None:
        """As `close_blocking`, from an event loop."""
        work = self._ended(last, timeout_s)
        try:
            if self.is_over:
                _drop(work, last)
            else:
                await self._host.await_there(work)
        finally:
            await self._host.close()

    @property
    def is_over(self) -> bool:
        """Whether nothing can be run any more: it is closed, or belongs to another process."""
        return self.engine.is_closed or self._host.is_foreign

    def check_home(self) -> None:
        """Raise `MisuseError` in a forked process; for calls that cross to no other thread."""
        if self._host.is_foreign:
            raise MisuseError(
                f"this client belongs to the process that forked process {os.getpid()}; make a new "
                "client there"
            )

    def _check_open(self, work: Work[Any]) -> None:
        try:
            self.engine.check_open()
        except BaseException:
            work.close()
            raise

    async def _ended(self, last: Work[None] | None, timeout_s: float | None) -> None:
        deadline = asyncio.timeout(timeout_s)
        try:
            async with deadline:
                if last is not None:
                    await last
        except TimeoutError:
            if not deadline.expired():
                raise
            raise DeadlineError(f"not closed in peace within {timeout_s:g} s") from None
        finally:
            await self.engine.close()


def _drop(*works: Work[None] | None) -> None:
    for work in works:
        if work is not None:
            work.close()
