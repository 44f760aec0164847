"""Group commit: one sync for everything that was appended while the last one ran.

A response that promises durability waits: in `when_durable`, or beside many others in an
`AfterSync`.  Syncs run one after the other, each for all logs that have something unsynced; when
one ends, everybody it covers is answered in the same turn of the loop.  A sync that fails is never
repeated: the kernel may have dropped the very pages it could not write, so the data directory goes
offline instead (ADR 9).
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Generator
from typing import Any, Final, Generic, Protocol, TypeVar

from ottla.ports import Disk, File

log = logging.getLogger(__name__)

R = TypeVar("R")

LATER_MS: Final = 200
"""How long something that nobody waits for may wait for company."""


class Syncable(Protocol):
    """The part of a log that a flusher needs."""

    @property
    def next_offset(self) -> int: ...

    def unsynced_files(self) -> list[File]: ...

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


class Flusher:
    """Makes appended data durable, in groups."""

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
        self._task: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        self._failure: OSError | None = None

    @property
    def is_at_rest(self) -> bool:
        """Whether all that was noted is durable."""
        return not self._dirty and self._task is None and self._failure is None

    def note(self, dirty: Syncable) -> None:
        """Take note that `dirty` has something to sync, and sync it soon."""
        self._dirty[id(dirty)] = dirty
        if self._task is None:
            self._begin()

    def note_for_later(self, dirty: Syncable) -> None:
        """Take note of something that nobody waits for: it goes with the next sync there is."""
        self._dirty[id(dirty)] = dirty
        if self._task is None and self._later is None:
            loop = asyncio.get_running_loop()
            self._later = loop.call_later(LATER_MS / 1000, self._begin)

    def _begin(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._task is None and self._failure is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

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
        elif not self._dirty and self._task is None:
            future.set_result(response)
        else:
            self._waiting.append((future, response))
            if self._task is None:
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
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._dirty or self._waiting:
            dirty, self._dirty = self._dirty, {}
            waiting, self._waiting = self._waiting, []
            self._next_sync = None
            marks = [(item, item.next_offset) for item in dirty.values()]
            files = [file for item in dirty.values() for file in item.unsynced_files()]
            try:
                await self._disk.sync_files(files)
            except OSError as error:
                self._fail(error, waiting)
                return
            except Exception as error:  # no thread to sync with, or a bug: the same to who waits
                self._fail(OSError(errno.EIO, f"the sync did not take place: {error}"), waiting)
                return
            for item, offset in marks:
                item.mark_synced(offset)
                self._on_synced(item)
            for future, response in waiting:
                if not future.done():
                    future.set_result(response)
        self._task = None

    def _fail(self, error: OSError, waiting: list[tuple[asyncio.Future[Any], Any]]) -> None:
        log.error("sync failed, the data directory goes offline: %s", error)
        self._failure = error
        self._task = None
        waiting += self._waiting
        self._waiting = []
        for future, _ in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever waited may be gone; the failure itself is not missed
        self._on_failure(error)
