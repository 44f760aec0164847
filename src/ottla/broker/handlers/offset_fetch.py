"""OffsetFetch (key 9): how far groups have come."""

from functools import partial
from typing import Final

from ottla.broker.context import Context
from ottla.broker.dispatch import handles
from ottla.broker.groups import ask
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from ottla.wire.schema import replace

_FIRST_BATCHED_VERSION: Final = 8


@handles(OffsetFetchRequest, versions="1-9")
async def offset_fetch(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    """Ask each group's coordinator; the answers come from memory."""
    if context.version < _FIRST_BATCHED_VERSION:
        return await ask(
            context,
            request.group_id,
            GroupCoordinator.fetch,
            request,
            lambda error: _refused(request, error),
        )
    groups: list[OffsetFetchResponseGroup] = []
    for group in request.groups:
        answer = await ask(
            context,
            group.group_id,
            GroupCoordinator.fetch,
            replace(request, groups=(group,)),
            partial(_refused_group, group.group_id),
        )
        groups += answer.groups
    return OffsetFetchResponse(groups=tuple(groups))


def _refused(request: OffsetFetchRequest, error: ErrorCode) -> OffsetFetchResponse:
    """Up to v1 the error stands with each partition, since then with the group."""
    topics = tuple(
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=-1, metadata="", error_code=error
                )
                for index in topic.partition_indexes
            ),
        )
        for topic in request.topics or ()
    )
    return OffsetFetchResponse(error_code=error, topics=topics)


def _refused_group(group_id: str, error: ErrorCode) -> OffsetFetchResponse:
    refused = OffsetFetchResponseGroup(group_id=group_id, topics=(), error_code=error)
    return OffsetFetchResponse(groups=(refused,))
