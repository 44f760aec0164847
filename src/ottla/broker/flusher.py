"""Group commit: one sync for everything that was appended while the last one ran.

A response that promises durability waits: in `when_durable`, or beside many others in an
`AfterSync`.  Syncs run one after the other, each for all logs that have something unsynced; when
one ends, everybody it covers is told in the same turn of the loop.  Where there is much to
sync, the next one begins before the last has ended, so that the disk never waits for us; but they
*count* in the order in which they began.  A sync that fails is never repeated: the kernel may have
dropped the very pages it could not write, so the data directory goes offline instead (ADR 9).
"""

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
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


EARLY_BYTES: Final = 256 * 1024
"""What one log must have unsynced for the disk to be told before the sync begins.  It saves a tenth
of a millisecond, and costs a call."""


class Syncable(Protocol):
    """The part of a log that a flusher needs."""

    @property
    def next_offset(self) -> int: ...

    @property
    def unsynced_bytes(self) -> int:
        """What was appended since `unsynced_files` was last asked for."""
        ...

    def begin_writeback(self) -> None:
        """Let the disk begin with what was appended last."""
        ...

    def unsynced_files(self) -> list[File | Folder]: ...

    def mark_synced(self, up_to_offset: int) -> None: ...


Told = Callable[["Sync"], None]


class Sync:
    """One sync: what it covers, who waits for it, and how it went.

    It is no future: who waits is called in the turn of the loop in which the disk is done.
    """

    __slots__ = ("error", "has_ended", "is_over", "is_wanted", "marks", "waiting")

    def __init__(self) -> None:
        self.marks: list[tuple[Syncable, int]] = []
        self.waiting: list[Told] = []
        self.is_wanted = False
        """Whether somebody waits for it, or is about to, so that it must take place."""
        self.has_ended = False
        """Whether the disk is done, which counts once all that began before it have ended."""
        self.is_over = False
        """Whether it counts, or has failed."""
        self.error: OSError | None = None

    def when_over(self, told: Told) -> None:
        """Have `told` called once it is over: now, if it is."""
        if self.is_over:
            told(self)
        else:
            self.waiting.append(told)

    def tell(self) -> None:
        """It is over: call everybody who waits, in the order in which they came."""
        self.is_over = True
        waiting, self.waiting = self.waiting, []
        for told in waiting:
            try:
                told(self)
            except Exception:  # a bug, but the others wait, too
                log.exception("somebody could not be told of a sync")


class AfterSync(Generic[R]):
    """A response that may leave once `sync` is over, which it shares with all of its group.

    Whoever answers hundreds of requests after one sync looks at both; everybody else awaits it.  If
    the sync fails, the response is what `if_failed` makes of it.
    """

    __slots__ = ("if_failed", "response", "sync")

    def __init__(self, response: R, sync: Sync, if_failed: Callable[[R], R]) -> None:
        self.response = response
        self.sync = sync
        self.if_failed = if_failed

    @property
    def outcome(self) -> R:
        """What to answer, now that the sync is over."""
        return self.response if self.sync.error is None else self.if_failed(self.response)

    def __await__(self) -> Generator[Any, None, R]:
        if not self.sync.is_over:
            told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.sync.when_over(lambda _: None if told.done() else told.set_result(None))
            yield from told
        return self.outcome


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
        self._next = Sync()
        """The one that will begin next, with those who wait for it already."""
        self._will_begin = False
        self._under_way: deque[Sync] = deque()
        """Those that do not count yet, in the order in which they began."""
        self._later: asyncio.TimerHandle | None = None
        self._failure: OSError | None = None
        self._is_abandoned = False
        self.on_duration: Callable[[float], None] = lambda duration_s: None
        """Told how many seconds each sync took."""

    @property
    def is_at_rest(self) -> bool:
        """Whether all that was noted is durable."""
        return not self._dirty and not self._is_busy and self._failure is None

    @property
    def _is_busy(self) -> bool:
        return self._will_begin or bool(self._under_way)

    def note(self, dirty: Syncable) -> None:
        """Take note that `dirty` has something to sync, and sync it soon."""
        self._dirty[id(dirty)] = dirty
        if not self._under_way:
            if dirty.unsynced_bytes >= EARLY_BYTES:
                dirty.begin_writeback()  # only now: to a disk with a long queue, it could wait
            self._begin_soon()
        elif dirty.unsynced_bytes >= self.much_bytes:
            self._begin_soon()

    def note_for_later(self, dirty: Syncable) -> None:
        """Take note of something that nobody waits for: it goes with the next sync there is."""
        self._dirty[id(dirty)] = dirty
        if not self._is_busy and self._later is None:
            loop = asyncio.get_running_loop()
            self._later = loop.call_later(LATER_MS / 1000, self._begin_soon)

    def forget(self, gone: Syncable) -> None:
        """Take note that `gone` was deleted: its files are closed, and nobody misses them."""
        self._dirty.pop(id(gone), None)

    def when_durable(self, response: R) -> asyncio.Future[R]:
        """A future of `response` that is done once all that was noted so far is durable.

        If the sync fails it raises the `OSError` instead.
        """
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def told(sync: Sync) -> None:
            if future.done():
                return
            if sync.error is None:
                future.set_result(response)
            else:
                future.set_exception(sync.error)
                future.exception()  # whoever waited may be gone; the failure itself is not missed

        self._covering().when_over(told)
        return future

    def after_sync(self, response: R, if_failed: Callable[[R], R]) -> AfterSync[R]:
        """As `when_durable`, with one sync for all who ask before the next one begins.

        If it fails, `if_failed` makes the response that is given instead.
        """
        return AfterSync(response, self._covering(), if_failed)

    def _covering(self) -> Sync:
        """The sync that covers all that was noted so far: one that is over, or will be."""
        if self._dirty and self._failure is None:
            self._next.is_wanted = True
            if not self._under_way:
                self._begin_soon()
            return self._next
        if self._under_way:
            return self._under_way[-1]
        past = Sync()
        past.is_over, past.error = True, self._failure
        return past

    async def flush(self) -> None:
        """Wait until all that was noted so far is durable."""
        await self.when_durable(None)

    def abandon(self) -> None:
        """Sync nothing more, as if the process had ended: who waits is never answered."""
        self._is_abandoned = True
        if self._later is not None:
            self._later.cancel()

    def _begin_soon(self) -> None:
        """Begin a sync in the next turn of the loop: all who come in this one shall share it."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if not self._will_begin and self._has_room:
            self._will_begin = True
            asyncio.get_running_loop().call_soon(self._begin)

    @property
    def _has_room(self) -> bool:
        return sum(not sync.has_ended for sync in self._under_way) < MOST_SYNCS

    def _begin(self) -> None:
        self._will_begin = False
        if self._failure is not None or self._is_abandoned:
            return
        dirty, self._dirty = self._dirty, {}
        sync, self._next = self._next, Sync()
        self._under_way.append(sync)
        try:
            sync.marks = [(item, item.next_offset) for item in dirty.values()]
            files = [file for item in dirty.values() for file in item.unsynced_files()]
            began_s = asyncio.get_running_loop().time()
            self._disk.begin_sync(files, partial(self._end, sync, began_s))
        except Exception as error:
            self._fail_for_a_bug(error)

    def _end(self, sync: Sync, began_s: float, error: Exception | None) -> None:
        """The disk is done.  Begin the next sync first: its thread waits for us to stop working."""
        if self._is_abandoned or self._failure is not None:
            return
        sync.has_ended = True
        sync.error = _as_failure(error)
        over: list[Sync] = []
        try:
            self.on_duration(asyncio.get_running_loop().time() - began_s)
            self._count(over)
        except Exception as bug:
            self._fail_for_a_bug(bug)
        try:
            if self._must_go_on():
                self._begin()
        finally:
            for each in over:
                each.tell()

    def _must_go_on(self) -> bool:
        """Whether there is something that no sync will see to that is under way, or will begin."""
        if self._will_begin or self._failure is not None:
            return False
        if not self._under_way:
            return bool(self._dirty) or self._next.is_wanted
        return self._has_room and any(
            item.unsynced_bytes >= self.much_bytes for item in self._dirty.values()
        )

    def _count(self, over: list[Sync]) -> None:
        """Take note of the syncs that have ended, up to the first one that has not.

        One that ended before another that began earlier counts for nothing until that one has, too:
        what it covers comes after what the other covers.  Those that count are added to `over`.
        """
        while self._under_way and self._under_way[0].has_ended:
            sync = self._under_way[0]
            if sync.error is not None:
                self._fail(sync.error)
                return
            for item, offset in sync.marks:
                item.mark_synced(offset)
                self._on_synced(item)
            over.append(self._under_way.popleft())

    def _fail_for_a_bug(self, bug: Exception) -> None:
        """Nobody knows what was synced before it."""
        log.exception("a sync could not be begun, or taken note of")
        self._fail(OSError(errno.EIO, f"the sync cannot be relied on: {bug}"))

    def _fail(self, error: OSError) -> None:
        if self._failure is not None:
            return
        log.error("sync failed, the data directory goes offline: %s", error)
        self._failure = error
        lost = [*self._under_way, self._next]
        self._under_way.clear()
        self._next = Sync()
        try:
            self._on_failure(error)  # first: who is told goes on, and nothing may be written then
        finally:
            for sync in lost:
                sync.error = error
                sync.tell()


def _as_failure(error: Exception | None) -> OSError | None:
    """What is wrong with a directory whose sync has raised `error`."""
    if error is None or isinstance(error, OSError):
        return error
    log.error("a sync did not take place", exc_info=error)  # a bug, but nobody may wait for ever
    return OSError(errno.EIO, f"the sync did not take place: {error}")
