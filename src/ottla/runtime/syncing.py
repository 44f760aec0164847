"""Waiting for the disk: the one thread that calls `fsync`.

Appending in a thread costs ten times the append, but a sync may take longer than a heartbeat.  So
only syncs come here, and a whole group of them wakes the loop once.
"""

import asyncio
import fcntl
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

log = logging.getLogger(__name__)

Errors = Sequence[OSError | None]
"""What became of each sync of a group, in its order."""


def sync_descriptor(descriptor: int) -> None:
    """Return once the content of the file would survive power loss."""
    if sys.platform == "darwin":
        # Its fsync leaves the data in the drive's own cache.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


class _Job(NamedTuple):
    loop: asyncio.AbstractEventLoop
    act: Callable[[int], None]
    descriptors: Sequence[int]
    finish: Callable[[Errors], None]


class SyncThread:
    """Syncs groups of descriptors, one group after the other.  The thread starts when needed."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def sync(
        self,
        descriptors: Sequence[int],
        done: Callable[[Errors], None],
        act: Callable[[int], None] = sync_descriptor,
    ) -> None:
        """Sync all of them with `act`, failed ones or not, then raise the first `OSError`.

        `done` is called on the loop, before this returns, and also if the caller was canceled: the
        descriptors must stay open until then.
        """
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def finish(errors: Errors) -> None:
            done(errors)
            if waiter.cancelled():
                return
            first = next((error for error in errors if error is not None), None)
            if first is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(first)

        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="ottla-sync", daemon=True)
            self._thread.start()
        self._jobs.put(_Job(loop, act, descriptors, finish))
        await waiter

    def stop(self) -> None:
        """Return once everything asked for is done and the thread has ended."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            errors = [_outcome(job.act, descriptor) for descriptor in job.descriptors]
            try:
                job.loop.call_soon_threadsafe(job.finish, errors)
            except RuntimeError:
                # The loop is closed, and so nobody waits.  The next group may have another loop.
                log.warning("a sync ended after its loop had closed; errors: %s", errors)


def _outcome(act: Callable[[int], None], descriptor: int) -> OSError | None:
    try:
        act(descriptor)
    except OSError as error:
        return error
    return None
