"""How far a group is behind, partition by partition."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.cli.quantities import Id
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.basic.client import BasicClient
    from ottla.client.basic.groups import GroupInfo
    from ottla.client.basic.topics import TopicInfo

COLUMNS: Final = ("topic", "partition", "committed", "end", "lag", "member")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """One partition: what is not known (never committed, topic gone, nobody's) is None."""

    key: TopicPartition
    committed_offset: int | None
    end_offset: int | None
    member_id: str | None

    @property
    def record_count(self) -> int | None:
        if self.committed_offset is None or self.end_offset is None:
            return None
        return max(0, self.end_offset - self.committed_offset)

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


def lags_of(client: "BasicClient", group: "GroupInfo") -> list[Lag]:
    """Every partition that the group has committed or that a member has."""
    from ottla.client.basic.groups import committed_offsets
    from ottla.client.basic.topics import LATEST, offsets_at

    committed = committed_offsets(client, group.name)
    owners = {key: member.member_id for member in group.members for key in member.assignment}
    keys = sorted({*committed, *owners})
    ends = offsets_at(client, existing_topics(client, {key.topic for key in keys}), LATEST)
    return [
        Lag(
            key=key,
            committed_offset=committed.get(key),
            end_offset=ends.get(key),
            member_id=owners.get(key),
        )
        for key in keys
    ]


def existing_topics(client: "BasicClient", names: Iterable[str]) -> "list[TopicInfo]":
    """The topics of these names that (still) exist."""
    from ottla.client.basic.topics import all_topics

    wanted = set(names)
    return [topic for topic in all_topics(client) if topic.name in wanted]
