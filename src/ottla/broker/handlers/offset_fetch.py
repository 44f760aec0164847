"""OffsetFetch (key 9): how far groups have come."""

from functools import partial
from typing import Final

from ottla.broker.context import Context
from ottla.broker.groups import ask
from ottla.cluster.image import ClusterImage
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.wire.schema import replace

_FIRST_BATCHED_VERSION: Final = 8
_FIRST_VERSION_WITH_IDS: Final = 10


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
    names = _TopicNames(context.node.controller.image, context.version)
    for group in request.groups:
        answer = await ask(
            context,
            group.group_id,
            GroupCoordinator.fetch,
            replace(request, groups=(names.known(group),)),
            partial(_refused_group, group.group_id),
        )
        groups += (names.completed(group, found) for found in answer.groups)
    return OffsetFetchResponse(groups=tuple(groups))


class _TopicNames:
    """Translates between topic ids, which are asked for since v10, and names."""

    def __init__(self, image: ClusterImage, version: int) -> None:
        self._image = image
        self._uses_ids = version >= _FIRST_VERSION_WITH_IDS

    def known(self, group: OffsetFetchRequestGroup) -> OffsetFetchRequestGroup:
        """What is asked, by name; topics whose id is unknown are left out."""
        if not self._uses_ids or group.topics is None:
            return group
        named = ((topic, self._image.topic_name(topic.topic_id)) for topic in group.topics)
        topics = tuple(replace(topic, name=name) for topic, name in named if name is not None)
        return replace(group, topics=topics)

    def completed(
        self, group: OffsetFetchRequestGroup, found: OffsetFetchResponseGroup
    ) -> OffsetFetchResponseGroup:
        """The answer with ids, and with errors for what was left out."""
        if not self._uses_ids or found.error_code:
            return found
        known = self._image.topics
        topics = [
            replace(topic, topic_id=known[topic.name].topic_id)
            for topic in found.topics
            if topic.name in known
        ]
        unknown = [t for t in group.topics or () if self._image.topic_name(t.topic_id) is None]
        return replace(found, topics=(*topics, *(_unknown(topic) for topic in unknown)))


def _unknown(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=topic.topic_id,
        partitions=tuple(
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=-1,
                metadata="",
                error_code=ErrorCode.UNKNOWN_TOPIC_ID,
            )
            for index in topic.partition_indexes
        ),
    )


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
