"""Shipments as Produce requests, and what their answers say of each partition.  Pure."""

from typing import Final

from ottla.client.cluster_view import ClusterView
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.sender import Shipment
from ottla.model import TopicPartition
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.schema import NO_UUID

_BEFORE_TOPIC_IDS: Final = 12
"""The last version of Produce that names topics."""


def produce_request(
    shipment: Shipment, config: ProducerConfig, cluster: ClusterView, max_version: int | None
) -> tuple[ProduceRequest, int | None]:
    """The request for a shipment, and the newest version in which it can be said."""
    by_topic: dict[str, list[PartitionProduceData]] = {}
    for batch in shipment.batches:
        by_topic.setdefault(batch.line.topic, []).append(
            PartitionProduceData(index=batch.line.partition, records=batch.data)
        )
    topics = []
    for name, partitions in by_topic.items():
        view = cluster.topics.get(name)
        if view is None or not view.has_id:
            max_version = min(max_version or _BEFORE_TOPIC_IDS, _BEFORE_TOPIC_IDS)
        topic_id = NO_UUID if view is None else view.topic_id
        topics.append(
            TopicProduceData(name=name, topic_id=topic_id, partition_data=tuple(partitions))
        )
    request = ProduceRequest(
        transactional_id=config.transactional_id,
        acks=config.acks,
        timeout_ms=config.request_timeout_ms,
        topic_data=tuple(topics),
    )
    return request, max_version


def by_partition(
    answer: ProduceResponse, cluster: ClusterView
) -> dict[TopicPartition, PartitionProduceResponse]:
    """What a broker told of each partition; topics may be named by their ids."""
    return {
        TopicPartition(topic.name or cluster.names.get(topic.topic_id, ""), word.index): word
        for topic in answer.responses
        for word in topic.partition_responses
    }


def words_of(
    shipment: Shipment, answer: ProduceResponse, cluster: ClusterView
) -> list[PartitionProduceResponse | None]:
    """What a broker told of each batch of a shipment; None where it told nothing."""
    batches = shipment.batches
    if len(batches) == 1 and len(answer.responses) == 1:
        # Nearly always so where batches are large: then no table of partitions is needed.
        (topic,) = answer.responses
        line = batches[0].line
        name = topic.name or cluster.names.get(topic.topic_id)
        if len(topic.partition_responses) == 1 and name == line.topic:
            (word,) = topic.partition_responses
            return [word if word.index == line.partition else None]
    told = by_partition(answer, cluster)
    return [told.get(batch.line.tp) for batch in batches]
