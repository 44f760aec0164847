"""What tests of the producer share: a broker of their own, with faults, and a look into it."""

from collections.abc import Iterator

import pytest

from ottla.testing import TestBroker
from tests.kafka_cluster import OpenBroker

SOON_S = 90.0


@pytest.fixture(scope="module")
def faulty(open_broker: OpenBroker) -> Iterator[TestBroker]:
    with open_broker({}) as broker:
        yield broker


@pytest.fixture
def served(faulty: TestBroker) -> Iterator[TestBroker]:
    yield faulty
    faulty.reset()


def values(broker: TestBroker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]
