"""Fetches that wait: until enough bytes are there, an error has to be told, or time is up.

A `PendingFetch` is registered with the partitions it waits for and looks again whenever the high
watermark of one moves.  It reads only when it is going to answer; what is not in memory then, it
waits for once more.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ottla.broker.answers import Outcome, Pending
from ottla.broker.partition import Partition
from ottla.wire.messages.fetch import FetchResponse

MAX_WAIT_MS: Final = 5 * 60 * 1000
"""A client may ask for 24 days; nobody who still waits after five minutes is served by more."""


class PendingFetch(Pending):
    """One fetch that found too little."""

    __slots__ = (
        "_answer",
        "_has_enough",
        "_is_over",
        "_outcome",
        "_partitions",
        "_reading",
        "_tell",
        "_timer",
    )

    def __init__(
        self,
        *,
        partitions: list[Partition],
        max_wait_ms: int,
        has_enough: Callable[[], bool],
        answer: Callable[[], FetchResponse | Awaitable[FetchResponse]],
    ) -> None:
        self._partitions = partitions
        self._has_enough = has_enough
        self._answer = answer
        self._tell: Callable[[Outcome], None] | None = None
        self._outcome: Outcome = None  # kept for who asks later; None as long as nothing has to be
        self._reading: asyncio.Future[FetchResponse] | None = None  # the wait for the disk, if any
        self._is_over = False
        wait_s = min(max_wait_ms, MAX_WAIT_MS) / 1000
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._finish)
        for partition in partitions:
            partition.waiters[self] = None

    def when_known(self, tell: Callable[[Outcome], None]) -> None:
        if self._outcome is None:
            self._tell = tell
        else:
            asyncio.get_running_loop().call_soon(tell, self._outcome)

    def cancel(self) -> None:
        self._end()

    def on_advance(self, partition: Partition) -> None:
        """The high watermark of `partition` moved, which has forgotten us by now."""
        if self._is_over or self._reading is not None:
            return
        try:
            if not self._has_enough():
                partition.waiters[self] = None
                return
        except Exception as error:  # as below: an index that cannot be read, say
            self._end_with(error)
            return
        self._finish()

    def _finish(self) -> None:
        """Read and tell, in the same turn of the loop: who waits longest is served first."""
        if self._is_over or self._reading is not None:
            return
        try:
            answer = self._answer()
        except Exception as error:  # ours to report: whoever moved the high watermark did well
            self._end_with(error)
            return
        if isinstance(answer, FetchResponse):
            self._end_with(answer)
        else:
            self._reading = asyncio.ensure_future(answer)
            self._reading.add_done_callback(self._pass_on)

    def _pass_on(self, reading: asyncio.Future[FetchResponse]) -> None:
        if not reading.cancelled():
            error = reading.exception()
            self._end_with(reading.result() if error is None else error)

    def _end_with(self, outcome: Outcome) -> None:
        if not self._is_over:
            tell = self._tell
            self._end()
            if tell is None:
                self._outcome = outcome
            else:
                tell(outcome)

    def _end(self) -> None:
        """Answered, or the client went away: nothing may keep us alive."""
        self._is_over = True
        self._tell = None  # who is told knows us, and nobody shall wait for the collector
        self._timer.cancel()
        if self._reading is not None:
            self._reading.cancel()
        for partition in self._partitions:
            partition.waiters.pop(self, None)
