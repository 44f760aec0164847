"""Two brokers in this process, and names that no other test has."""

from collections.abc import Iterator
from itertools import count

import pytest

from ottla.broker.embedded import Broker
from tests.keeping import KEEPS
from tests.mirror.world import Pair

SETTINGS = {
    **KEEPS,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
}
"""A stop syncs each partition, and these are many."""

_numbers = count(1)


@pytest.fixture(scope="package")
def brokers() -> Iterator[tuple[Broker, Broker]]:
    with Broker(config=SETTINGS) as source, Broker(config=SETTINGS) as target:
        yield source, target


@pytest.fixture
def pair(brokers: tuple[Broker, Broker]) -> Pair:
    source, target = brokers
    return Pair(source.bootstrap_servers, target.bootstrap_servers)


@pytest.fixture
def topic() -> str:
    """The name of a topic that does not exist yet."""
    return f"topic-{next(_numbers)}-"
