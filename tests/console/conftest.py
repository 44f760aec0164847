"""A broker with something in it, and a console that has looked at it once.

With `--kafka=VERSION`, most pages are those of an Apache Kafka: a console has nothing but a client.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from starlette.testclient import TestClient

import ottla
from ottla.broker.embedded import Broker
from ottla.console.app import console
from ottla.console.settings import ConsoleSettings
from tests.console.browsing import WAIT_S
from tests.kafka_cluster import OpenBroker

_numbers = count(1)
LOCAL = "http://127.0.0.1:8080"


@pytest.fixture(scope="session")
def broker(open_broker: OpenBroker) -> Iterator[Broker]:
    with open_broker({}) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic with two partitions and four records."""
    name = f"console-{next(_numbers)}"
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(name, partitions=2)
    with ottla.Producer(broker.bootstrap_servers) as producer:
        for number in range(4):
            producer.send(
                name,
                b'{"number": %d, "text": "<b>bold</b>"}' % number,
                key=b"key-%d" % number,
                headers=[("trace", b"t%d" % number)],
                partition=number % 2,
            )
    return name


@pytest.fixture
def group(broker: Broker, topic: str) -> str:
    """A group that has read one record of each partition, and is gone."""
    name = f"group/of {topic}"
    places = [ottla.TopicPartition(topic, number) for number in (0, 1)]
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.alter_group_offsets(name, dict.fromkeys(places, 1))
    return name


@pytest.fixture
def client(broker: Broker) -> Iterator[TestClient]:
    with console_of(broker) as client:
        yield client


@contextmanager
def console_of(broker: Broker, metrics_url: str | None = None) -> Iterator[TestClient]:
    """A console in this process; it answers when all is seen, not when time is up."""
    settings = ConsoleSettings(
        bootstrap_servers=broker.bootstrap_servers,
        metrics_url=metrics_url,
        interval_s=0.05,
        timeout_s=WAIT_S,
        search_s=WAIT_S,
    )
    with TestClient(console(settings), base_url=LOCAL, raise_server_exceptions=True) as client:
        yield client
