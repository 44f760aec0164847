"""A broker for the whole run, and each client library in turn."""

from collections.abc import Iterator
from itertools import count

import pytest
from click.testing import Result

import tests.compat.forgotten  # noqa: F401  (what it does to sockets of kafka-python)
from ottla.broker.embedded import Broker
from tests.compat.cli_samples import Run, ottla
from tests.compat.clients import CLIENTS, Client
from tests.keeping import KEEPS

_numbers = count(1)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker(config=KEEPS) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    """The name of a topic that does not exist yet."""
    return f"topic-{next(_numbers)}"


@pytest.fixture
def run(broker: Broker) -> Run:
    """Runs a command against the broker, of this folder or of the module."""

    def run(*arguments: object) -> Result:
        return ottla(*arguments, "-b", broker.bootstrap_servers)

    return run


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, broker: Broker) -> Client:
    made: Client = request.param(broker.bootstrap_servers)
    return made


@pytest.fixture(params=CLIENTS, ids=lambda kind: f"read by {kind.name}")
def reader(request: pytest.FixtureRequest, broker: Broker) -> Client:
    made: Client = request.param(broker.bootstrap_servers)
    return made
