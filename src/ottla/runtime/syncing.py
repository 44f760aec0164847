"""Waiting for the disk: the threads that call `fsync`.

Appending in a thread costs ten times the append, but a sync may take longer than a heartbeat.  So
only syncs come here, and a whole group of them wakes the loop once.  There are a few threads: while
one waits for the device, another hands it the next pages; and of many small files, a file system
makes several durable with one write to its journal, if it is asked for them at the same time.
"""

import asyncio
import fcntl
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final

log = logging.getLogger(__name__)

MOST_THREADS: Final = 4

Errors = Sequence[OSError | None]
"""What became of each sync of a group, in its order."""


def sync_descriptor(descriptor: int) -> None:
    """Return once the content of the file would survive power loss."""
    if sys.platform == "darwin":
        # Its fsync leaves the data in the drive's own cache.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


class _Job:
    """A group of syncs, in shares: each share is worked off in order, by one thread."""

    def __init__(
        self,
        shares: Sequence[Sequence[int]],
        act: Callable[[int], None],
        loop: asyncio.AbstractEventLoop,
        finish: Callable[[Errors], None],
    ) -> None:
        self.shares = shares
        self._act = act
        self._loop = loop
        self._finish = finish
        self._outcomes: list[Errors] = [()] * len(shares)
        self._left_count = len(shares)
        self._lock = threading.Lock()

    def work_off(self, number: int) -> None:
        """Sync one share; whoever ends last tells the loop about all of them."""
        self._outcomes[number] = [_outcome(self._act, one) for one in self.shares[number]]
        with self._lock:
            self._left_count -= 1
            if self._left_count:
                return
        errors = [error for outcome in self._outcomes for error in outcome]
        try:
            self._loop.call_soon_threadsafe(self._finish, errors)
        except RuntimeError:
            # The loop is closed, and so nobody waits.  The next group may have another loop.
            log.warning("a sync ended after its loop had closed; errors: %s", errors)


class SyncThreads:
    """Syncs groups of descriptors in up to `most` threads, which start when they are needed."""

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._most = most
        self._work: queue.SimpleQueue[tuple[_Job, int] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._share_count = 0
        """Of those that were asked for and are not done yet."""

    async def sync(
        self,
        shares: Sequence[Sequence[int]],
        done: Callable[[Errors], None],
        act: Callable[[int], None] = sync_descriptor,
    ) -> None:
        """Sync all of them with `act`, failed ones or not, then raise the first `OSError`.

        Shares may be synced at the same time; within one, the order is kept.  `done` is called on
        the loop, before this returns, and also if the caller was canceled: the descriptors must
        stay open until then.  What it raises is raised here, too, unless a sync failed.
        """
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def finish(errors: Errors) -> None:
            self._share_count -= len(shares)
            failure: Exception | None = next(filter(None, errors), None)
            try:
                done(errors)
            except Exception as error:  # a bug, but whoever waits must not wait for ever
                log.exception("the end of a sync could not be taken note of")
                failure = failure or error
            if waiter.cancelled():
                return
            if failure is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(failure)

        job = _Job(shares, act, loop, finish)
        self._share_count += len(shares)
        while len(self._threads) < min(self._share_count, self._most):
            self._start_thread()
        for number in range(len(shares)):
            self._work.put((job, number))
        await waiter

    def stop(self) -> None:
        """Return once everything asked for is done and the threads have ended."""
        threads, self._threads = self._threads, []
        for _ in threads:
            self._work.put(None)
        for thread in threads:
            thread.join()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name="ottla-sync", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _run(self) -> None:
        while (share := self._work.get()) is not None:
            job, number = share
            job.work_off(number)


def _outcome(act: Callable[[int], None], descriptor: int) -> OSError | None:
    try:
        act(descriptor)
    except OSError as error:
        return error
    return None
