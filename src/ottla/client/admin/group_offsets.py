"""What groups have committed: reading it, changing it, forgetting it.

Topics are named by name here, so that what was committed for a deleted topic can be read and
forgotten, too.
"""

from collections.abc import Collection, Mapping
from typing import Final

from ottla.client.admin.calling import Caller, passing_error
from ottla.client.admin.outcomes import all_or_raise, outcome_of
from ottla.client.admin.positions import by_topic
from ottla.client.records import OffsetAndMetadata, Offsets
from ottla.client.targets import group as coordinator_of
from ottla.errors import ErrorCode, OttlaError, exception_for, raise_for_code
from ottla.model import TopicPartition
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

_FETCH_OF_SEVERAL: Final = 8
_LAST_FETCH_BY_NAME: Final = 9
_LAST_COMMIT_BY_NAME: Final = 9
_NOTHING: Final = -1


async def list_group_offsets(
    caller: Caller,
    group_id: str,
    *,
    partitions: Collection[TopicPartition] | None = None,
    require_stable: bool = False,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """What a group has committed; nothing where there is no such group.

    Args:
        group_id: The group.
        partitions: Which; None: all.  One for which nothing was committed is not in the result.
        require_stable: Wait for open transactions that commit for the group.
    """
    wanted = None
    if partitions is not None:
        wanted = tuple(
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(partitions, lambda tp: tp.partition).items()
        )
    answer = await caller.call(
        OffsetFetchRequest(
            groups=(OffsetFetchRequestGroup(group_id=group_id, topics=wanted),),
            require_stable=require_stable,
        ),
        OffsetFetchResponse,
        to=coordinator_of(group_id),
        failure=_fetch_failure,
        min_version=_FETCH_OF_SEVERAL,
        max_version=_LAST_FETCH_BY_NAME,
    )
    (group,) = answer.groups
    raise_for_code(group.error_code, f"group {group_id!r}")
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic in group.topics:
        for told in topic.partitions:
            tp = TopicPartition(topic.name, told.partition_index)
            raise_for_code(told.error_code, f"group {group_id!r}, partition {tp}")
            if told.committed_offset != _NOTHING:
                found[tp] = OffsetAndMetadata(
                    told.committed_offset, told.metadata or "", told.committed_leader_epoch
                )
    return dict(sorted(found.items()))


async def alter_group_offsets(caller: Caller, group_id: str, offsets: Offsets) -> None:
    """Commit for a group that nobody is in; a group that does not exist is made.

    Raises:
        ConflictError: Somebody is in it.
        UnknownTopicError: There is no such partition.
    """
    committed = {
        tp: value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
        for tp, value in offsets.items()
    }
    if not committed:
        return
    answer = await caller.call(
        OffsetCommitRequest(
            group_id=group_id,
            member_id="",
            topics=tuple(
                OffsetCommitRequestTopic(name=name, partitions=partitions)
                for name, partitions in by_topic(
                    committed, lambda tp: _commit(tp, committed[tp])
                ).items()
            ),
        ),
        OffsetCommitResponse,
        to=coordinator_of(group_id),
        failure=_commit_failure,
        max_version=_LAST_COMMIT_BY_NAME,
    )
    outcomes: dict[TopicPartition, bool | OttlaError] = {}
    for topic in answer.topics:
        for told in topic.partitions:
            tp = TopicPartition(topic.name, told.partition_index)
            if told.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                # What a coordinator tells an outsider while there are insiders.
                raise in_use(group_id)
            detail = f"group {group_id!r}, partition {tp}"
            outcomes[tp] = outcome_of(told.error_code, detail, True)
    all_or_raise(outcomes)


async def delete_group_offsets(
    caller: Caller, group_id: str, partitions: Collection[TopicPartition]
) -> None:
    """Forget what a group has committed for topics that it no longer reads.

    Raises:
        ConflictError: A member of the group reads such a topic.
        NotFoundError: There is no such group.
    """
    if not partitions:
        return
    answer = await caller.call(
        OffsetDeleteRequest(
            group_id=group_id,
            topics=tuple(
                OffsetDeleteRequestTopic(name=name, partitions=wanted)
                for name, wanted in by_topic(
                    partitions,
                    lambda tp: OffsetDeleteRequestPartition(partition_index=tp.partition),
                ).items()
            ),
        ),
        OffsetDeleteResponse,
        to=coordinator_of(group_id),
    )
    raise_for_code(answer.error_code, f"group {group_id!r}")
    outcomes: Mapping[TopicPartition, bool | OttlaError] = {
        TopicPartition(topic.name, told.partition_index): outcome_of(
            told.error_code,
            f"group {group_id!r}, partition {topic.name}-{told.partition_index}",
            True,
        )
        for topic in answer.topics
        for told in topic.partitions
    }
    all_or_raise(outcomes)


def in_use(group_id: str) -> OttlaError:
    """Why offsets of a group cannot be changed."""
    return exception_for(
        ErrorCode.NON_EMPTY_GROUP, f"group {group_id!r} has members; stop them first"
    )


def _commit(tp: TopicPartition, what: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=tp.partition,
        committed_offset=what.offset,
        committed_leader_epoch=what.leader_epoch,
        committed_metadata=what.metadata,
    )


def _fetch_failure(answer: OffsetFetchResponse) -> int:
    (group,) = answer.groups
    codes = [told.error_code for topic in group.topics for told in topic.partitions]
    return passing_error([group.error_code, *codes])


def _commit_failure(answer: OffsetCommitResponse) -> int:
    # All partitions of a group have one coordinator: what may pass for one may pass for all, and
    # committing the others once more changes nothing.
    return passing_error([t.error_code for topic in answer.topics for t in topic.partitions])
