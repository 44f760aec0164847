"""The broker that tests of our clients have: our own, or a real Apache Kafka in its place.

Tests that ask Kafka for what only our broker can do, faults and another time, are skipped.  Ending
and restarting it are no faults: both can do that.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final, Self, cast

import pytest

import ottla
from ottla.testing import TestBroker
from ottla.testing.external import ExternalCluster
from tools.apache_kafka import ApacheKafka, Setup
from tools.maven import UnavailableError

Settings = Mapping[str, str | int | float | bool]
OpenBroker = Callable[[Settings], AbstractContextManager[TestBroker]]

DEFAULTS: Final[Settings] = {
    "group.initial.rebalance.delay.ms": 0,  # as our broker has it in tests
    "log.initial.task.delay.ms": 3_600_000,  # records of long ago stay for as long as a test takes
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
}
HEAP: Final = "512m"
PATIENCE_S: Final = 90.0


class KafkaCluster(ExternalCluster):
    """An Apache Kafka with the face of our `TestBroker`."""

    def __init__(self, kafka: ApacheKafka) -> None:
        super().__init__(kafka.bootstrap_servers)
        self.version = kafka.version
        self._kafka = kafka
        self._has_crashed = False

    def crash(self) -> None:
        self._kafka.kill()
        self._has_crashed = True

    def restart(self) -> None:
        if not self._has_crashed:
            self._kafka.stop()
        self._has_crashed = False
        self._kafka.start()

    def reset(self) -> None:
        if self._has_crashed:
            self.restart()


class Brokers:
    """Those of one run.  A Kafka takes seconds to start, so equal settings share one."""

    def __init__(self, kafka_version: str | None) -> None:
        self._kafka_version = kafka_version
        self._running: dict[Any, KafkaCluster] = {}
        self._missing: UnavailableError | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    @contextmanager
    def open(self, settings: Settings) -> Iterator[TestBroker]:
        """A broker with these settings."""
        if self._kafka_version is None:
            with TestBroker(config=settings) as broker:
                yield broker
            return
        wanted = tuple(sorted(settings.items()))
        if wanted not in self._running:
            self._running[wanted] = self._start(self._kafka_version, settings)
        yield cast(TestBroker, self._running[wanted])

    def _start(self, version: str, settings: Settings) -> KafkaCluster:
        setup = Setup(settings={**DEFAULTS, **settings}, heap=HEAP)
        if self._missing is None:  # one question is enough: offline, the answer takes a while
            try:
                kafka = self._open.enter_context(ApacheKafka(version, setup))
                return self._open.enter_context(KafkaCluster(kafka))
            except UnavailableError as error:
                self._missing = error
        pytest.skip(f"needs Apache Kafka: {self._missing}")


def clear(broker: object) -> None:
    """Delete what tests have left; our own broker is new each time."""
    if isinstance(broker, KafkaCluster):
        with ottla.Admin(broker.bootstrap_servers) as admin:
            for group in admin.list_groups():
                admin.delete_group(group)
            admin.delete_topic(*admin.list_topics())
            until(lambda: not admin.list_topics())


def until(condition: Callable[[], bool]) -> None:
    """Wait: Kafka does much a moment after it has acknowledged it."""
    never, deadline_s = threading.Event(), time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never came to be so"
        never.wait(0.02)


def skip_before(version: str, broker: object, why: str) -> None:
    """Skip a test of what came to Apache Kafka with this version."""
    if isinstance(broker, KafkaCluster) and _numbers(broker.version) < _numbers(version):
        skip_at_kafka(broker, why)


def skip_at_kafka(broker: object, why: str) -> None:
    """Skip a test of what Apache Kafka cannot do, or does differently."""
    if isinstance(broker, KafkaCluster):
        pytest.skip(f"Apache Kafka {broker.version}: {why}")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
