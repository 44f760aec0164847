"""What holds a topic up: partitions without a leader, and transactions that are not decided.

A read_committed consumer stops at the last stable offset: where the oldest open transaction of the
partition begins.  Whoever opened it holds up every such consumer, whatever else is committed.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.cli.quantities import about, counted, local_time
from ottla.cli.why.findings import Finding
from ottla.model import TopicPartition
from ottla.values import dataclass

if TYPE_CHECKING:
    from ottla.client.basic.transactions import OpenProducer, TransactionInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPartition:
    """A partition whose last stable offset lags behind, and who holds it there."""

    key: TopicPartition
    stable_offset: int
    end_offset: int
    holder: "OpenProducer | None"
    """None if the transaction ended while we looked."""
    transaction: "TransactionInfo | None"
    """None if no coordinator knows of it."""


def waits(
    leaderless: Sequence[TopicPartition], held: Sequence[HeldPartition], now_ms: int
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
    for partition in held:
        yield _held(partition, now_ms)


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
        return Finding(
            code="hanging_transaction",
            text=f"{where}A transaction of {producer} is open there, and no coordinator knows of "
            f"it: nobody will ever end it. Its last write was at "
            f"{local_time(holder.last_timestamp_ms)}.",
            advice=f"`ottla txn abort --topic {partition.key.topic} --partition "
            f"{partition.key.partition} --producer-id {holder.producer_id}` aborts it.",
            partitions=(partition.key,),
            since_ms=holder.last_timestamp_ms,
        )
    started_ms = transaction.started_ms
    since = until_ms = None
    text = f"{where}Transaction {transaction.name} of {producer} is {transaction.state}"
    if started_ms is not None:
        since = started_ms
        text += f" for {about(now_ms - started_ms)}, since {local_time(started_ms)}"
    if transaction.is_open and started_ms is not None and not transaction.may_wait_for_ever:
        until_ms = started_ms + transaction.timeout_ms
        text += f"; it is aborted at {local_time(until_ms)} if its producer does not end it"
    return Finding(
        code="open_transaction",
        text=f"{text}.",
        advice=f"See what its producer waits for, or abort it: `ottla txn abort {transaction.name}`"
        if transaction.is_open
        else "It is decided; its markers are on their way.",
        partitions=(partition.key,),
        since_ms=since,
        until_ms=until_ms,
    )
