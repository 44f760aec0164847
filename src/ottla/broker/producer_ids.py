"""Producer ids, handed out one by one from blocks that the controller never gives twice."""

import asyncio
from collections.abc import Iterator
from typing import Final

from ottla.cluster.controller import Controller

_EMPTY: Final[Iterator[int]] = iter(())


class ProducerIds:
    """A supply of ids that nobody else has or had.  What is left of a block at the end is lost."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._block = _EMPTY
        self._refill = asyncio.Lock()

    async def next_id(self) -> int:
        """An unused id; the first of a block waits until the block is durably ours."""
        while (producer_id := next(self._block, None)) is None:
            async with self._refill:
                if (producer_id := next(self._block, None)) is not None:
                    break
                self._block = iter(await self._controller.allocate_producer_ids())
        return producer_id
