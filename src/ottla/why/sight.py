"""A group as one sees it from outside at one moment: who is in it, and how far it came."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.errors import NotFoundError
from ottla.model import TopicPartition
from ottla.values import dataclass
from ottla.why.lags import Lag, lags_of
from ottla.why.suggesting import suggest

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.groups import GroupInfo, GroupMember


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What was seen, and when by our own clock."""

    seen_ms: int
    group: "GroupInfo"
    lags: Sequence[Lag]

    @property
    def lag_count(self) -> int:
        """All records that are left to read, as far as that is known."""
        return sum(lag.record_count or 0 for lag in self.lags)

    @property
    def members(self) -> "dict[str, GroupMember]":
        return {member.member_id: member for member in self.group.members}

    @property
    def committed_ms(self) -> Mapping[TopicPartition, int]:
        """When each partition was committed; empty where the broker does not tell."""
        return {} if self.group.story is None else self.group.story.committed_ms


def look(admin: "Admin", name: str, *, with_bounds: bool = False) -> Sight:
    """Look at a group; of one that does not exist, the error suggests others."""
    group = find(admin, name)
    lags = lags_of(admin, group, with_bounds=with_bounds)
    return Sight(seen_ms=time.time_ns() // 1_000_000, group=group, lags=lags)


def find(admin: "Admin", name: str) -> "GroupInfo":
    """The group; of one that does not exist, the error suggests others."""
    try:
        return admin.describe_group(name)
    except NotFoundError as error:
        suggest(error, name, admin.list_groups)
        raise
