"""Housekeeping of the logs: retention, compaction, and syncs that nobody waits for.

It runs between requests, in small steps: whatever takes longer than a few milliseconds gives the
loop back in between, and what the disk takes long for is done aside.  A log that cannot be
compacted, because it is damaged, is left alone until the next start: it can still be read and
written.  Where retention meets damage, nothing goes.  After every wait a partition may be closed,
because its topic was deleted, and then its files are not ours anymore.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.broker.context import Node
from ottla.broker.partition import Partition
from ottla.broker.storage import Storage
from ottla.errors import StorageError
from ottla.log import checkpoints, files
from ottla.ports import NO_ROOM, Folder

if TYPE_CHECKING:
    from ottla.log.compaction import Compaction, Dirtiness, Unsynced

log = logging.getLogger(__name__)

_T = TypeVar("_T")

_PARTITIONS_PER_TURN: Final = 50
_SETTLING_PAUSE_MS: Final = 5


class Cleaning:
    """Looks after all partitions of a broker."""

    def __init__(self, node: Node, storage: Storage) -> None:
        self._node = node
        self._storage = storage
        self._disk = node.ports.disk
        self._cleaned_offsets = checkpoints.read_offsets(self._disk, files.CLEANED_OFFSETS)
        self._uncleanable: set[tuple[str, int]] = set()
        self._running: tuple[str, Compaction] | None = None
        self._removable: deque[tuple[Partition, str]] = deque()
        """Files of old segments, which are part of no log any more."""

    async def delete_old(self) -> None:
        """Let go of the segments that retention no longer keeps, and of producers long gone."""
        now_ms = self._node.ports.clock.now_ms()
        expiration_ms = self._node.config.transactions.producer_id_expiration_ms
        shrunk = []
        for count, partition in enumerate(self._node.partitions.all(), 1):
            if partition.is_closed:
                continue
            partition.producers.expire(now_ms, expiration_ms)
            if await self._aside(partial(self._shrinks, partition, now_ms)):
                shrunk.append(partition)
            if count % _PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        has_room = not shrunk or self._write_starts()
        for partition in shrunk:
            if partition.is_closed or partition.log.is_replacing:
                continue  # there were pauses; what is left now goes next time
            if has_room:
                self._note_removable(partition, partition.log.delete_old_segments(now_ms))
            else:
                partition.log.remove_old_segments(now_ms)
                await asyncio.sleep(0)
            log.info(
                "segments deleted: topic=%s partition=%d start_offset=%d",
                partition.topic,
                partition.index,
                partition.log.start_offset,
            )
        await self._remove_old()

    def _shrinks(self, partition: Partition, now_ms: int) -> bool:
        """Move the start of a log over what need not be kept; whether segments can go now."""
        from ottla.log.retention import apply_retention  # here, as below: nothing is old at a start

        if partition.is_closed:
            return False
        # Nobody who reads committed has been shown what is in an open transaction: it stays.
        limit = partition.last_stable_offset
        try:
            return apply_retention(partition.log, now_ms=now_ms, high_watermark=limit)
        except StorageError as error:
            key = (partition.topic, partition.index)
            log.error("retention gave up: topic=%s partition=%d reason=%s", *key, error)
            return False

    def _write_starts(self) -> bool:
        """Write down where logs start, if there is room for it.

        A disk may be full of nothing but the segments that could go: then they go in another way.
        """
        try:
            self._storage.checkpoint_starts()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            log.warning("start offsets not written, the disk is full: %s", error)
            return False
        return True

    async def compact(self) -> None:
        """Compact the logs that are dirty enough, the dirtiest first."""
        from ottla.log.compaction import Compaction

        for partition in self._node.partitions.all():
            if partition.log.is_replacing and not partition.is_closed:
                await self._finish(partition)
        await self._remove_old()
        now_ms = self._node.ports.clock.now_ms()
        due = []
        for partition in self._node.partitions.all():
            if not partition.config.is_compacted:
                continue
            dirtiness = await self._aside(partial(self._survey, partition, now_ms))
            if dirtiness is not None and dirtiness.is_due(partition.config):
                due.append((dirtiness.ratio, partition, dirtiness))
        for _, partition, dirtiness in sorted(due, key=lambda item: -item[0]):
            if partition.is_closed:
                continue
            compaction = Compaction(
                self._disk,
                partition.log,
                dirtiness,
                self._node.config.cleaner,
                now_ms=now_ms,
                max_decompressed_bytes=self._node.config.max_decompressed_bytes,
            )
            await self._run(compaction, partition)

    def _survey(self, partition: Partition, now_ms: int) -> "Dirtiness | None":
        """How dirty a log is; None if it cannot be cleaned."""
        from ottla.log.compaction import survey

        key = (partition.topic, partition.index)
        if partition.is_closed or key in self._uncleanable:
            return None
        try:
            return survey(
                partition.log,
                cleaned_offset=self._cleaned_offsets.get(key),
                last_stable_offset=partition.last_stable_offset,
                now_ms=now_ms,
            )
        except StorageError as error:
            self._give_up(key, error)
            return None

    def _give_up(self, key: tuple[str, int], error: StorageError) -> None:
        self._uncleanable.add(key)
        log.error("compaction gave up: topic=%s partition=%d reason=%s", *key, error)

    async def _run(self, compaction: "Compaction", partition: Partition) -> None:
        key = (partition.topic, partition.index)
        self._running = (partition.topic, compaction)
        try:
            while not compaction.is_done:
                await self._sync(await self._aside(compaction.step))
                self._note_removable(partition, compaction.take_replaced())
                await self._remove_old()
        except StorageError as error:
            self._give_up(key, error)
            return
        finally:
            self._running = None
            self._note_removable(partition, compaction.take_replaced())
            if not compaction.is_done:
                compaction.abandon()
        if not (partition.is_closed or compaction.was_interrupted):
            self._cleaned_offsets[key] = compaction.cleaned_offset
            checkpoints.write_offsets(self._disk, files.CLEANED_OFFSETS, self._cleaned_offsets)
            log.info(
                "log compacted: topic=%s partition=%d up_to=%d", *key, compaction.cleaned_offset
            )

    async def _finish(self, partition: Partition) -> None:
        """Put in place what compaction could not because the disk was full.

        Before that the log must not be compacted again: new segments would get the names that the
        last ones still have.
        """
        for _ in partition.log.finish_replacing():
            await self._disk.sync_files([Folder(self._disk, partition.log.folder)])
            if partition.is_closed:
                return

    async def _aside(self, read: Callable[[], _T]) -> _T:
        """What `read` gives, which is called again after each wait for the device."""
        from ottla.broker.cold_reads import without_blocking

        return await without_blocking(self._disk, read)

    async def _sync(self, unsynced: "Unsynced") -> None:
        """Wait for what a step of compaction left to sync; if nothing, give the loop back."""
        if unsynced:
            await self._disk.sync_files(unsynced)
        else:
            await asyncio.sleep(0)

    def forget(self, topic: str) -> None:
        """The topic is about to be removed: one of the same name begins uncleaned.

        Nothing may keep a topic from being removed from a full disk: what stays written down of it
        does no more harm than to have the next one cleaned later.
        """
        if self._running is not None and self._running[0] == topic:
            self._running[1].abandon()
        gone = [key for key in self._cleaned_offsets if key[0] == topic]
        for key in gone:
            del self._cleaned_offsets[key]
        if gone:
            try:
                checkpoints.write_offsets(self._disk, files.CLEANED_OFFSETS, self._cleaned_offsets)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                log.warning("cleaned offsets not written, the disk is full: %s", error)
        self._uncleanable = {key for key in self._uncleanable if key[0] != topic}

    async def checkpoint(self) -> None:
        """Write down how far every log is durable and where it starts.

        What a log has to write before, it writes in a turn of its own.  After its first records
        each has something: thousands of them would hold up everybody for seconds.
        """
        for partition in self._node.partitions.all():
            if not partition.is_closed and not partition.log.is_settled:
                partition.log.settle()
                await asyncio.sleep(_SETTLING_PAUSE_MS / 1000)
        self._storage.checkpoint()

    async def sync_rolled(self) -> None:
        """With `flush=os`: sync in the background, so that recovery points can move."""
        for partition in self._node.partitions.all():
            if not partition.is_closed and partition.log.synced_offset < partition.next_offset:
                up_to = partition.next_offset
                await self._disk.sync_files(partition.unsynced_files())
                partition.mark_synced(up_to)

    def _note_removable(self, partition: Partition, paths: list[str]) -> None:
        self._removable += ((partition, path) for path in paths)

    async def _remove_old(self) -> None:
        """Remove files of old segments, one after the other, aside: it may take a while.

        Retention may meanwhile delete what compaction has put in their place: that takes their
        very names, and whoever comes first removes it for both.
        """
        while self._removable:
            partition, path = self._removable.popleft()
            if partition.is_closed:
                continue  # they go with their topic
            try:
                with suppress(FileNotFoundError):
                    await self._disk.remove_aside(path)
            except OSError:
                self._removable.append((partition, path))
                raise
