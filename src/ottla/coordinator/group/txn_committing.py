"""TxnOffsetCommit: offsets that count when the transaction they belong to is committed.

The sender is fenced twice: as a producer by its epoch, which the shell checks, and as a member of
the group by its generation (KIP-447); see `committing.commit_refusal`.
"""

from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import Answer, Effect, Persist, Ticket
from ottla.coordinator.group.committing import committed_record
from ottla.errors import ErrorCode
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def refused(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    """The same error for every partition: the response has no place for one of the group."""
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def commit(
    request: TxnOffsetCommitRequest, config: GroupConfig, ticket: Ticket, now_ms: int
) -> list[Effect]:
    """Write the offsets into the transaction, and answer; one may be refused for its note."""
    records = []
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            record = committed_record(request.group_id, topic, partition, config, now_ms)
            records += [record] if record else []
            error = ErrorCode.NONE if record else ErrorCode.OFFSET_METADATA_TOO_LARGE
            partitions.append(
                TxnOffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=error
                )
            )
        topics.append(
            TxnOffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions)
            )
        )
    effects: list[Effect] = []
    if records:
        effects.append(
            Persist(
                tuple(records),
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
            )
        )
    return [*effects, Answer(ticket, TxnOffsetCommitResponse(topics=tuple(topics)))]
