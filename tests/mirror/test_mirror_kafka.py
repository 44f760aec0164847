"""A mirror from our broker to Apache Kafka, and back; without `--kafka` they are skipped."""

from collections.abc import Iterator
from itertools import count

import pytest

import ottla
from ottla.broker.embedded import Broker
from ottla.model import TopicPartition
from tests.kafka_cluster import OpenBroker
from tests.mirror.world import (
    Pair,
    commit,
    contents,
    create,
    next_value,
    until,
    write,
    write_committed,
)

_numbers = count(1)


@pytest.fixture
def name() -> str:
    """Of topics and groups that no test has used, with this broker or another."""
    return f"kafka-mirror-{next(_numbers)}"


@pytest.fixture(params=["to", "from"])
def both(
    request: pytest.FixtureRequest, brokers: tuple[Broker, Broker], open_broker: OpenBroker
) -> Iterator[Pair]:
    if request.config.getoption("--kafka") is None:
        pytest.skip("needs Apache Kafka: run `make compat-kafka`")
    ours, _ = brokers
    with open_broker({}) as other:
        if request.param == "to":
            yield Pair(ours.bootstrap_servers, other.bootstrap_servers)
        else:
            yield Pair(other.bootstrap_servers, ours.bootstrap_servers)


def test_topics_records_and_groups_arrive(both: Pair, name: str) -> None:
    create(both.source, name, partitions=3, retention_ms=10**12, cleanup_policy="delete")
    lots = [[b"a1", b"a2"], [b"b1"], [b"c1", b"c2"]]
    write_committed(both.source, name, *lots, aborted={1})
    with ottla.Producer(both.source) as producer:
        producer.send(name, None, key=b"k", partition=1, headers=[("h", None), ("h", b"\xff")])
        producer.send(name, b"", key=b"", partition=2, timestamp=1_600_000_000_000)
    visible = [TopicPartition(name, 0), TopicPartition(name, 1)]
    commit(both.source, name, {visible[0]: 3, visible[1]: 1})

    def is_there() -> bool:
        # Kafka acknowledges a commit a moment before readers see it.
        both.mirror(name, groups=(name,))
        return len(contents(both.target, name)[0]) == 4

    until(is_there)

    assert contents(both.target, name) == contents(both.source, name)
    with ottla.Admin(both.target) as admin:
        assert admin.describe_config(topic=name)["retention.ms"].value == str(10**12)
        admin.delete_group_offsets(name, [visible[1]])
    commit(both.target, name, {TopicPartition(name, 1): 2, TopicPartition(name, 2): 2})
    assert next_value(both.target, name, name) == b"c1"


def test_a_mirror_follows_goes_on_and_copies_nothing_twice(both: Pair, name: str) -> None:
    create(both.source, name)
    for lot in range(3):
        write(both.source, name, [b"%d.%d" % (lot, n) for n in range(50)])
        with both.following(name):
            until(lambda lot=lot: _copied(both, name) == 50 * (lot + 1))  # type: ignore[misc]

    assert contents(both.target, name) == contents(both.source, name)


def test_a_second_mirror_takes_over(both: Pair, name: str) -> None:
    create(both.source, name)
    write(both.source, name, [b"1"])
    with both.following(name) as second:
        until(lambda: _copied(both, name) == 1)
        both.mirror(name)
        write(both.source, name, [b"2"])
        until(lambda: second.is_over)
        assert isinstance(second.error, ottla.FencedError)
        second.error = None
    both.mirror(name)
    until(lambda: _copied(both, name) == 2)


def _copied(pair: Pair, topic: str) -> int:
    with ottla.Admin(pair.target) as admin:
        if topic not in admin.list_topics():
            return 0
    return len(contents(pair.target, topic)[0])
