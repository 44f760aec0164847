"""The data directory: opens the logs, keeps their checkpoints, lets go of what is deleted.

What exists is decided by the metadata store; this class makes the disk follow.  A folder that
metadata does not know is moved aside and named in the log, never deleted: if metadata was lost, it
may be all that is left.

The recovery points say up to where a log was synced.  They may lag behind, which costs time at the
next start, but must never run ahead: what lies below one and is damaged is reported, not cut.

A log that cannot be opened is offline.  If it is damaged, it stays so until somebody has looked; if
only room was missing, it is opened as soon as there is some.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from ottla.broker.config import BrokerConfig
from ottla.broker.flusher import Flusher
from ottla.broker.partition import Partition
from ottla.broker.partitions import Partitions
from ottla.cluster.controller import Controller
from ottla.cluster.image import PartitionImage, TopicImage
from ottla.errors import ErrorCode, StorageError
from ottla.log import checkpoints, files
from ottla.log.log import Log
from ottla.log.recovery import names_to_read
from ottla.log.segment import Segment
from ottla.ports import MAY_PASS, Disk, Ports
from ottla.values import dataclass

log = logging.getLogger(__name__)

_DELETED: Final = "-delete"
_STRAY: Final = "-stray"
_COPIED_BYTES: Final = 1024 * 1024
"""How much of a log is in memory at a time while it is written again."""


Points = tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]
"""How far logs are durable, and where they start."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What was found at the start, for the banner."""

    topic_count: int
    partition_count: int
    was_clean: bool
    offline: tuple[str, ...]


class Storage:
    """All logs of one data directory."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        ports: Ports,
        controller: Controller,
        partitions: Partitions,
        flusher: Flusher | None,
    ) -> None:
        self._config = config
        self._ports = ports
        self._disk = ports.disk
        self._controller = controller
        self._partitions = partitions
        self._flusher = flusher
        self._recovery_points: dict[tuple[str, int], int] = {}
        self._start_offsets: dict[tuple[str, int], int] = {}
        self._written: dict[tuple[str, int], int] = {}
        """The partitions that the checkpoints on disk name, and the recovery points there."""
        self._was_clean = False
        self._late: dict[tuple[str, int], bytes] = {}
        """Partitions that are offline for want of room, and the ids of their topics."""
        self._deleted_count = 0
        self._doomed: list[str] = []

    def open(self) -> Opened:
        """Open every log that metadata knows."""
        self._recovery_points = checkpoints.read_offsets(self._disk, files.RECOVERY_POINTS)
        self._start_offsets = checkpoints.read_offsets(self._disk, files.START_OFFSETS)
        self._written = dict.fromkeys(self._start_offsets, 0) | self._recovery_points
        self._was_clean = checkpoints.had_clean_shutdown(self._disk)
        if self._was_clean:
            self._disk.remove(files.CLEAN_SHUTDOWN)  # durably so by the sync below
        image = self._controller.image
        self._tidy(image.topics.values())
        offline = [
            files.folder_of(topic.name, partition.index)
            for topic in image.topics.values()
            for partition in topic.partitions
            if not self._open_partition(topic, partition)
        ]
        # Before anything is written: the mark of a clean stop must not come back with the power,
        # and a folder that was made just now must not go with it, and its records.
        self._disk.sync_folder("")
        was_clean, self._was_clean = self._was_clean, False
        self._keep_offline_points()
        return Opened(
            len(image.topics),
            sum(len(topic.partitions) for topic in image.topics.values()),
            was_clean,
            tuple(offline),
        )

    def follow(self, name: str) -> None:
        """Metadata changed for a topic: create, reconfigure or remove its partitions."""
        topic = self._controller.image.topics.get(name)
        if topic is None:
            self._remove(name)
            return
        is_new = False
        for partition in topic.partitions:
            found = self._partitions.find(name, partition.index)
            if found is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._open_partition(topic, partition)
                is_new = True
            elif isinstance(found, Partition):
                found.reconfigure(self._controller.topic_config(name))
        if is_new:
            self._disk.sync_folder("")

    async def open_late(self) -> bool:
        """Open the partitions that there was no room for; whether any are open now.

        Each is recovered as after a crash.  What that takes is read aside; the rest is done in one
        go, which holds up clients, and is rare.
        """
        opened_count = 0
        for key in list(self._late):
            await _bring(self._disk, files.folder_of(*key), self._recovery_points.get(key, 0))
            topic = self._controller.image.topics.get(key[0])
            if topic is None or key not in self._late:
                continue  # it was deleted meanwhile
            if not self._open_partition(topic, topic.partitions[key[1]]):
                break  # nor will there be room for the next one
            log.info("partition online, there is room again: topic=%s partition=%d", *key)
            opened_count += 1
            self._disk.sync_folder("")
            await asyncio.sleep(0)
        return opened_count > 0

    def take_offline(self) -> None:
        """The disk failed.  What is known of the logs stays, as of others that are offline."""
        for partition in self._partitions.all():
            key = (partition.topic, partition.index)
            self._recovery_points[key] = self._written.get(key, 0)
            self._start_offsets[key] = partition.log.start_offset
        self._partitions.take_offline()

    def reconfigure_all(self) -> None:
        """The defaults of all topics changed."""
        for partition in self._partitions.all():
            partition.reconfigure(self._controller.topic_config(partition.topic))

    async def delete_doomed(self) -> None:
        """Remove the folders of deleted topics, one file after the other."""
        while self._doomed:
            folder = self._doomed[0]
            with suppress(FileNotFoundError):  # somebody else was quicker
                for name in self._disk.names(folder):
                    with suppress(FileNotFoundError):
                        await self._disk.remove_aside(f"{folder}/{name}")
                self._disk.remove_folder(folder)
            self._doomed.remove(folder)  # not before: it may have to be tried again

    def checkpoint(self) -> None:
        """Write down how far every log is durable and where it starts."""
        online = {(p.topic, p.index): p.log.settle() for p in self._partitions.all()}
        points = self._recovery_points | online
        checkpoints.write_offsets(self._disk, files.RECOVERY_POINTS, points)
        self._written = points
        self.checkpoint_starts()

    def checkpoint_starts(self) -> None:
        """Write down where every log starts; segments below may be deleted after it."""
        online = {(p.topic, p.index): p.log.start_offset for p in self._partitions.all()}
        starts = self._start_offsets | online
        checkpoints.write_offsets(self._disk, files.START_OFFSETS, starts)
        self._written = dict.fromkeys(starts, 0) | self._written

    def points(self) -> Points:
        """How far every log is durable, and where it starts: as it is now."""
        online = self._partitions.all()
        synced = {(p.topic, p.index): p.log.synced_offset for p in online}
        starts = {(p.topic, p.index): p.log.start_offset for p in online}
        return self._recovery_points | synced, self._start_offsets | starts

    def idle_folders(self) -> list[str]:
        """The folders of logs that are not open: damaged, or not known to metadata."""
        is_open = {files.folder_of(p.topic, p.index) for p in self._partitions.all()}
        return [
            name
            for name in self._disk.names("")
            if name not in is_open
            and not name.endswith(_DELETED)
            and _is_partition(self._disk, name)
        ]

    def close(self) -> None:
        """Close all logs so that the next start need not look into them.

        With one that is offline it has to: the mark speaks for all of them.
        """
        for partition in self._partitions.all():
            partition.log.write_out()
            partition.log.sync()
        self.checkpoint()
        if not self._partitions.has_offline:
            checkpoints.mark_clean_shutdown(self._disk, broker_epoch=-1)
        self.abandon()

    def abandon(self) -> None:
        """Let go of all files and write nothing more."""
        for partition in self._partitions.all():
            partition.is_closed = True
            partition.log.abandon()

    def _keep_offline_points(self) -> None:
        """Go on writing down what is known of partitions that could not be opened.

        Without its recovery point, their damage would count as an unsynced tail next time, and be
        cut.
        """
        for points in (self._recovery_points, self._start_offsets):
            for key in list(points):
                if self._partitions.find(*key) is not ErrorCode.KAFKA_STORAGE_ERROR:
                    del points[key]

    def _open_partition(self, topic: TopicImage, partition: PartitionImage) -> bool:
        """Open one log; where it is damaged, its partition answers KAFKA_STORAGE_ERROR."""
        key = (topic.name, partition.index)
        config = self._controller.topic_config(topic.name)
        try:
            self._claim_folder(topic, partition.index)
            records = Log.open(
                self._disk,
                files.folder_of(*key),
                config,
                now_ms=self._ports.clock.now_ms(),
                recovery_point=self._recovery_points.get(key, 0),
                start_offset=self._start_offsets.get(key, 0),
                was_clean=self._was_clean,
            )
            if not self._was_clean:
                recovery_point = self._recovery_points.get(key, 0)
                _save_again(records, recovery_point, is_synced=self._flusher is not None)
        except (StorageError, OSError) as error:
            if key not in self._late:
                log.error("partition offline: topic=%s partition=%d reason=%s", *key, error)
            if isinstance(error, OSError) and error.errno in MAY_PASS:
                self._late[key] = topic.topic_id
            else:
                self._late.pop(key, None)
            self._partitions.put(*key, ErrorCode.KAFKA_STORAGE_ERROR)
            return False
        self._late.pop(key, None)
        self._partitions.put(
            *key,
            Partition(
                topic=topic.name,
                index=partition.index,
                records=records,
                leader_epoch=max(partition.leader_epoch, records.latest_epoch),
                config=config,
                flusher=self._flusher,
                max_decompressed_bytes=self._config.max_decompressed_bytes,
            ),
        )
        return True

    def _claim_folder(self, topic: TopicImage, index: int) -> None:
        """Make sure the folder is this topic's and not that of an earlier one with its name."""
        folder = files.folder_of(topic.name, index)
        if self._disk.exists(folder):
            owner = _topic_id_in(self._disk, folder)
            if owner == topic.topic_id:
                return
            if owner is None:  # a crash came before it was written, or there was no room
                checkpoints.write_topic_id(self._disk, folder, topic.topic_id)
                return
            self._move_aside(folder)
        self._forget_points((topic.name, index))
        self._disk.make_folder(folder)
        checkpoints.write_topic_id(self._disk, folder, topic.topic_id)

    def _forget_points(self, key: tuple[str, int]) -> None:
        """What is written down of a partition without a folder was true of another one.

        It must be gone from disk before there is a new folder: an empty log that was durable up to
        some offset would look damaged.
        """
        if self._recovery_points.pop(key, 0) > 0:
            log.warning("partition begins empty, it had no folder: topic=%s partition=%d", *key)
        self._start_offsets.pop(key, None)
        if key in self._written:
            self.checkpoint()

    def _remove(self, name: str) -> None:
        """Rename a topic's folders, so that a crash leaves no half topic; they go later."""
        for points in (self._recovery_points, self._start_offsets):
            for key in [key for key in points if key[0] == name]:
                del points[key]
        doomed = []
        for key in [key for key in self._late if key[0] == name]:
            folder, topic_id = files.folder_of(*key), self._late.pop(key)
            if _is_folder_of(self._disk, topic_id, folder):
                doomed.append(folder)
        for partition in self._partitions.remove(name):
            partition.close()
            doomed.append(files.folder_of(name, partition.index))
        for folder in doomed:
            self._deleted_count += 1
            target = f"{folder}.{self._ports.clock.now_ms()}-{self._deleted_count}{_DELETED}"
            try:
                self._disk.rename(folder, target)
            except OSError as error:
                _tell_of_remains(folder, error)
            else:
                self._doomed.append(target)
        self._disk.sync_folder("")

    def _tidy(self, topics: Iterable[TopicImage]) -> None:
        """Finish interrupted deletions, and move aside what metadata does not know."""
        known = {
            files.folder_of(topic.name, partition.index)
            for topic in topics
            for partition in topic.partitions
        }
        for name in self._disk.names(""):
            if name == files.FROZEN:
                from ottla.broker.freezing import remove_frozen  # it is rare, and above us

                remove_frozen(self._disk)
            elif name.endswith(_DELETED):
                _delete_folder(self._disk, name)
            elif (
                name not in known and not name.endswith(_STRAY) and _is_partition(self._disk, name)
            ):
                self._move_aside(name)

    def _move_aside(self, folder: str) -> None:
        target = f"{folder}.{self._ports.clock.now_ms()}{_STRAY}"
        log.warning(
            "folder moved aside, metadata does not know it: folder=%s now=%s", folder, target
        )
        self._disk.rename(folder, target)
        self._disk.sync_folder("")


def _is_partition(disk: Disk, folder: str) -> bool:
    """Whether there is, or was, a log in a folder; what else lies about is none of ours."""
    try:
        names = disk.names(folder)
    except NotADirectoryError:
        return False
    return any(n == files.PARTITION_METADATA or files.parse_name(n) is not None for n in names)


def _topic_id_in(disk: Disk, folder: str) -> bytes | None:
    """The topic that a folder says it belongs to; None if it does not, or not legibly."""
    try:
        return checkpoints.read_topic_id(disk, folder)
    except StorageError as error:
        log.warning("topic id passed over: folder=%s reason=%s", folder, error)
        return None


def _is_folder_of(disk: Disk, topic_id: bytes, folder: str) -> bool:
    """Whether a folder is of this topic.  If that cannot be told, it is left alone.

    It may still be that of an earlier topic, which there was no room to move aside.
    """
    try:
        return disk.exists(folder) and _topic_id_in(disk, folder) in (None, topic_id)
    except OSError as error:
        _tell_of_remains(folder, error)
        return False


def _tell_of_remains(folder: str, error: OSError) -> None:
    """The topic is gone from metadata, and its folder is not; the next start moves it aside."""
    log.error("folder not removed: folder=%s reason=%s", folder, error)


async def _bring(disk: Disk, folder: str, recovery_point: int) -> None:
    """Have in memory what recovery of a log will read.  If that cannot be, it will tell why."""
    with suppress(OSError):
        for name in names_to_read(disk.names(folder), recovery_point):
            file = disk.open(f"{folder}/{name}")
            try:
                size_bytes = file.size_bytes()
            finally:
                file.close()
            await disk.warm(f"{folder}/{name}", 0, size_bytes)


def _delete_folder(disk: Disk, folder: str) -> None:
    for name in disk.names(folder):
        disk.remove(f"{folder}/{name}")
    disk.remove_folder(folder)


def _save_again(records: Log, recovery_point: int, *, is_synced: bool) -> None:
    """Make durable what a crash may have left in the page cache: it will be shown from now on.

    A sync is not enough.  If the last one failed, the kernel counts its pages as written: they are
    read as they were, no further sync touches them, and they are gone with the power.  So
    everything that was not known to be durable is written once more, in place.
    """
    try:
        for segment in records.segments:
            _write_again(segment, recovery_point)
        if is_synced:
            records.sync()
    except (OSError, StorageError):
        records.abandon()
        raise


def _write_again(segment: Segment, from_offset: int) -> None:
    """Write the batches from the one that holds `from_offset` on once more, where they are."""
    spot = segment.find(from_offset) if segment.next_offset > from_offset else None
    position = spot.position if spot is not None else segment.size_bytes
    while position < segment.size_bytes:
        end = min(position + _COPIED_BYTES, segment.size_bytes)
        segment.file.write(position, segment.file.read(position, end - position))
        position = end
