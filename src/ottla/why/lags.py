"""How far a group is behind, partition by partition."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.model import TopicPartition
from ottla.quantities import Id
from ottla.values import dataclass

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.groups import GroupInfo

Offsets = Mapping[TopicPartition, int | None]

COLUMNS: Final = ("topic", "partition", "committed", "end", "lag", "member")

FRESH_MS: Final = 30_000
"""A record that is older should have been read: consumers that commit by themselves do so every
five seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """One partition: what is not known (never committed, topic gone, nobody's) is None."""

    key: TopicPartition
    committed_offset: int | None
    end_offset: int | None
    member_id: str | None
    start_offset: int | None = None
    """None unless the bounds were asked for."""
    stable_offset: int | None = None
    """Where readers of committed records stop; None unless the bounds were asked for."""
    fresh_offset: int | None = None
    """Where the records of the last `FRESH_MS` begin; None unless the bounds were asked for."""

    @property
    def record_count(self) -> int | None:
        if self.committed_offset is None or self.end_offset is None:
            return None
        first = max(self.committed_offset, self.start_offset or 0)  # retention may have passed it
        return max(0, self.end_offset - first)

    @property
    def is_overdue(self) -> bool:
        """Whether something that is not read yet was there for more than `FRESH_MS`."""
        if self.committed_offset is None or self.fresh_offset is None:
            return False
        return self.committed_offset < self.fresh_offset

    @property
    def row(self) -> tuple[object, ...]:
        return (
            self.key.topic,
            Id(self.key.partition),
            self.committed_offset,
            self.end_offset,
            self.record_count,
            self.member_id,
        )


def lags_of(admin: "Admin", group: "GroupInfo", *, with_bounds: bool = False) -> list[Lag]:
    """Every partition that the group has committed or that a member has."""
    committed = admin.list_group_offsets(group.group_id)
    owners = {key: member.member_id for member in group.members for key in member.assignment}
    keys = sorted({*committed, *owners})
    ends = admin.list_offsets(keys, missing_ok=True)
    starts: Offsets = {}
    stable_ends: Offsets = {}
    fresh: Offsets = {}
    if with_bounds:
        starts = admin.list_offsets(keys, at="earliest", missing_ok=True)
        stable_ends = admin.list_offsets(keys, isolation_level="read_committed", missing_ok=True)
        now_ms = time.time_ns() // 1_000_000 if group.story is None else group.story.now_ms
        found = admin.list_offsets(keys, at=now_ms - FRESH_MS, missing_ok=True)
        fresh = {key: ends.get(key) if at is None else at for key, at in found.items()}
    return [
        Lag(
            key=key,
            committed_offset=committed[key].offset if key in committed else None,
            end_offset=ends.get(key),
            member_id=owners.get(key),
            start_offset=starts.get(key),
            stable_offset=stable_ends.get(key),
            fresh_offset=fresh.get(key),
        )
        for key in keys
    ]
