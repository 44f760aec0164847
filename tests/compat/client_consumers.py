"""What tests of the consumer share: a broker of their own, and short ways to read from it."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

import ottla
from ottla.testing import TestBroker
from tests.kafka_cluster import OpenBroker

TIMEOUT_S = 90.0
_numbers = count(1)


@pytest.fixture(scope="module")
def shared(open_broker: OpenBroker) -> Iterator[TestBroker]:
    with open_broker({}) as broker:
        yield broker


@pytest.fixture
def broker(shared: TestBroker) -> Iterator[TestBroker]:
    yield shared
    shared.reset()


@pytest.fixture
def topic() -> str:
    return f"consumed-{next(_numbers)}"


def consumer(broker: TestBroker, *topics: str, **options: Any) -> "ottla.Consumer[Any, Any]":
    options.setdefault("auto_offset_reset", "earliest")
    return ottla.Consumer(*topics, bootstrap_servers=broker.bootstrap_servers, **options)


def committed(broker: TestBroker, group: str, topic: str, partition: int = 0) -> int | None:
    tp = ottla.TopicPartition(topic, partition)
    with consumer(broker, group_id=group) as reader:
        found = reader.committed([tp])[tp]
    return None if found is None else found.offset


def values(records: Any) -> list[str]:
    return [record.value.decode() for record in records]


class UnluckyError(Exception):
    """What processing raises."""
