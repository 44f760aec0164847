"""Finds records for the message browser: where to begin, how far to look, what to keep.

A search looks at a bounded number of records for a bounded time and says how far it came, so a
page always comes, however large the topic; the next page goes on from there.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

import ottla
from ottla.client.admin.admin import AsyncAdmin
from ottla.client.records import Record
from ottla.console.errors import InputError
from ottla.console.payloads import Search
from ottla.console.settings import ConsoleSettings
from ottla.model import TopicPartition

Begin = Literal["newest", "oldest", "offset", "time"]
BEGINS: Final[tuple[Begin, ...]] = ("newest", "oldest", "offset", "time")

MAX_RECORDS: Final = 500
MAX_SCANNED: Final = 200_000
_POLL_S: Final = 0.25

BytesRecord = Record[bytes | None, bytes | None]
Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody wants to see."""

    topic: str
    begin: Begin = "newest"
    at: str = ""
    """The offset, or the time as ISO 8601 or in milliseconds since 1970."""
    partition: int | None = None
    count: int = 50
    search: Search = field(default_factory=Search)
    is_committed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What there is to show."""

    records: Sequence[BytesRecord]
    scanned: int
    is_complete: bool
    """Whether everything up to the end was looked at."""
    next_offsets: Mapping[int, int]
    """Where to go on: partition -> offset."""


class Browser:
    """Reads topics on behalf of the pages; each reading has a consumer of its own."""

    def __init__(self, settings: ConsoleSettings, admin: AsyncAdmin) -> None:
        self._settings = settings
        self._admin = admin

    async def find(self, wish: Wish) -> Found:
        """The records of a wish, as far as the limits allow."""
        search = _Searching(wish, *await self._bounds(wish))
        deadline_s = time.monotonic() + self._settings.search_s
        async with self._consumer(wish.is_committed) as consumer:
            await consumer.assign(search.positions)
            while not search.is_over and time.monotonic() <= deadline_s:
                if search.look_at(await consumer.poll(_POLL_S)):
                    # Behind markers and holes no record comes: the position tells.
                    for tp in search.positions:
                        search.move(tp, await consumer.position(tp))
        return search.found()

    async def follow(self, wish: Wish) -> AsyncIterator[BytesRecord | None]:
        """Records as they are written; None now and then, when there are none."""
        _, ends = await self._bounds(wish)
        async with self._consumer(wish.is_committed) as consumer:
            await consumer.assign(ends)
            while True:
                batch = await consumer.poll(_POLL_S)
                if not batch:
                    yield None
                for record in batch:
                    if wish.search.finds(record.key, record.value, record.headers):
                        yield record

    async def _bounds(self, wish: Wish) -> tuple[Offsets, Offsets]:
        """Where to begin and where to end, partition by partition."""
        info = await self._admin.describe_topic(wish.topic)
        places = [
            TopicPartition(wish.topic, partition.id)
            for partition in info.partitions
            if wish.partition in (None, partition.id)
        ]
        if not places:
            raise InputError(f"topic {wish.topic!r} has no partition {wish.partition}")
        level: Literal["read_committed", "read_uncommitted"]
        level = "read_committed" if wish.is_committed else "read_uncommitted"
        first = _known(await self._admin.list_offsets(places, at="earliest"))
        ends = _known(await self._admin.list_offsets(places, at="latest", isolation_level=level))
        starts = {tp: min(first.get(tp, 0), ends[tp]) for tp in ends}
        if wish.begin == "offset":
            wanted = _offset(wish.at)
            starts = {tp: min(max(first.get(tp, 0), wanted), ends[tp]) for tp in ends}
        elif wish.begin == "time":
            found = await self._admin.list_offsets(places, at=_moment(wish.at))
            starts = {
                tp: end if (at := found.get(tp)) is None else min(at, end)
                for tp, end in ends.items()
            }
        return starts, ends

    def _consumer(self, is_committed: bool) -> Any:
        return ottla.AsyncConsumer(
            bootstrap_servers=self._settings.bootstrap_servers,
            isolation_level="read_committed" if is_committed else "read_uncommitted",
            **self._settings.client,
        )


class _Searching:
    """A search under way: where it is in each partition, and what it has kept."""

    def __init__(self, wish: Wish, starts: Offsets, ends: Offsets) -> None:
        self._wish = wish
        self._ends = ends
        self._keeps_last = wish.begin == "newest"
        if self._keeps_last:  # and so it begins as near to the end as it can find enough
            share = wish.count if wish.search.is_empty else MAX_SCANNED // max(1, len(ends))
            starts = {tp: max(starts[tp], end - share) for tp, end in ends.items()}
        self.positions = dict(starts)
        self._kept: deque[BytesRecord] = deque(maxlen=wish.count if self._keeps_last else None)
        self._scanned = 0

    @property
    def is_over(self) -> bool:
        return self._is_at_end or self._has_enough or self._scanned >= MAX_SCANNED

    @property
    def _is_at_end(self) -> bool:
        return all(self.positions[tp] >= end for tp, end in self._ends.items())

    @property
    def _has_enough(self) -> bool:
        """Who wants the last records has never seen enough before the end."""
        return not self._keeps_last and len(self._kept) >= self._wish.count

    def look_at(self, records: Iterable[BytesRecord]) -> bool:
        """Keep those that are searched for; whether all of them were looked at."""
        search = self._wish.search
        for record in records:
            if record.offset >= self._ends[record.tp]:
                continue  # written since we began
            self._scanned += 1
            self.positions[record.tp] = record.offset + 1
            if search.finds(record.key, record.value, record.headers):
                self._kept.append(record)
                if self._has_enough:
                    return False
        return True

    def move(self, tp: TopicPartition, offset: int) -> None:
        """There is nothing more in front of `offset`."""
        self.positions[tp] = max(self.positions[tp], offset)

    def found(self) -> Found:
        """How far it came."""
        return Found(
            records=_in_order(self._kept, newest_first=self._keeps_last, count=self._wish.count),
            scanned=self._scanned,
            is_complete=self._is_at_end,
            next_offsets={tp.partition: offset for tp, offset in self.positions.items()},
        )


def _known(offsets: Mapping[TopicPartition, int | None]) -> Offsets:
    return {tp: offset for tp, offset in offsets.items() if offset is not None}


def _in_order(
    records: Sequence[BytesRecord], *, newest_first: bool, count: int
) -> list[BytesRecord]:
    ordered = sorted(records, key=lambda r: (r.timestamp_ms, r.partition, r.offset))
    return ordered[::-1][:count] if newest_first else ordered[:count]


def _offset(text: str) -> int:
    if not text.strip().isdecimal():
        raise InputError(f"an offset is a number, and {text!r} is none")
    return int(text)


def _moment(text: str) -> datetime:
    try:
        if text.strip().isdecimal():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        found = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError, OSError) as error:
        reason = f"{text!r} is no time; write 2026-11-15 16:00, or milliseconds since 1970"
        raise InputError(reason) from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
