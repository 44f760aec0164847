"""Waiting for the disk: the threads that call `fsync`, and those that read what is not in memory.

Appending in a thread costs ten times the append, but a sync may take longer than a heartbeat, and
so may a read from the device.  So only these come here, and a whole group of them wakes the loop
once.  There are a few threads: while one waits for the device, another hands it the next pages; and
of many small files, a file system makes several durable with one write to its journal, if it is
asked for them at the same time.
"""

import asyncio
import errno
import fcntl
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from ottla.runtime.attention import AttentiveLoop

log = logging.getLogger(__name__)

MOST_THREADS: Final = 4

_T = TypeVar("_T")

Errors = Sequence[OSError | None]
"""What became of each item of a group, in its order."""


def sync_descriptor(descriptor: int) -> None:
    """Return once the content of the file would survive power loss."""
    if sys.platform == "darwin":
        # Its fsync leaves the data in the drive's own cache.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


class _Job(Generic[_T]):
    """A group of items, in shares: each share is worked off in order, by one thread."""

    def __init__(
        self,
        shares: Sequence[Sequence[_T]],
        act: Callable[[_T], None],
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
        """Do one share; whoever ends last tells the loop about all of them."""
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
            log.warning("a wait for the disk outlived its loop; errors: %s", errors)


class DiskThreads:
    """Works groups of items off in up to `most` threads, which start when they are needed.

    Where the system refuses to start one, those that are there have more to do; if there is none,
    the loop does it itself: better late than never.
    """

    def __init__(self, name: str, most: int = MOST_THREADS) -> None:
        self._name = name
        self._most = most
        self._work: queue.SimpleQueue[tuple[_Job[Any], int] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._share_count = 0
        """Of those that were asked for and are not done yet."""
        self._was_refused = False

    async def work_off(self, shares: Sequence[Sequence[_T]], act: Callable[[_T], None]) -> None:
        """Have `act` called with each item, failed ones or not, then raise the first `OSError`.

        Shares may be done at the same time; within one, the order is kept.  If the caller is
        canceled, all of it takes place all the same.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.begin(shares, act, lambda errors: settle(waiter, first_of(errors)))
        await waiter

    def begin(
        self,
        shares: Sequence[Sequence[_T]],
        act: Callable[[_T], None],
        finish: Callable[[Errors], None],
    ) -> None:
        """Do the same, and have `finish` called on the loop once all of it is done."""
        loop = asyncio.get_running_loop()
        attention = loop.attention if isinstance(loop, AttentiveLoop) else None

        def done(errors: Errors) -> None:
            self._share_count -= len(shares)
            if attention is not None:
                attention.errand_count -= 1
            finish(errors)

        if attention is not None:
            attention.errand_count += 1
        job = _Job(shares, act, loop, done)
        self._share_count += len(shares)
        self._start_threads()
        for number in range(len(shares)):
            if self._threads:
                self._work.put((job, number))
            else:
                job.work_off(number)

    def stop(self) -> None:
        """Return once everything asked for is done and the threads have ended."""
        threads, self._threads = self._threads, []
        for _ in threads:
            self._work.put(None)
        for thread in threads:
            thread.join()

    def _start_threads(self) -> None:
        try:
            while len(self._threads) < min(self._share_count, self._most):
                self._start_thread()
        except RuntimeError as error:
            if not self._was_refused:  # once: it is tried each time
                log.warning("a thread for the disk is missing: name=%s %s", self._name, error)
            self._was_refused = True

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _run(self) -> None:
        while (share := self._work.get()) is not None:
            job, number = share
            job.work_off(number)


def first_of(errors: Errors) -> OSError | None:
    """What is told of all that went wrong."""
    return next(filter(None, errors), None)


def settle(waiter: "asyncio.Future[None]", error: Exception | None) -> None:
    """Tell who awaits how it went, unless he has given up."""
    if waiter.cancelled():
        return
    if error is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(error)


def _outcome(act: Callable[[_T], None], item: _T) -> OSError | None:
    try:
        act(item)
    except OSError as error:
        return error
    except Exception as error:  # a bug, but whoever waits must not wait for ever
        log.exception("a wait for the disk has failed")
        return OSError(errno.EIO, f"it was not waited for: {error!r}")
    return None
