"""The simulated clock: the loop's virtual time, and an offset that a test may set."""

import asyncio
from typing import Final

EPOCH_MS: Final = 1_700_000_000_000
"""What every clock shows when a run begins."""


class SimClock:
    """The wall clock of one node.  It may be wrong, as clocks are: see `offset_ms`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, offset_ms: int = 0) -> None:
        self._loop = loop
        self.offset_ms = offset_ms

    def now_ms(self) -> int:
        return EPOCH_MS + self.offset_ms + int(self._loop.time() * 1000)
