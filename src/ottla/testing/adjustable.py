"""Real time that a test may move forward: a wall clock, and an event loop whose timers follow.

Time goes on by itself, as it does everywhere; `offset_ms` and `offset_s` say how far ahead it is.
The loop's never goes back, because timers could not bear it.
"""

import asyncio

from ottla.runtime.clock import SystemClock


class AdjustableClock(SystemClock):
    """A wall clock.  See `ottla.ports.Clock`."""

    def __init__(self) -> None:
        self.offset_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.offset_ms


class AdjustableLoop(asyncio.SelectorEventLoop):
    """An event loop.  Everything that waits in it for a time is due as soon as that has passed."""

    def __init__(self) -> None:
        self.offset_s = 0.0
        super().__init__()

    def time(self) -> float:
        return super().time() + self.offset_s
