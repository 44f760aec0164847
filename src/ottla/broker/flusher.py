"""Group commit: one sync for everything that was appended while the last one ran.

A response that promises durability waits: in `when_durable`, or beside many others in an
`AfterSync`.  Syncs run one after the other, each for all logs that have something unsynced; when
one ends, everybody it covers is answered in the same turn of the loop.  Where there is much to
sync, the next one begins before the last has ended, so that the disk never waits for us; but they
*count* in the order in which they began.  A sync that fails is never repeated: the kernel may have
dropped the very pages it could not write, so the data directory goes offline instead (ADR 9).
"""

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from ottla.ports import Disk, File, Folder

log = logging.getLogger(__name__)

R = TypeVar("R")

LATER_MS: Final = 200
"""How long something that nobody waits for may wait for company."""


MOST_SYNCS: Final = 2
"""How many are under way at a time."""

MUCH_BYTES: Final = 3 * 512 * 1024
"""What one log must have unsynced for a second sync to be worth its while.  With less, it would
only make the groups smaller: a sync of little takes as long as the disk takes to answer, and each
one costs us as much as it costs to receive half a megabyte."""


class Syncable(Protocol):
    """The part of a log that a flusher needs."""

    @property
    def next_offset(self) -> int: ...

    @property
    def unsynced_bytes(self) -> int:
        """What was appended since `unsynced_files` was last asked for."""
        ...

    def unsynced_files(self) -> list[File | Folder]: ...

    def mark_synced(self, up_to_offset: int) -> None: ...


class AfterSync(Generic[R]):
    """A response that may leave once `sync` is done, which it shares with all of its group.

    Whoever answers hundreds of requests after one sync looks at both; everybody else awaits it.  If
    the sync fails, the response is what `if_failed` makes of it.
    """

    __slots__ = ("if_failed", "response", "sync")

    def __init__(
        self, response: R, sync: asyncio.Future[None], if_failed: Callable[[R], R]
    ) -> None:
        self.response = response
        self.sync = sync
        self.if_failed = if_failed

    def __await__(self) -> Generator[Any, None, R]:
        try:
            yield from asyncio.shield(self.sync).__await__()  # who gives up, gives up for himself
        except OSError:  # which the flusher has told of
            return self.if_failed(self.response)
        return self.response


class _Sync:
    """One sync: what it covers, and whom."""

    __slots__ = ("error", "is_over", "marks", "waiting")

    def __init__(self, waiting: list[tuple[asyncio.Future[Any], Any]]) -> None:
        self.marks: list[tuple[Syncable, int]] = []
        self.waiting = waiting
        self.is_over = False
        self.error: OSError | None = None


class Flusher:
    """Makes appended data durable, in groups."""

    much_bytes: ClassVar[int] = MUCH_BYTES

    def __init__(
        self,
        disk: Disk,
        *,
        on_synced: Callable[[Syncable], None],
        on_failure: Callable[[OSError], None],
    ) -> None:
        self._disk = disk
        self._on_synced = on_synced
        self._on_failure = on_failure
        self._dirty: dict[int, Syncable] = {}
        self._waiting: list[tuple[asyncio.Future[Any], Any]] = []
        self._next_sync: asyncio.Future[None] | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}
        """In order: they are canceled in it, and a simulation shall be the same every time."""
        self._under_way: deque[_Sync] = deque()
        self._later: asyncio.TimerHandle | None = None
        self._failure: OSError | None = None
        self.on_duration: Callable[[float], None] = lambda duration_s: None
        """Told how many seconds each sync took."""

    @property
    def is_at_rest(self) -> bool:
        """Whether all that was noted is durable."""
        return not self._dirty and not self._tasks and self._failure is None

    def note(self, dirty: Syncable) -> None:
        """Take note that `dirty` has something to sync, and sync it soon."""
        self._dirty[id(dirty)] = dirty
        if not self._tasks or dirty.unsynced_bytes >= self.much_bytes:
            self._begin()

    def note_for_later(self, dirty: Syncable) -> None:
        """Take note of something that nobody waits for: it goes with the next sync there is."""
        self._dirty[id(dirty)] = dirty
        if not self._tasks and self._later is None:
            loop = asyncio.get_running_loop()
            self._later = loop.call_later(LATER_MS / 1000, self._begin)

    def _begin(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        is_about_to_begin = len(self._under_way) < len(self._tasks)
        if len(self._tasks) < MOST_SYNCS and not is_about_to_begin and self._failure is None:
            task = asyncio.get_running_loop().create_task(self._run())
            self._tasks[task] = None

    def forget(self, gone: Syncable) -> None:
        """Take note that `gone` was deleted: its files are closed, and nobody misses them."""
        self._dirty.pop(id(gone), None)

    def when_durable(self, response: R) -> asyncio.Future[R]:
        """A future of `response` that is done once all that was noted so far is durable.

        If the sync fails it raises the `OSError` instead.
        """
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            future.set_exception(self._failure)
        elif not self._dirty and not self._tasks:
            future.set_result(response)
        else:
            self._waiting.append((future, response))
            if not self._tasks:
                self._begin()
        return future

    def after_sync(self, response: R, if_failed: Callable[[R], R]) -> AfterSync[R]:
        """As `when_durable`, with one future for all who ask before the next sync begins.

        If the sync fails, `if_failed` makes the response that is given instead.
        """
        sync = self._next_sync
        if sync is None or sync.done():
            sync = self._next_sync = self.when_durable(None)
        return AfterSync(response, sync, if_failed)

    async def flush(self) -> None:
        """Wait until all that was noted so far is durable."""
        await self.when_durable(None)

    def abandon(self) -> None:
        """Sync nothing more, as if the process had ended: who waits is never answered."""
        if self._later is not None:
            self._later.cancel()
        for task in self._tasks:
            task.cancel()

    async def _run(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            await self._sync_on()
        except Exception as error:  # a bug, and nobody knows what was synced before it
            log.exception("the end of a sync could not be taken note of")
            self._fail(OSError(errno.EIO, f"the sync cannot be relied on: {error}"))
        finally:
            del self._tasks[task]  # at once: whoever comes next must not take it for alive

    async def _sync_on(self) -> None:
        """Sync again and again, as long as there is something that no other sync will see to."""
        while self._failure is None and (self._dirty or self._waiting):
            dirty, self._dirty = self._dirty, {}
            waiting, self._waiting = self._waiting, []
            self._next_sync = None
            sync = _Sync(waiting)
            self._under_way.append(sync)
            sync.marks = [(item, item.next_offset) for item in dirty.values()]
            files = [file for item in dirty.values() for file in item.unsynced_files()]
            began_s = asyncio.get_running_loop().time()
            try:
                await self._disk.sync_files(files)
            except OSError as error:
                sync.error = error
            except Exception as error:  # a bug, but whoever waits must not wait for ever
                log.exception("a sync did not take place")
                sync.error = OSError(errno.EIO, f"the sync did not take place: {error}")
            sync.is_over = True
            self.on_duration(asyncio.get_running_loop().time() - began_s)
            self._count()
            if self._under_way and not self._has_much():
                return  # the other one goes on when it has ended

    def _has_much(self) -> bool:
        return any(item.unsynced_bytes >= self.much_bytes for item in self._dirty.values())

    def _count(self) -> None:
        """Take note of the syncs that are over, up to the first one that is not.

        One that ended before another that began earlier counts for nothing until that one is over,
        too: what it covers comes after what the other covers.
        """
        while self._under_way and self._under_way[0].is_over and self._failure is None:
            sync = self._under_way[0]
            if sync.error is not None:
                self._fail(sync.error)
                return
            self._under_way.popleft()
            try:
                for item, offset in sync.marks:
                    item.mark_synced(offset)
                    self._on_synced(item)
            except Exception:
                self._under_way.appendleft(sync)  # who waits for it shall be told
                raise
            for future, response in sync.waiting:
                if not future.done():
                    future.set_result(response)

    def _fail(self, error: OSError) -> None:
        if self._failure is not None:
            return
        log.error("sync failed, the data directory goes offline: %s", error)
        self._failure = error
        waiting = [one for sync in self._under_way for one in sync.waiting] + self._waiting
        self._waiting = []
        self._under_way.clear()
        for future, _ in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever waited may be gone; the failure itself is not missed
        self._on_failure(error)
