"""Fetches that wait: until enough bytes are there, an error has to be told, or time is up.

A `PendingFetch` is registered with the partitions it waits for and looks again whenever the high
watermark of one moves.  It reads only when it is going to answer; what is not in memory then, it
waits for once more.
"""

import asyncio
from collections.abc import Awaitable, Callable
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
        answer: Callable[[], FetchResponse | Awaitable[FetchResponse]],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[FetchResponse] = loop.create_future()
        self._partitions = partitions
        self._has_enough = has_enough
        self._answer = answer
        self._reading: asyncio.Future[FetchResponse] | None = None  # the wait for the disk, if any
        self._timer = loop.call_later(min(max_wait_ms, MAX_WAIT_MS) / 1000, self._finish)
        self.future.add_done_callback(self._let_go)
        for partition in partitions:
            partition.waiters.append(self)

    def on_advance(self, partition: Partition) -> None:
        """The high watermark of `partition` moved, which has forgotten us by now."""
        if self.future.done() or self._reading is not None:
            return
        if self._has_enough():
            self._finish()
        else:
            partition.waiters.append(self)

    def _finish(self) -> None:
        if self.future.done() or self._reading is not None:
            return
        answer = self._answer()
        if isinstance(answer, FetchResponse):
            self.future.set_result(answer)
        else:
            self._reading = asyncio.ensure_future(answer)
            self._reading.add_done_callback(self._pass_on)

    def _pass_on(self, reading: asyncio.Future[FetchResponse]) -> None:
        if self.future.done():
            return
        if reading.cancelled():
            self.future.cancel()
        elif (error := reading.exception()) is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(reading.result())

    def _let_go(self, future: asyncio.Future[FetchResponse]) -> None:
        """Answered, or the client went away: nothing may keep us alive."""
        self._timer.cancel()
        if self._reading is not None:
            self._reading.cancel()
        for partition in self._partitions:
            if self in partition.waiters:
                partition.waiters.remove(self)
