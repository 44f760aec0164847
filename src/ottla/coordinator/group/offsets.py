"""The offsets that groups have committed, and those that open transactions hold back.

Everything is answered from memory: recovery reads the whole log once.  An offset of a transaction
counts only when the transaction is committed, and only if nothing newer was committed meanwhile;
"newer" goes by the order of the log, which `put` sees.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field

from ottla.config import MINUTE_MS
from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import StoredRecord
from ottla.coordinator.group.classic import CONSUMER, ClassicGroup, State
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.records import (
    NO_EXPIRY,
    CommittedOffset,
    OffsetKey,
    offset_tombstone,
)
from ottla.values import dataclass
from ottla.wire.schema import NO_UUID


@dataclass(frozen=True, slots=True)
class Expired:
    """What is past its retention in one group, and whether it has any offset beside that."""

    tombstones: tuple[StoredRecord, ...]
    leaves_nothing: bool


@dataclass(slots=True)
class _Entry:
    """A committed offset, and its place in the order of the log."""

    offset: CommittedOffset
    sequence: int


@dataclass(slots=True)
class _GroupOffsets:
    """The offsets of one group, by topic and partition."""

    committed: dict[tuple[str, int], _Entry] = field(default_factory=dict)
    held_by: dict[tuple[str, int], set[int]] = field(default_factory=dict)  # producer ids


class Offsets:
    """The offsets of all groups of one coordinator."""

    def __init__(self) -> None:
        self._groups: dict[str, _GroupOffsets] = {}
        self._held: dict[int, dict[OffsetKey, _Entry]] = {}  # producer id -> its open offsets
        self._sequence = 0

    def put(self, key: OffsetKey, offset: CommittedOffset, producer_id: int = -1) -> None:
        """Take in an offset; one of a transaction is held back until `settle`."""
        self._sequence += 1
        entry = _Entry(offset, self._sequence)
        group = self._groups.get(key.group_id)
        if group is None:
            group = self._groups[key.group_id] = _GroupOffsets()
        if producer_id == -1:
            group.committed[key.topic, key.partition] = entry
        else:
            self._held.setdefault(producer_id, {})[key] = entry
            group.held_by.setdefault((key.topic, key.partition), set()).add(producer_id)

    def remove(self, key: OffsetKey) -> None:
        """Forget an offset, and those that transactions were about to commit in its place."""
        group = self._groups.get(key.group_id)
        if group is None:
            return
        place = (key.topic, key.partition)
        group.committed.pop(place, None)
        for producer_id in sorted(group.held_by.pop(place, ())):
            self._held[producer_id].pop(key)
        self._prune(key.group_id)

    def settle(self, producer_id: int, *, committed: bool) -> list[str]:
        """A transaction has ended; returns the groups that it had offsets of."""
        held = self._held.pop(producer_id, {})
        for key, entry in held.items():
            group = self._groups[key.group_id]
            place = (key.topic, key.partition)
            group.held_by[place].discard(producer_id)
            if not group.held_by[place]:
                del group.held_by[place]
            newest = group.committed.get(place)
            if committed and (newest is None or newest.sequence < entry.sequence):
                group.committed[place] = entry
        group_ids = list(dict.fromkeys(key.group_id for key in held))
        for group_id in group_ids:
            self._prune(group_id)
        return group_ids

    def of(self, key: OffsetKey) -> CommittedOffset | None:
        group = self._groups.get(key.group_id)
        entry = None if group is None else group.committed.get((key.topic, key.partition))
        return None if entry is None else entry.offset

    def is_held(self, key: OffsetKey) -> bool:
        """Whether an open transaction may change the offset."""
        group = self._groups.get(key.group_id)
        return group is not None and (key.topic, key.partition) in group.held_by

    def has_any(self, group_id: str) -> bool:
        return group_id in self._groups

    def of_group(self, group_id: str) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        """All committed offsets of a group, by topic and partition."""
        group = self._groups.get(group_id)
        if group is not None:
            for topic, partition in sorted(group.committed):
                entry = group.committed[topic, partition]
                yield OffsetKey(group_id, topic, partition), entry.offset

    def committed(self) -> dict[OffsetKey, CommittedOffset]:
        return {key: offset for group_id in self._groups for key, offset in self.of_group(group_id)}

    def tombstones_of_group(self, group_id: str) -> tuple[StoredRecord, ...]:
        """What to write when the group is deleted; open transactions lose their offsets too."""
        return tuple(offset_tombstone(key) for key in self._keys(group_id))

    def tombstones_of_topics(self, topics: frozenset[str]) -> tuple[StoredRecord, ...]:
        """What to write when topics are deleted."""
        return tuple(
            offset_tombstone(key)
            for group_id in self._groups
            for key in self._keys(group_id)
            if key.topic in topics
        )

    def tombstones_of_others(self, topic_ids: Mapping[str, bytes]) -> tuple[StoredRecord, ...]:
        """What to write of topics that are not among these, or only by their name."""
        return tuple(
            offset_tombstone(key)
            for group_id in self._groups
            for key in self._keys(group_id)
            if self._is_of_another(key, topic_ids.get(key.topic))
        )

    def _is_of_another(self, key: OffsetKey, topic_id: bytes | None) -> bool:
        """Whether an offset was committed for a topic that is gone, whatever has its name now."""
        if topic_id is None:
            return True
        offset = self.of(key)
        # What a transaction is about to commit is newer, and would go with the old one.
        if offset is None or self.is_held(key):
            return False
        return offset.topic_id not in (NO_UUID, topic_id)

    def expired(
        self, group: ClassicGroup | ConsumerGroup, config: GroupConfig, now_ms: int
    ) -> Expired:
        """Which offsets of a group have lived long enough.

        What counts is when the last member left or, for a group that never had members and for
        topics that nobody reads any more, when the offset was committed.
        """
        kept = 0
        tombstones = []
        retention_ms = config.offsets_retention_minutes * MINUTE_MS
        for key in self._keys(group.group_id):
            offset = self.of(key)
            if offset is None or self.is_held(key) or group.is_subscribed_to(key.topic):
                kept += 1
            elif _is_expired(group, offset, retention_ms, now_ms):
                tombstones.append(offset_tombstone(key))
            else:
                kept += 1
        return Expired(tuple(tombstones), leaves_nothing=kept == 0)

    def _keys(self, group_id: str) -> list[OffsetKey]:
        """Every partition of which something is known, committed or held."""
        group = self._groups.get(group_id)
        if group is None:
            return []
        places = sorted(group.committed.keys() | group.held_by.keys())
        return [OffsetKey(group_id, topic, partition) for topic, partition in places]

    def _prune(self, group_id: str) -> None:
        group = self._groups[group_id]
        if not group.committed and not group.held_by:
            del self._groups[group_id]


def _is_expired(
    group: ClassicGroup | ConsumerGroup, offset: CommittedOffset, retention_ms: int, now_ms: int
) -> bool:
    since_ms: int | None = offset.committed_ms
    if isinstance(group, ClassicGroup) and group.protocol_type is not None:
        if group.state is State.EMPTY:
            since_ms = offset.committed_ms if group.since_ms is None else group.since_ms
        elif group.state is not State.STABLE or group.protocol_type != CONSUMER:
            return False
    if offset.expires_ms != NO_EXPIRY:
        return now_ms >= offset.expires_ms
    assert since_ms is not None
    return now_ms - since_ms >= retention_ms
