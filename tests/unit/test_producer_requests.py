"""What a broker's answer says of each batch of a shipment."""

import pytest

from ottla.client.producer.requests import words_of
from ottla.client.producer.sender import Shipment
from ottla.model import TopicPartition
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.producer_samples import TOPIC, accumulator, add, cluster_of

CLUSTER = cluster_of(1, 1)


def shipment(*partitions: int) -> Shipment:
    lines = accumulator()
    batches = [add(lines, lines.line(TopicPartition(TOPIC, n)), b"value") for n in partitions]
    return Shipment(1, tuple(batches))


def answer(*partitions: int, topic: str = TOPIC) -> ProduceResponse:
    words = tuple(
        PartitionProduceResponse(index=n, error_code=0, base_offset=100 + n) for n in partitions
    )
    told = TopicProduceResponse(name=topic, partition_responses=words)
    return ProduceResponse(responses=(told,))


@pytest.mark.parametrize("sent", [(0,), (1,), (0, 1), (1, 0)])
@pytest.mark.parametrize("told", [(), (0,), (1,), (0, 1), (1, 0)])
def test_each_batch_gets_the_word_of_its_partition(
    sent: tuple[int, ...], told: tuple[int, ...]
) -> None:
    words = words_of(shipment(*sent), answer(*told), CLUSTER)
    offsets = [None if word is None else word.base_offset for word in words]
    assert offsets == [100 + n if n in told else None for n in sent]


def test_a_word_of_another_topic_is_no_word() -> None:
    assert words_of(shipment(0), answer(0, topic="others"), CLUSTER) == [None]


def test_no_topics_are_no_word() -> None:
    assert words_of(shipment(0), ProduceResponse(responses=()), CLUSTER) == [None]
