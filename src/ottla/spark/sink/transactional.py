"""What is added to an open transaction by others than its producer: a partition, offsets.

Whoever shows the transactional id, producer id and epoch is the producer.  No group may have live
members while its offsets are committed here: they would commit, too.
"""

from collections.abc import Mapping
from typing import Final

from ottla.client.engine import Engine
from ottla.client.producer.transactions import add_failure
from ottla.client.targets import group as group_of
from ottla.client.targets import transaction as coordinator_of
from ottla.errors import ConfigError, ErrorCode, RejoinError, exception_for, raise_for_code
from ottla.model import TopicPartition
from ottla.spark.sink.decisions import Identity
from ottla.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

_ONE_TRANSACTION: Final = 3
"""AddPartitionsToTxn: what clients speak; later versions are for brokers."""
_VERSION_1: Final = 4
_VERSION_2: Final = 5
"""TxnOffsetCommit; later versions name topics by their ids."""


async def add_partition(engine: Engine, by: Identity, tp: TopicPartition) -> None:
    """Announce a partition, as version 1 of the protocol wants it before the first write."""
    answer = await engine.call(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=by.transactional_id,
            v3_and_below_producer_id=by.producer_id,
            v3_and_below_producer_epoch=by.epoch,
            v3_and_below_topics=(
                AddPartitionsToTxnTopic(name=tp.topic, partitions=(tp.partition,)),
            ),
        ),
        AddPartitionsToTxnResponse,
        to=coordinator_of(by.transactional_id),
        failure=add_failure,
        max_version=_ONE_TRANSACTION,
    )
    raise_for_code(add_failure(answer), f"partition {tp} in the transaction of {by}")


async def add_offsets(
    engine: Engine,
    by: Identity,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    *,
    is_version_2: bool,
) -> None:
    """Commit offsets of a group with a transaction.

    Raises:
        ConfigError: The group has members that are alive.
    """
    if not is_version_2:
        added = await engine.call(
            AddOffsetsToTxnRequest(
                transactional_id=by.transactional_id,
                producer_id=by.producer_id,
                producer_epoch=by.epoch,
                group_id=group_id,
            ),
            AddOffsetsToTxnResponse,
            to=coordinator_of(by.transactional_id),
        )
        raise_for_code(added.error_code, f"group {group_id!r} in the transaction of {by}")
    answer = await engine.call(
        _offsets_request(by, group_id, offsets),
        TxnOffsetCommitResponse,
        to=group_of(group_id),
        failure=_offsets_failure,
        max_version=_VERSION_2 if is_version_2 else _VERSION_1,
    )
    if code := _offsets_failure(answer):
        error = exception_for(code, f"offsets of group {group_id!r}")
        if isinstance(error, RejoinError):
            raise ConfigError(
                f"group {group_id!r} has consumers that are alive, so the offsets of a query "
                "cannot be committed for it: stop them, or give the query another kafka.group.id"
            ) from error
        raise error


def _offsets_failure(answer: TxnOffsetCommitResponse) -> int:
    """The first error, if there is one.

    A topic that was deleted after it was read is none: its offsets are of no use to anybody.
    """
    codes = (word.error_code for topic in answer.topics for word in topic.partitions)
    harmless = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return next((code for code in codes if code not in harmless), int(ErrorCode.NONE))


def _offsets_request(
    by: Identity, group_id: str, offsets: Mapping[TopicPartition, int]
) -> TxnOffsetCommitRequest:
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for tp, offset in sorted(offsets.items()):
        topics.setdefault(tp.topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=tp.partition, committed_offset=offset, committed_metadata=""
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=by.transactional_id,
        group_id=group_id,
        producer_id=by.producer_id,
        producer_epoch=by.epoch,
        topics=tuple(
            TxnOffsetCommitRequestTopic(name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )
