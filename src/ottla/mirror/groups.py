"""Brings along how far groups have come: their offsets, translated to those of the copies.

A group that somebody is in at the target is left alone, and no group is ever moved backwards there:
what is known at the target of a group that reads there is newer than what the source knows.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.client.admin.groups import GroupListing
from ottla.client.records import OffsetAndMetadata
from ottla.errors import ConflictError, NotFoundError
from ottla.mirror.selection import matches
from ottla.model import TopicPartition
from ottla.values import dataclass

COPIED_PROTOCOL_TYPES: Final = ("", "consumer")
"""Groups of consumers, and groups that only keep offsets; not those of Connect and the like."""
COPIED_TYPES: Final = (None, "classic", "consumer")
"""None: the broker does not say."""

Translate = Callable[[TopicPartition, int], tuple[TopicPartition, int] | None]
"""A partition and offset of the source -> those of the target; None if it is not copied."""

Committed = Mapping[TopicPartition, OffsetAndMetadata]

AT_A_TIME: Final = 8
"""How many groups are seen to at once: nothing is copied meanwhile, and each takes some requests to
clusters that may be far away."""


class _Outcome(Enum):
    """What became of a group that reads what is copied."""

    MOVED = "moved"
    THERE = "there"  # it is as far at the target already
    ACTIVE = "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsReport:
    """What came of bringing groups along."""

    group_count: int
    """How many of the groups read what is copied."""
    moved: tuple[str, ...]
    active: tuple[str, ...]
    """Left alone, because somebody is in them at the target."""


def bring_along(
    source: Admin, target: Admin, patterns: Iterable[str], translate: Translate
) -> GroupsReport:
    """Commit at the target what groups have committed at the source, where that is further."""
    wanted = [
        listing.group_id
        for listing in source.group_overview()
        if is_copied(listing) and matches(listing.group_id, patterns)
    ]

    def bring(group_id: str) -> _Outcome | None:
        committed = source.list_group_offsets(group_id)
        if not any(translate(tp, at.offset) for tp, at in committed.items()):
            return None
        return _bring(target, group_id, committed, translate)

    with ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="ottla-mirror-groups") as pool:
        found = dict(zip(wanted, pool.map(bring, wanted), strict=True))
    return GroupsReport(
        group_count=sum(outcome is not None for outcome in found.values()),
        moved=tuple(group_id for group_id, outcome in found.items() if outcome is _Outcome.MOVED),
        active=tuple(group_id for group_id, outcome in found.items() if outcome is _Outcome.ACTIVE),
    )


def is_copied(listing: GroupListing) -> bool:
    """Whether a group is of a kind whose offsets mean something elsewhere."""
    return listing.protocol_type in COPIED_PROTOCOL_TYPES and (
        listing.type is None or listing.type.lower() in COPIED_TYPES
    )


def moves(committed: Committed, there: Committed, translate: Translate) -> Committed:
    """What to commit at the target, where `there` is what was committed so far."""
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for tp, at in committed.items():
        translated = translate(tp, at.offset)
        if translated is None:
            continue
        copy, offset = translated
        if copy not in there or there[copy].offset < offset:
            found[copy] = OffsetAndMetadata(offset, at.metadata)
    return found


def _bring(target: Admin, group_id: str, committed: Committed, translate: Translate) -> _Outcome:
    try:
        if target.describe_group(group_id).is_active:
            return _Outcome.ACTIVE
    except NotFoundError:
        pass  # it will be there when its offsets are
    wanted = moves(committed, target.list_group_offsets(group_id), translate)
    try:
        target.alter_group_offsets(group_id, wanted)
    except ConflictError:
        return _Outcome.ACTIVE  # somebody came between the look and the commit, and is welcome
    return _Outcome.MOVED if wanted else _Outcome.THERE
