"""Why records of a topic cannot be written or read: looks at it, and says all there is to say."""

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.errors import DeniedError, NotFoundError, UnsupportedError
from ottla.model import TopicPartition
from ottla.values import dataclass
from ottla.why.findings import Finding
from ottla.why.owners import open_transactions, owner_of
from ottla.why.suggesting import suggest
from ottla.why.topic_waits import FullFolder, HeldPartition, is_nearly_full, waits

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

Offsets = Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSight:
    """All that was seen of a topic."""

    partitions: tuple[TopicPartition, ...]
    leaderless: tuple[TopicPartition, ...]
    held: tuple[HeldPartition, ...]
    full: tuple[FullFolder, ...]
    now_ms: int


def look_at_topic(admin: "Admin", name: str) -> TopicSight:
    """Look at a topic.

    Raises:
        UnknownTopicError: There is none of that name.
    """
    try:
        partitions = admin.list_partitions([name])
    except NotFoundError as error:
        suggest(error, name, lambda: admin.list_topics(internal=True))
        raise
    # The stable end is asked for first: what is written in between does not look held.
    stable = admin.list_offsets(partitions, isolation_level="read_committed", missing_ok=True)
    ends = admin.list_offsets(partitions, missing_ok=True)
    return TopicSight(
        partitions=tuple(partitions),
        leaderless=tuple(key for key in partitions if key not in ends),
        held=tuple(_held_partitions(admin, stable, ends)),
        full=tuple(_full_folders(admin, name)),
        now_ms=time.time_ns() // 1_000_000,
    )


def why_topic(sight: TopicSight) -> list[Finding]:
    """What holds it up.  There is always something to say."""
    return [*waits(sight.leaderless, sight.held, sight.full, sight.now_ms)] or [
        Finding(code="nothing", text="It waits for nothing: all that is written can be read.")
    ]


def _held_partitions(admin: "Admin", stable: Offsets, ends: Offsets) -> list[HeldPartition]:
    bounds = [
        (key, stable_offset, end_offset)
        for key, stable_offset in sorted(stable.items())
        if stable_offset is not None
        and (end_offset := ends.get(key)) is not None
        and stable_offset < end_offset
    ]
    if not bounds:
        return []
    opened = open_transactions(admin, [key for key, _, _ in bounds])
    oldest = {it.tp: it for it in reversed(opened)}
    found = []
    for key, stable_offset, end_offset in bounds:
        holder = oldest.get(key)
        found.append(
            HeldPartition(
                key=key,
                stable_offset=stable_offset,
                end_offset=end_offset,
                holder=None if holder is None else holder.producer,
                transaction=None if holder is None else owner_of(admin, holder),
            )
        )
    return found


def _full_folders(admin: "Admin", topic: str) -> Iterable[FullFolder]:
    """Folders with partitions of the topic that have no room left, or hardly any.

    Who may read a topic need not be allowed to ask for that: then nothing is said of it.
    """
    try:
        brokers = admin.describe_log_dirs()
    except (DeniedError, UnsupportedError):
        return
    for broker_id, folders in brokers.items():
        for folder in folders:
            if folder.usable_bytes is None or folder.total_bytes is None:
                continue
            if any(place.topic == topic for place in folder.replicas) and is_nearly_full(
                folder.usable_bytes, folder.total_bytes
            ):
                yield FullFolder(
                    broker_id=broker_id,
                    path=folder.path,
                    usable_bytes=folder.usable_bytes,
                    total_bytes=folder.total_bytes,
                )
