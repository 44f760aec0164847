"""Producer ids, handed out one by one from blocks that the controller never gives twice."""

import asyncio
import logging
from collections import deque

from ottla.cluster.controller import Controller

log = logging.getLogger(__name__)


class ProducerIds:
    """A supply of ids that nobody else has or had.  What is left of a block at the end is lost."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._block: deque[int] = deque()
        self._refill: asyncio.Task[None] | None = None

    async def next_id(self) -> int:
        """An unused id; the first of a block waits until the block is durably ours."""
        while (producer_id := self.take()) is None:
            await self.prepare()
        return producer_id

    def take(self) -> int | None:
        """An unused id, if there is one at hand; if not, one is fetched for the next who asks."""
        if self._block:
            return self._block.popleft()
        self._start_refill()
        return None

    async def prepare(self) -> None:
        """Wait until there is an id at hand.

        Raises:
            StorageError: The store of metadata failed.
        """
        if not self._block:
            # Others wait for it too: it goes on when the client that asked first is gone.
            await asyncio.shield(self._start_refill())

    def close(self) -> None:
        """Fetch no more."""
        if self._refill is not None:
            self._refill.cancel()

    def _start_refill(self) -> "asyncio.Task[None]":
        if self._refill is None or self._refill.done():
            self._refill = asyncio.get_running_loop().create_task(self._fetch())
            self._refill.add_done_callback(_report)
        return self._refill

    async def _fetch(self) -> None:
        self._block.extend(await self._controller.allocate_producer_ids())


def _report(refill: "asyncio.Task[None]") -> None:
    """Not everybody who needs an id waits for it, so a failure is reported here."""
    if not refill.cancelled() and (error := refill.exception()) is not None:
        log.error("no producer ids: %s", error)
