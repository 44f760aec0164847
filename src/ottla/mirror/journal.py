"""What the target remembers of a mirror: records in a compacted topic of its own.

Each mirror has its topic, of one partition, so that an open transaction of one mirror hides nothing
of another behind the last stable offset.  What is in memory comes from `apply` alone, live as well
as after a restart.

Keys are JSON arrays, values JSON objects:

    ["mirror"]                                        which cluster is copied
    ["topic", name]                                   a topic and its copy, by their ids
    ["at", name, source id, target id, number, slot]  a checkpoint of a partition

A topic that was deleted and created again has another id, and so nothing of what was known of the
old one is taken for the new one.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from ottla.errors import ConfigError, OttlaError
from ottla.mirror.offset_map import Checkpoint, OffsetMap, Run
from ottla.model import TopicPartition, topic_name_error
from ottla.values import dataclass

TOPIC_PREFIX: Final = "__ottla_mirror-"
TRANSACTIONAL_ID_PREFIX: Final = "ottla-mirror."
CLEANUP: Final = "cleanup.policy"
TOPIC_CONFIG: Final = {
    CLEANUP: "compact",
    "retention.ms": "-1",
    # What is read at a start is what compaction has left, and it leaves the newest segment alone.
    "segment.bytes": str(16 * 1024 * 1024),
}
VERSION: Final = 1


class JournalError(OttlaError, ValueError):
    """What stands in the topic of a mirror is not what a mirror writes there."""


@dataclass(frozen=True, slots=True)
class Names:
    """What a mirror is called, and what follows from it."""

    name: str

    def __post_init__(self) -> None:
        if (reason := topic_name_error(self.topic)) is not None:
            raise ConfigError(f"--name {self.name!r} cannot name a topic: {reason}")

    @property
    def topic(self) -> str:
        """Where its journal is."""
        return TOPIC_PREFIX + self.name

    @property
    def transactional_id(self) -> str:
        return TRANSACTIONAL_ID_PREFIX + self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A topic and its copy."""

    topic: str
    topic_id: str
    target: str
    target_id: str
    config: Mapping[str, str]
    """What was set for the source when it was last looked at, as far as it is copied."""

    def partition(self, number: int) -> "CopiedPartition":
        return CopiedPartition(self.topic, self.topic_id, self.target_id, number)


class CopiedPartition(NamedTuple):
    """A partition of one topic and its copy, and of no other that has their names."""

    topic: str
    topic_id: str
    target_id: str
    number: int

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.topic, self.number)


class Entry(NamedTuple):
    """A record of the journal."""

    key: bytes
    value: bytes


def source_entry(cluster_id: str) -> Entry:
    """Which cluster the mirror copies."""
    return _entry(["mirror"], {"version": VERSION, "source": cluster_id})


def copy_entry(copy: Copy) -> Entry:
    """That a topic is copied."""
    value = {
        "id": copy.topic_id,
        "target": copy.target,
        "target_id": copy.target_id,
        "config": dict(copy.config),
    }
    return _entry(["topic", copy.topic], value)


def checkpoint_entry(partition: CopiedPartition, checkpoint: Checkpoint) -> Entry:
    """How far a partition was copied."""
    value = {
        "number": checkpoint.number,
        "next": checkpoint.next_offset,
        "runs": checkpoint.runs,
        "lost": checkpoint.lost_count,
    }
    return _entry(["at", *partition, checkpoint.slot], value)


class Journal:
    """All that the journal says, so far as it was read or written."""

    def __init__(self) -> None:
        self.source_cluster_id: str | None = None
        self.copies: dict[str, Copy] = {}
        self._maps: dict[CopiedPartition, OffsetMap] = {}

    def offsets(self, partition: CopiedPartition) -> OffsetMap:
        """What is known of a partition."""
        return self._maps.setdefault(partition, OffsetMap())

    def items(self) -> Iterable[tuple[CopiedPartition, OffsetMap]]:
        """Every partition of which something is known."""
        return self._maps.items()

    def apply(self, entry: Entry) -> None:
        """Take in one record.

        Raises:
            JournalError: No mirror of this version wrote it.
        """
        try:
            self._apply(json.loads(entry.key), json.loads(entry.value))
        except (ValueError, TypeError, KeyError, LookupError) as error:
            raise JournalError(
                f"a record with key {entry.key!r} is none of a mirror's: {error!r}"
            ) from error

    def _apply(self, key: list[Any], value: dict[str, Any]) -> None:
        match key:
            case ["mirror"]:
                if value["version"] != VERSION:
                    raise ValueError(f"version {value['version']}, not {VERSION}")
                self.source_cluster_id = value["source"]
            case ["topic", str(name)]:
                self.copies[name] = Copy(
                    topic=name,
                    topic_id=value["id"],
                    target=value["target"],
                    target_id=value["target_id"],
                    config=value["config"],
                )
            case ["at", str(name), str(topic_id), str(target_id), int(number), str()]:
                partition = CopiedPartition(name, topic_id, target_id, number)
                checkpoint = Checkpoint(
                    number=value["number"],
                    next_offset=value["next"],
                    runs=tuple(Run(*run) for run in value["runs"]),
                    lost_count=value["lost"],
                )
                self.offsets(partition).add(checkpoint)
            case _:
                raise ValueError("unknown kind of record")


def _entry(key: list[object], value: Mapping[str, object]) -> Entry:
    return Entry(_json(key), _json(value))


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
