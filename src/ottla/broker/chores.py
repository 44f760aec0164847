"""What a broker does every so often, between requests: retention, checkpoints, idle connections.

A chore never runs twice at a time, whoever asks for it: the one who comes second waits.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.ports import MAY_PASS

log = logging.getLogger(__name__)


class Chore:
    """One act and how often it is due."""

    def __init__(self, interval_ms: int, act: Callable[[], Awaitable[None] | None]) -> None:
        self._interval_ms = interval_ms
        self._act = act
        self._lock = asyncio.Lock()

    async def repeat(self) -> None:
        """Run it again and again; ends only with an error.

        A full disk is none, nor is a want of descriptors: what is there can still be read, and both
        may come back.
        """
        while True:
            await asyncio.sleep(self._interval_ms / 1000)
            try:
                await self.run()
            except OSError as error:
                if error.errno not in MAY_PASS:
                    raise
                log.warning("housekeeping put off: %s", error)

    async def run(self) -> None:
        """Run it now."""
        async with self._lock:
            result = self._act()
            if result is not None:
                await result
