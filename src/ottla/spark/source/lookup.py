"""What a driver may ask about the log, as a protocol: `brokers.Brokers` asks real brokers."""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, Protocol

from ottla.model import TopicPartition

Found = dict[TopicPartition, int]
"""Partition -> offset."""

NOT_THERE: Final = -1
"""The offset of a moment after the last record."""


class Topics(NamedTuple):
    """The topics of a source that exist now."""

    cluster: str
    ids: Mapping[str, str]
    """Topic -> its id, "" where brokers give none."""
    partitions: tuple[TopicPartition, ...]
    """Those that the source reads, in order."""


class Lookup(Protocol):
    """Brokers, as a driver sees them; each call may block for as long as `retryTimeout` says."""

    def topics(self) -> Topics:
        """Those topics of the source that exist."""
        ...

    def settled_topics(self) -> Topics:
        """As `topics`; `UnknownTopicError` if one is missing that the user named."""
        ...

    def earliest(self, partitions: Collection[TopicPartition]) -> Found:
        """The first offset of each partition."""
        ...

    def latest(self, partitions: Collection[TopicPartition]) -> Found:
        """The offset behind the last record that the source may see."""
        ...

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Found:
        """The offset behind the last record that anybody may see."""
        ...

    def offsets(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> Found:
        """The first offset from a time on, or `NOT_THERE`."""
        ...

    def committed(self, group: str, partitions: Collection[TopicPartition]) -> Found:
        """What a group has committed, where it has."""
        ...

    def commit(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """Commit for a group that nobody is in."""
        ...

    def offset_bytes(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """About how many bytes an offset has, from there on."""
        ...

    def wait_for_records(self, positions: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        """Return when a record is at one of these positions, or time is up."""
        ...
