"""How far a query has read: the JSON that Spark keeps in a checkpoint, parsed and printed.

    {"v": 1, "cluster": "…", "group": "…", "topics": {"orders": {"id": "…", "p": {"0": 5, "1": 7}}},
     "init": {"orders": {"0": 0}}, "new": {"orders": {"1": 0}}}

Spark compares offsets as text, so equal positions are always printed alike: keys in this order,
topics by name, partitions by number.  Ids are those of the topics, so that one that was made anew
is not taken for the old one.

Spark keeps where a batch *ends*, and only that.  Where it began is the end of the batch before it;
what cannot be known from there is kept with the end: `init`, where the first batch began (Spark
asks for it several times, and the answer changes), and `new`, where partitions begin that the batch
before did not have.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from ottla.errors import OttlaError
from ottla.model import TopicPartition

VERSION: Final = 1


class CheckpointError(OttlaError, ValueError):
    """What stands in the checkpoint is not what this source writes there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffset:
    """Positions in all partitions of a source."""

    topic_ids: Mapping[str, str]
    """Topic -> its id, "" where brokers give none."""
    positions: Mapping[TopicPartition, int]
    """Partition -> the offset of the next record."""
    cluster: str = ""
    """Which cluster, "" where brokers do not say."""
    group: str | None = None
    """The consumer group that shall know of these positions."""
    init: Mapping[TopicPartition, int] | None = None
    """Where the first batch began, if this is its end."""
    new: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where partitions begin that the batch before did not have."""

    @classmethod
    def parse(cls, told: str | Mapping[str, Any]) -> Self:
        """Read what `as_json` gave, as text or as Spark hands it over.

        Raises:
            CheckpointError: It is something else.
        """
        try:
            data = json.loads(told) if isinstance(told, str) else told
            if data["v"] != VERSION:
                raise CheckpointError(
                    f"the checkpoint has offsets of version {data['v']}, and this is version "
                    f"{VERSION}: use the version of Ottla that wrote it, or a new checkpoint"
                )
            return cls(
                topic_ids={topic: str(entry["id"]) for topic, entry in data["topics"].items()},
                positions=_flat({topic: entry["p"] for topic, entry in data["topics"].items()}),
                cluster=data["cluster"] or "",
                group=data["group"],
                init=_flat(data["init"]) if "init" in data else None,
                new=_flat(data.get("new", {})),
            )
        except CheckpointError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CheckpointError(
                f"the checkpoint holds no offsets of this source: {str(told)[:200]} ({error!r})"
            ) from None

    def as_json(self) -> dict[str, Any]:
        """What Spark shall keep: always the same text for the same positions."""
        by_topic = _nested(self.positions)
        data: dict[str, Any] = {
            "v": VERSION,
            "cluster": self.cluster,
            "group": self.group,
            "topics": {
                topic: {"id": self.topic_ids[topic], "p": by_topic.get(topic, {})}
                for topic in sorted(self.topic_ids)
            },
        }
        if self.init is not None:
            data["init"] = _nested(self.init)
        if self.new:
            data["new"] = _nested(self.new)
        return data

    @property
    def text(self) -> str:
        """`as_json`, as it stands in the checkpoint."""
        return json.dumps(self.as_json())


def is_source_offset(told: object) -> bool:
    """Whether JSON of a checkpoint is of this source; a query may have others."""
    return isinstance(told, dict) and {"v", "cluster", "group", "topics"} <= told.keys()


def _flat(nested: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, offsets in nested.items()
        for partition, offset in offsets.items()
    }


def _nested(positions: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for tp in sorted(positions):
        found.setdefault(tp.topic, {})[str(tp.partition)] = positions[tp]
    return found
