"""What holds a topic up: no leader, no room, transactions that are not decided.

A read_committed consumer stops at the last stable offset: where the oldest open transaction of the
partition begins.  Whoever opened it holds up every such consumer, whatever else is committed.
"""

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Final

from ottla.model import TopicPartition
from ottla.quantities import about, as_ms, counted, human_size, local_time
from ottla.values import dataclass
from ottla.why.findings import Finding

if TYPE_CHECKING:
    from ottla.client.admin.transactions import ProducerInfo, TransactionInfo


LITTLE_ROOM_BYTES: Final = 1024**3
LITTLE_ROOM_SHARE: Final = 0.05
FULL_BYTES: Final = 1024**2
"""A batch of records may need as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPartition:
    """A partition whose last stable offset lags behind, and who holds it there."""

    key: TopicPartition
    stable_offset: int
    end_offset: int
    holder: "ProducerInfo | None"
    """None if the transaction ended while we looked."""
    transaction: "TransactionInfo | None"
    """None if no coordinator knows of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FullFolder:
    """A folder with partitions of the topic, on a disk without room."""

    broker_id: int
    path: str
    usable_bytes: int
    total_bytes: int


def is_nearly_full(usable_bytes: int, total_bytes: int) -> bool:
    """Whether a disk is about to refuse writes."""
    return usable_bytes < min(LITTLE_ROOM_BYTES, total_bytes * LITTLE_ROOM_SHARE)


def waits(
    leaderless: Sequence[TopicPartition],
    held: Sequence[HeldPartition],
    full: Sequence[FullFolder],
    now_ms: int,
) -> Iterator[Finding]:
    """What keeps records of the topic from being written or read."""
    if leaderless:
        names = ", ".join(map(str, leaderless))
        yield Finding(
            code="no_leader",
            text=f"{counted(len(leaderless), 'partition')} without a leader: {names}. Nobody can "
            "write or read there.",
            advice="Start the brokers that have its replicas. On one broker, its log says why the "
            "partition is offline.",
            partitions=tuple(leaderless),
        )
    yield from map(_full, full)
    for partition in held:
        yield _held(partition, now_ms)


def _full(folder: FullFolder) -> Finding:
    is_full = folder.usable_bytes < FULL_BYTES
    return Finding(
        code="disk_full" if is_full else "disk_nearly_full",
        text=f"The disk of broker {folder.broker_id} is {'' if is_full else 'nearly '}full: "
        f"{human_size(folder.usable_bytes)} of {human_size(folder.total_bytes)} left, at "
        f"{folder.path}. Without room, writes are refused with KAFKA_STORAGE_ERROR; reading goes "
        "on.",
        advice="Free some room, or lower retention.bytes or retention.ms of large topics (`ottla "
        "topic list` has their sizes): what is old then goes, and writing goes on by itself.",
    )


def _held(partition: HeldPartition, now_ms: int) -> Finding:
    count = partition.end_offset - partition.stable_offset
    where = (
        f"{partition.key}: read_committed consumers stop at offset {partition.stable_offset}, "
        f"{counted(count, 'offset')} before the end. "
    )
    holder, transaction = partition.holder, partition.transaction
    if holder is None:
        return Finding(
            code="just_decided",
            text=f"{where}The transaction that held them ended while we looked.",
            advice="Look again.",
            partitions=(partition.key,),
        )
    producer = f"producer {holder.producer_id} (epoch {holder.producer_epoch})"
    if transaction is None:
        return _hanging(partition.key, where, producer, holder)
    name = quote(transaction.transactional_id)
    since_ms = None if transaction.started is None else as_ms(transaction.started)
    until_ms = None
    text = f"{where}Transaction {transaction.transactional_id} of {producer} is {transaction.state}"
    if since_ms is not None:
        text += f" for {about(now_ms - since_ms)}, since {local_time(since_ms)}"
    if transaction.is_open and transaction.started and transaction.timeout is not None:
        until_ms = as_ms(transaction.started + transaction.timeout)
        text += f"; it is aborted at {local_time(until_ms)} if its producer does not end it"
    return Finding(
        code="open_transaction",
        text=f"{text}.",
        advice=f"`ottla why transaction {name}` says what it waits for; "
        f"`ottla txn abort {name}` aborts it."
        if transaction.is_open
        else "It is decided; its markers are on their way.",
        partitions=(partition.key,),
        since_ms=since_ms,
        until_ms=until_ms,
    )


def _hanging(key: TopicPartition, where: str, producer: str, holder: "ProducerInfo") -> Finding:
    written_ms = None if holder.last_write is None else as_ms(holder.last_write)
    last = "" if written_ms is None else f" Its last write was at {local_time(written_ms)}."
    return Finding(
        code="hanging_transaction",
        text=f"{where}A transaction of {producer} is open there, and no coordinator knows of "
        f"it: nobody will ever end it.{last}",
        advice=f"`ottla txn abort --topic {key.topic} --partition "
        f"{key.partition} --producer-id {holder.producer_id}` aborts it.",
        partitions=(key,),
        since_ms=written_ms,
    )
