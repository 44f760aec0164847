"""Asks the cluster again and again, once for all who look.

However many browsers are open, the cluster is asked by one task.  After each sample that succeeds
it rests for at least ten times as long as that took: a large cluster is asked less often.
A sample that fails is left out of the history, and `trouble` says why until the next one succeeds.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from ottla.client.admin.admin import AsyncAdmin
from ottla.client.admin.cluster import LogDirInfo
from ottla.client.admin.groups import GroupListing
from ottla.client.admin.lag import GroupLag
from ottla.client.admin.topics import TopicInfo
from ottla.client.admin.transactions import UNENDED
from ottla.console.broker_numbers import BrokerNumbers, NumbersError, read_numbers
from ottla.console.history import LATE, FolderSample, History, Sample, TopicSample
from ottla.console.words import kept
from ottla.errors import DeniedError, NotFoundError, OttlaError, UnsupportedError

log = logging.getLogger(__name__)

MAX_GROUPS: Final = 100
"""Of so many groups the lag is looked at for each sample."""

_REST: Final = 10
MAX_REST_S: Final = 30.0
MAX_LATE: Final = 20
Folders = Mapping[int, Sequence[LogDirInfo]]


class Sampler:
    """One task that fills a history, and wakes whoever waits for the next sample."""

    def __init__(
        self, admin: AsyncAdmin, interval_s: float, numbers_url: str | None = None
    ) -> None:
        self._admin = admin
        self._numbers_url = numbers_url
        self._has_numbers = True
        """Whether the broker told of itself when it was last asked."""
        self._interval_s = interval_s
        self._looking = asyncio.Lock()
        """A page takes samples, too: what was asked first must not be the newest in the end."""
        self._changed = asyncio.Event()
        """Set, and replaced, by each sample."""
        self.is_closed = False
        self.history = History()
        self.count = 0
        """How many samples were tried."""
        self.trouble = ""
        """What the cluster did not answer, and why; empty while all is well."""

    async def run(self) -> None:
        """Sample until canceled."""
        while True:
            began_s = time.monotonic()
            await self.sample()
            took_s = time.monotonic() - began_s
            # One that failed has waited, not worked: whoever comes back is seen soon.
            rest_s = 0.0 if self.trouble else min(_REST * took_s, MAX_REST_S)
            await asyncio.sleep(max(self._interval_s, rest_s))

    async def sample(self) -> None:
        """Take one sample now, after one that is under way."""
        async with self._looking:
            try:
                self.history.add(await self._look())
                self.trouble = ""
            except OttlaError as error:
                if not self.trouble:
                    log.warning("the cluster does not answer: %s", error)
                self.trouble = str(error)
            self.count += 1
            self._wake()

    def close(self) -> None:
        """Let everybody who waits go: the console ends."""
        self.is_closed = True
        self._wake()

    async def next(self, seen: int, timeout_s: float) -> int:
        """Wait until there are more samples than `seen`, or for so long; return their count."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.count <= seen and not self.is_closed:
                    await self._changed.wait()
        return self.count

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _look(self) -> Sample:
        cluster = await self._admin.describe_cluster()
        names = await self._admin.list_topics(internal=True)
        topics = await self._admin.describe_topics(names)
        folders = await self._folders()
        sizes = None if folders is None else _sizes(folders)
        groups = {found.group_id: found for found in await self._admin.group_overview()}
        return Sample(
            at_s=time.time(),
            topics={name: _topic_sample(info, sizes) for name, info in topics.items()},
            groups=groups,
            lags=await self._lags(groups),
            broker_count=len(cluster.brokers),
            open_transaction_count=await self._open_transaction_count(),
            late_transactions=await self._late_transactions(),
            folders=() if folders is None else tuple(_folder_samples(folders)),
            numbers=await self._numbers(),
        )

    async def _folders(self) -> Folders | None:
        try:
            return await self._admin.describe_log_dirs()
        except (DeniedError, UnsupportedError):
            return None

    async def _numbers(self) -> BrokerNumbers | None:
        """What the broker tells of itself; without it, pages show what Kafka's protocol tells."""
        if self._numbers_url is None:
            return None
        try:
            numbers = await asyncio.to_thread(read_numbers, self._numbers_url)
        except NumbersError as error:
            if self._has_numbers:
                log.warning("%s", error)
            self._has_numbers = False
            return None
        self._has_numbers = True
        return numbers

    async def _lags(self, groups: Mapping[str, GroupListing]) -> dict[str, GroupLag]:
        lags: dict[str, GroupLag] = {}
        for group_id in sorted(groups)[:MAX_GROUPS]:
            try:
                lags[group_id] = await self._admin.lag(group_id)
            except NotFoundError:
                continue  # it went while we looked
        return lags

    async def _open_transaction_count(self) -> int | None:
        try:
            return len(await self._admin.list_transactions(states=UNENDED))
        except UnsupportedError:
            return None

    async def _late_transactions(self) -> tuple[str, ...]:
        try:
            found = await self._admin.list_transactions(states=UNENDED, older_than=LATE)
        except UnsupportedError:
            return ()
        return tuple(listing.transactional_id for listing in found[:MAX_LATE])


def _sizes(brokers: Folders) -> dict[str, int]:
    """Topic -> bytes on disk, all replicas together."""
    sizes: dict[str, int] = {}
    for folders in brokers.values():
        for folder in folders:
            for place, replica in folder.replicas.items():
                sizes[place.topic] = sizes.get(place.topic, 0) + replica.size_bytes
    return sizes


def _folder_samples(brokers: Folders) -> Iterator[FolderSample]:
    for broker_id, folders in brokers.items():
        for folder in folders:
            if folder.usable_bytes is not None and folder.total_bytes is not None:
                yield FolderSample(broker_id, folder.usable_bytes, folder.total_bytes)


def _topic_sample(info: TopicInfo, sizes: Mapping[str, int] | None) -> TopicSample:
    ends = [partition.end_offset or 0 for partition in info.partitions]
    starts = [partition.start_offset or 0 for partition in info.partitions]
    return TopicSample(
        partition_count=len(info.partitions),
        record_count=sum(ends) - sum(starts),
        end_offset=sum(ends),
        size_bytes=None if sizes is None else sizes.get(info.name, 0),
        is_internal=info.internal,
        offline_count=sum(partition.leader is None for partition in info.partitions),
        under_replicated_count=sum(
            len(partition.isr) < len(partition.replicas) for partition in info.partitions
        ),
        bounds={
            part.id: (part.start_offset, part.end_offset)
            for part in info.partitions
            if part.start_offset is not None and part.end_offset is not None
        },
        kept=kept(dict(info.config)),
    )
