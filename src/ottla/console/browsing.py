"""Finds records for the message browser: where to begin, how far to look, what to keep.

A search looks at a bounded number of records for a bounded time and says how far it came, so a
page always comes, however large the topic; the next page goes on from there.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
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
        starts, ends = await self._bounds(wish)
        keeps_last = wish.begin == "newest"
        if keeps_last and wish.search.is_empty:
            starts = {tp: max(starts[tp], end - wish.count) for tp, end in ends.items()}
        elif keeps_last:
            share = MAX_SCANNED // max(1, len(ends))
            starts = {tp: max(starts[tp], end - share) for tp, end in ends.items()}
        kept: deque[BytesRecord] = deque(maxlen=wish.count if keeps_last else None)
        scanned = 0
        positions = dict(starts)
        deadline_s = time.monotonic() + self._settings.search_s
        async with self._consumer(wish.is_committed) as consumer:
            await consumer.assign(positions)
            while not _is_at_end(positions, ends) and scanned < MAX_SCANNED:
                if time.monotonic() > deadline_s or (not keeps_last and len(kept) >= wish.count):
                    break
                for record in await consumer.poll(_POLL_S):
                    if record.offset >= ends[record.tp]:
                        continue  # written since we began
                    scanned += 1
                    positions[record.tp] = record.offset + 1
                    if wish.search.finds(record.key, record.value, record.headers):
                        kept.append(record)
                        if not keeps_last and len(kept) >= wish.count:
                            break
                else:
                    # Behind markers and holes no record comes: the position tells.
                    for tp in positions:
                        positions[tp] = max(positions[tp], await consumer.position(tp))
        return Found(
            records=_in_order(kept, newest_first=keeps_last, count=wish.count),
            scanned=scanned,
            is_complete=_is_at_end(positions, ends),
            next_offsets={tp.partition: offset for tp, offset in positions.items()},
        )

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


def _known(offsets: Mapping[TopicPartition, int | None]) -> Offsets:
    return {tp: offset for tp, offset in offsets.items() if offset is not None}


def _is_at_end(positions: Offsets, ends: Offsets) -> bool:
    return all(positions[tp] >= end for tp, end in ends.items())


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
