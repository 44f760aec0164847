"""The topics of the cluster as a coordinator sees them: names, ids and partition counts.

A view never changes; the shell hands in another one when topics come, grow or go.  So whether a
group has to look again is a question of identity.
"""

from collections.abc import Iterable, Iterator, Mapping
from struct import Struct
from typing import Final, TypeAlias

from ottla.cluster.image import TopicImage
from ottla.coordinator.patterns import Pattern
from ottla.records.blake2 import blake2b

Place: TypeAlias = tuple[bytes, int]
"""A partition, by the id of its topic: a topic that is created anew has other partitions."""

_HASH_BYTES: Final = 8
_TOPIC: Final = Struct(">16siH")  # id, partition count, length of the name


class Topics:
    """All topics at one moment."""

    def __init__(
        self,
        by_name: Mapping[str, TopicImage] | None = None,
        names: Mapping[bytes, str] | None = None,
    ) -> None:
        """Both mappings tell of the same topics, and never change."""
        self._by_name: Mapping[str, TopicImage] = by_name or {}
        self._names: Mapping[bytes, str] = names or {}

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def id_of(self, name: str) -> bytes | None:
        topic = self._by_name.get(name)
        return None if topic is None else topic.topic_id

    def ids_of(self, names: Iterable[str]) -> frozenset[bytes]:
        """The ids of those that exist."""
        found = (self._by_name.get(name) for name in names)
        return frozenset(topic.topic_id for topic in found if topic is not None)

    def partition_counts(self, names: Iterable[str]) -> dict[bytes, int]:
        """How many partitions there are of those that exist, by topic id and in order of it."""
        found = (self._by_name.get(name) for name in names)
        counts = {t.topic_id: len(t.partitions) for t in found if t is not None}
        return dict(sorted(counts.items()))

    def matching(self, pattern: Pattern) -> frozenset[str]:
        """The topics whose whole name the pattern matches."""
        return frozenset(name for name in self._by_name if pattern.matches(name))

    def changes_since(self, before: "Topics", names: Iterable[str]) -> Iterator[str]:
        """In words, what became of each of these topics."""
        for name in names:
            old, new = before._by_name.get(name), self._by_name.get(name)
            if new is None:
                if old is not None:
                    yield f"{name} was deleted"
            elif old is None:
                yield f"{name} was created"
            elif old.topic_id != new.topic_id:
                yield f"{name} was deleted and created anew"
            elif len(old.partitions) != len(new.partitions):
                yield f"{name} has {len(new.partitions)} partitions now, not {len(old.partitions)}"

    def hash_of(self, names: Iterable[str]) -> int:
        """Changes when one of these topics comes, grows, goes or is created anew; 0 for none.

        It is stored with the group's epoch as a signed int64.  Kafka hashes otherwise: who takes
        over a log of the other's finds a difference, and assigns once more.
        """
        digest = blake2b(digest_size=_HASH_BYTES)
        is_empty = True
        for name in sorted(set(names)):
            topic = self._by_name.get(name)
            if topic is not None:
                is_empty = False
                encoded = name.encode()
                digest.update(_TOPIC.pack(topic.topic_id, len(topic.partitions), len(encoded)))
                digest.update(encoded)
        return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)
