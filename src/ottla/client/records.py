"""What consumers hand out: records, batches of them, and what is said about their offsets.

An offset that is committed, or that one goes on from, is always that of the *next* record.  Batches
chain: where one starts, the one before it ended, or a seek led.  That is not the offset of its
first record: markers of transactions and compaction leave holes, and a comparison with record
offsets would find gaps where nothing is missing.

A `Record` is a tuple, because one is made for each record that is read: six times as fast as a
frozen dataclass, and just as unchangeable.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, overload

from ottla.client.headers import NO_HEADERS, Headers
from ottla.client.serdes import BYTES, K, SerContext, Serde, V
from ottla.errors import OttlaError, SerializationError
from ottla.model import TopicPartition
from ottla.records.batch import Batch as LoggedBatch
from ottla.records.batch import TimestampType
from ottla.records.shapes import Common
from ottla.values import dataclass

NO_EPOCH: Final = -1


class OffsetAndMetadata(NamedTuple):
    """What is committed for a partition."""

    offset: int
    """The next offset to read."""
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


class Record(NamedTuple, Generic[K, V]):
    """One record, and where it was."""

    topic: str
    partition: int
    offset: int
    key: K
    value: V
    headers: Headers
    timestamp_ms: int
    timestamp_type: TimestampType
    leader_epoch: int

    @property
    def timestamp(self) -> datetime:
        """`timestamp_ms` as a moment in UTC."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def next_offset(self) -> int:
        """What one commits when this record is done."""
        return self.offset + 1


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Who a consumer is in its group: with it, a transaction is fenced like a commit (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class Span(NamedTuple):
    """Which part of a partition a batch covers: from `start_offset` up to `next_offset`."""

    start_offset: int
    next_offset: int
    leader_epoch: int = NO_EPOCH
    """Of the last record in it."""


class Source(Protocol):
    """The consumer that a batch came from, for transactions that commit or rewind it."""

    @property
    def group_metadata(self) -> GroupMetadata: ...

    def rewind(self, batch: "Batch[Any, Any]") -> Any: ...


class Serdes(NamedTuple):
    """How keys and values are read."""

    key: Serde[Any] = BYTES
    value: Serde[Any] = BYTES

    @property
    def is_plain(self) -> bool:
        """Whether everything stays bytes."""
        return self.key is BYTES and self.value is BYTES

    def read(self, raw: "Record[Any, Any]") -> "Record[Any, Any]":
        """The record that these bytes stand for; `SerializationError`, with the raw record."""
        try:
            key = self.key.loads(raw.key, SerContext(raw.topic, "key", raw.headers))
            value = self.value.loads(raw.value, SerContext(raw.topic, "value", raw.headers))
        except OttlaError:
            raise
        except Exception as error:
            raise SerializationError(
                f"the record at offset {raw.offset} of {raw.tp} cannot be read: {error!r}", raw
            ) from error
        return raw._replace(key=key, value=value)


PLAIN: Final = Serdes()


class Batch(Sequence[Record[K, V]]):
    """What one poll returned; it knows its offsets, so it is committed or rewound as a whole.

    Keys and values are read by their serdes each time that they are looked at, so that
    `SerializationError` comes from the record that cannot be read; an iterator goes on behind it.
    """

    __slots__ = ("_serdes", "_spans", "raw", "source")

    def __init__(
        self,
        raw: list[Record[Any, Any]] | None = None,
        spans: Mapping[TopicPartition, Span] | None = None,
        *,
        serdes: Serdes = PLAIN,
        source: Source | None = None,
    ) -> None:
        self.raw: list[Record[Any, Any]] = raw or []
        """The records with keys and values as bytes."""
        self._spans = spans or {}
        self._serdes = serdes
        self.source: Source | None = source

    @property
    def partitions(self) -> Mapping[TopicPartition, Sequence[Record[K, V]]]:
        """The records by partition, as kafka-python's poll returns them."""
        found: dict[TopicPartition, list[Record[K, V]]] = {}
        for record in self:
            found.setdefault(record.tp, []).append(record)
        return found

    @property
    def start_offsets(self) -> dict[TopicPartition, int]:
        """Where each partition stood before: the previous batch's `next_offsets`, or the seek."""
        return {tp: span.start_offset for tp, span in self._spans.items()}

    @property
    def next_offsets(self) -> dict[TopicPartition, int]:
        """Where each partition goes on: what `commit` commits."""
        return {tp: span.next_offset for tp, span in self._spans.items()}

    @property
    def spans(self) -> Mapping[TopicPartition, Span]:
        """Both, and leader epochs."""
        return self._spans

    @property
    def read(self) -> Callable[[Record[Any, Any]], Record[K, V]] | None:
        """What makes a record of a raw one; None: it is one."""
        return None if self._serdes.is_plain else self._serdes.read

    @overload
    def __getitem__(self, index: int) -> Record[K, V]: ...

    @overload
    def __getitem__(self, index: slice) -> list[Record[K, V]]: ...

    def __getitem__(self, index: int | slice) -> Record[K, V] | list[Record[K, V]]:
        found = self.raw[index]
        if self._serdes.is_plain:
            return found
        if isinstance(found, list):
            return [self._serdes.read(raw) for raw in found]
        return self._serdes.read(found)

    def __len__(self) -> int:
        return len(self.raw)

    def __iter__(self) -> Iterator[Record[K, V]]:
        return iter(self.raw) if self._serdes.is_plain else map(self._serdes.read, self.raw)

    def __repr__(self) -> str:
        where = ", ".join(
            f"{tp}: {s.start_offset}..{s.next_offset}" for tp, s in self.spans.items()
        )
        return f"<Batch of {len(self)} records, {where or 'nothing'}>"


def common_of(tp: TopicPartition, batch: LoggedBatch) -> Common:
    """How the records of a batch of the log become `Record`s."""
    return Common(
        Record,
        tp.topic,
        tp.partition,
        batch.timestamp_type,
        batch.partition_leader_epoch,
        NO_HEADERS,
        Headers.of_pairs,
    )


Offsets: TypeAlias = Mapping[TopicPartition, int | OffsetAndMetadata]
"""Partition -> the next offset to read."""


class ArrowRows(Protocol):
    """A `pyarrow.RecordBatch`, as far as it matters here: pyarrow comes without types."""

    @property
    def schema(self) -> Any: ...

    @property
    def num_rows(self) -> int: ...


Commitable: TypeAlias = "Record[Any, Any] | Batch[Any, Any] | Offsets | ArrowRows"
"""What says by itself which offsets are done."""

ARROW_SPANS: Final = b"ottla.spans"
"""The schema of an Arrow batch of ours has its spans under this name."""


def offsets_of(what: Commitable) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets that `what` stands for.

    Raises:
        TypeError: It is nothing that can be committed.
    """
    if isinstance(what, Record):
        return {what.tp: OffsetAndMetadata(what.next_offset, "", what.leader_epoch)}
    if isinstance(what, Batch):
        return {
            tp: OffsetAndMetadata(span.next_offset, "", span.leader_epoch)
            for tp, span in what.spans.items()
        }
    if isinstance(what, Mapping):
        return {TopicPartition(*tp): _offset_and_metadata(tp, at) for tp, at in what.items()}
    if hasattr(what, "schema") and hasattr(what, "num_rows"):
        from ottla.client.arrow_offsets import offsets_of_arrow

        return offsets_of_arrow(what)
    raise TypeError(
        f"cannot commit {type(what).__name__}; give a Record, a Batch, an Arrow batch of "
        "poll_arrow, or a mapping of TopicPartition to the next offset"
    )


def _offset_and_metadata(tp: object, at: object) -> OffsetAndMetadata:
    if isinstance(at, OffsetAndMetadata):
        offset, found = at.offset, at
    elif isinstance(at, int) and not isinstance(at, bool):
        offset, found = at, OffsetAndMetadata(at)
    else:
        raise TypeError(f"the offset of {tp} must be int or OffsetAndMetadata, not {at!r}")
    if offset < 0:
        raise ValueError(f"the offset of {tp} is {offset}; it must not be negative")
    return found


def as_partitions(partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
    """Plain tuples will do as partitions, too."""
    return [TopicPartition(*tp) for tp in partitions]
