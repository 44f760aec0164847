"""Fetches that wait: until enough bytes are there, an error has to be told, or time is up.

A `PendingFetch` is registered with the partitions it waits for and looks again whenever the high
watermark of one moves.  It reads only when it is going to answer.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from ottla.broker.partition import Partition
from ottla.wire.messages.fetch import FetchResponse

MAX_WAIT_MS: Final = 5 * 60 * 1000
"""A client may ask for 24 days; nobody who still waits after five minutes is served by more."""


class PendingFetch:
    """One fetch that found too little.  Its future gets the response."""

    def __init__(
        self,
        *,
        partitions: list[Partition],
        max_wait_ms: int,
        has_enough: Callable[[], bool],
        answer: Callable[[], FetchResponse],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[FetchResponse] = loop.create_future()
        self._partitions = partitions
        self._has_enough = has_enough
        self._answer = answer
        self._timer = loop.call_later(min(max_wait_ms, MAX_WAIT_MS) / 1000, self._finish)
        self.future.add_done_callback(self._let_go)
        for partition in partitions:
            partition.waiters.append(self)

    def on_advance(self, partition: Partition) -> None:
        """The high watermark of `partition` moved, which has forgotten us by now."""
        if self.future.done():
            return
        if self._has_enough():
            self._finish()
        else:
            partition.waiters.append(self)

    def _finish(self) -> None:
        if not self.future.done():
            self.future.set_result(self._answer())

    def _let_go(self, future: asyncio.Future[FetchResponse]) -> None:
        """Answered, or the client went away: nothing may keep us alive."""
        self._timer.cancel()
        for partition in self._partitions:
            if self in partition.waiters:
                partition.waiters.remove(self)
