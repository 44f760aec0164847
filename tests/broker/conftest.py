"""A broker for each module of tests, and a bystander that every test must leave unharmed."""

from collections.abc import Iterator
from itertools import count

import pytest

from ottla.broker.embedded import Broker
from ottla.wire.messages.api_versions import ApiVersionsRequest
from tests.broker.wire_client import WireClient, batch_of
from tests.keeping import KEEPS

_numbers = count(1)


@pytest.fixture(scope="module")
def module_broker() -> Iterator[Broker]:
    with Broker(config=KEEPS) as broker:
        yield broker


class Bystander:
    """A well-behaved client with a connection of its own, opened before the trouble starts."""

    def __init__(self, broker: Broker) -> None:
        self._address = broker.bootstrap_servers
        self._client = WireClient(self._address)
        self._topic = f"bystander-{next(_numbers)}"
        assert self._client.create_topic(self._topic) == 0
        self._written: list[bytes | None] = []

    def close(self) -> None:
        self._client.close()

    def is_answered(self) -> None:
        """Ask something that costs little."""
        self._client.ask(ApiVersionsRequest(), 0)

    def writes_and_reads(self) -> None:
        """Write one more record, and find all of them, also over a new connection."""
        value = b"record %d" % len(self._written)
        result = self._client.produce(self._topic, batch_of(value))
        assert (result.error_code, result.base_offset) == (0, len(self._written))
        self._written.append(value)
        assert self._client.values(self._topic) == self._written
        with WireClient(self._address) as newcomer:
            assert newcomer.values(self._topic) == self._written


@pytest.fixture(scope="module")
def bystander(module_broker: Broker) -> Iterator[Bystander]:
    bystander = Bystander(module_broker)
    yield bystander
    bystander.close()


@pytest.fixture
def broker(module_broker: Broker, bystander: Bystander) -> Iterator[Broker]:
    """A broker that must serve its bystander, and whoever comes new, before and after the test."""
    bystander.writes_and_reads()
    yield module_broker
    bystander.writes_and_reads()


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(client: WireClient) -> str:
    """A topic with one partition that no other test knows."""
    name = f"topic-{next(_numbers)}"
    assert client.create_topic(name) == 0
    return name


@pytest.fixture
def broker_address(broker: Broker) -> str:
    """For those who need connections of their own."""
    return broker.bootstrap_servers
