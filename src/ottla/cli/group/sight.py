"""A group as one sees it from outside at one moment: who is in it, and how far it came."""

import difflib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.group.lags import Lag, lags_of
from ottla.errors import BrokerError, NotFoundError
from ottla.values import dataclass

if TYPE_CHECKING:
    from ottla.client.basic.client import BasicClient
    from ottla.client.basic.groups import GroupInfo, MemberInfo

_NAMES_SUGGESTED: Final = 3


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
    def members(self) -> "dict[str, MemberInfo]":
        return {member.member_id: member for member in self.group.members}

    @property
    def committed_ms(self) -> dict[tuple[str, int], int]:
        """When each partition was committed; empty where the broker does not tell."""
        if self.group.story is None:
            return {}
        return {
            (topic.name, partition.partition_index): partition.committed_ms
            for topic in self.group.story.commits
            for partition in topic.partitions
        }


def look(client: "BasicClient", name: str, *, with_bounds: bool = False) -> Sight:
    """Look at a group; of one that does not exist, the error suggests others."""
    group = find(client, name)
    lags = lags_of(client, group, with_bounds=with_bounds)
    return Sight(seen_ms=time.time_ns() // 1_000_000, group=group, lags=lags)


def find(client: "BasicClient", name: str) -> "GroupInfo":
    """The group; of one that does not exist, the error suggests others."""
    from ottla.client.basic.groups import describe_group

    try:
        return describe_group(client, name)
    except NotFoundError as error:
        if near := _near_names(client, name):
            error.add_note(f"is it one of these? {', '.join(near)}")
        raise


def _near_names(client: "BasicClient", name: str) -> list[str]:
    from ottla.client.basic.groups import all_groups

    try:
        names = [group.name for group in all_groups(client)]
    except BrokerError:
        return []  # the groups of another coordinator may not be known yet: then without a hint
    return difflib.get_close_matches(name, names, n=_NAMES_SUGGESTED)
