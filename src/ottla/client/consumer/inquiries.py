"""What a program may ask a consumer about offsets; the same for both faces, on the I/O thread.

Moments without a time zone are refused: they mean something else on every machine.
"""

import logging
from collections.abc import Collection, Mapping
from datetime import datetime

from ottla.client.consumer.core import Core
from ottla.client.consumer.lookups import EARLIEST, LATEST
from ottla.client.consumer.mailbox import Committed
from ottla.client.records import OffsetAndMetadata, as_partitions
from ottla.errors import OttlaError
from ottla.model import TopicPartition

log = logging.getLogger(__name__)

_MS = 1000


class Inquiries:
    """Questions to the core of one consumer."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def committed(
        self, partitions: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed, for some partitions, or for those that are assigned."""
        chosen = self._core.shelf.assigned if partitions is None else as_partitions(partitions)
        return await self._core.committed(sorted(chosen))

    async def beginning_offsets(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """First offsets."""
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Offsets after the last record that can be read."""
        return await self._ends(partitions, LATEST)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, datetime | int]
    ) -> dict[TopicPartition, int | None]:
        """First offsets from moments on; None where there is no such record."""
        wanted = {TopicPartition(*tp): _milliseconds(moment) for tp, moment in times.items()}
        found = await self._core.lookups.offsets(wanted)
        return {tp: at.offset if at.offset >= 0 else None for tp, at in found.items()}

    async def lag(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, int]:
        """How far these positions are behind the ends of their partitions."""
        ends = await self._ends(list(positions), LATEST)
        return {tp: max(0, ends[tp] - at.offset) for tp, at in positions.items()}

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit in the background; interceptors hear of it at the next poll."""
        try:
            await self._core.commit(offsets)
        except OttlaError as error:
            # Few look at the future of such a commit.
            log.warning("not committed: %s", error)
            raise
        if self._core.config.interceptors:
            self._core.mailbox.put(Committed(offsets))

    def tell(self, trouble: OttlaError) -> None:
        """Log what went wrong at the end: an error is on its way that it must not hide."""
        log.warning("trouble while closing after an error: %s", trouble)

    async def _ends(
        self, partitions: Collection[TopicPartition], which: int
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(as_partitions(partitions), which)
        found = await self._core.lookups.offsets(wanted)
        return {tp: at.offset for tp, at in found.items()}


def _milliseconds(moment: datetime | int) -> int:
    if isinstance(moment, int):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone")
    return int(moment.timestamp() * _MS)
