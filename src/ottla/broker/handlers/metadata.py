"""Metadata (key 3): brokers, topics, partitions and who leads them."""

from collections.abc import Awaitable
from typing import Final

from ottla.broker.context import Context
from ottla.broker.topics import create_missing
from ottla.cluster.image import ClusterImage, TopicImage
from ottla.errors import ErrorCode
from ottla.model import topic_name_error
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.schema import NO_UUID

_EMPTY_MEANS_ALL: Final = 0
"""In v0 an empty list asks for all topics; since v1 that is null, and an empty list for none."""


def metadata(
    request: MetadataRequest, context: Context
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Describe the topics asked for, creating those that may be created."""
    image = context.node.controller.image
    if request.topics is None or (context.version == _EMPTY_MEANS_ALL and not request.topics):
        return _response(image, tuple(_topic(image.topics[name]) for name in sorted(image.topics)))
    missing = [
        topic.name
        for topic in request.topics
        if topic.name is not None
        and topic.topic_id == NO_UUID
        and topic.name not in image.topics
        and topic_name_error(topic.name) is None
    ]
    if missing and request.allow_auto_topic_creation and context.node.config.auto_create_topics:
        return _after_creating(missing, request.topics, context)
    return _response(image, tuple(_described(image, topic) for topic in request.topics))


async def _after_creating(
    missing: list[str], topics: tuple[MetadataRequestTopic, ...], context: Context
) -> MetadataResponse:
    refused = await create_missing(context.node, missing)
    image = context.node.controller.image
    return _response(
        image,
        tuple(
            _unknown(topic, refused[topic.name])
            if topic.name in refused
            else _described(image, topic)
            for topic in topics
        ),
    )


def _response(image: ClusterImage, topics: tuple[MetadataResponseTopic, ...]) -> MetadataResponse:
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(
                node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack
            )
            for broker in image.brokers.values()
        ),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
    )


def _described(image: ClusterImage, asked: MetadataRequestTopic) -> MetadataResponseTopic:
    if asked.topic_id != NO_UUID:
        if asked.name is not None:
            return _unknown(asked, ErrorCode.INVALID_REQUEST)
        topic = image.topic_by_id(asked.topic_id)
        return _unknown(asked, ErrorCode.UNKNOWN_TOPIC_ID) if topic is None else _topic(topic)
    if asked.name is None:
        return _unknown(asked, ErrorCode.INVALID_REQUEST)
    if topic_name_error(asked.name) is not None:
        return _unknown(asked, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if (topic := image.topics.get(asked.name)) is None:
        return _unknown(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _topic(topic)


def _unknown(asked: MetadataRequestTopic, error: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error, name=asked.name, topic_id=asked.topic_id, partitions=()
    )


def _topic(topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            MetadataResponsePartition(
                partition_index=partition.index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
            )
            for partition in topic.partitions
        ),
    )
