"""A group of the new protocol (KIP-848) tells its story: real clients, and what commands say."""

from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from ottla import Admin
from ottla.testing import TestBroker
from tests.compat.cli_samples import facts, ottla
from tests.compat.group_clients import TIMEOUT_S

TOPIC = "dishes"
GROUP = "kitchen"
ROUNDS = 300
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
}


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    """A broker with ten records in each of two partitions."""
    with TestBroker(config=SETTINGS) as running:
        running.create_topic(TOPIC, partitions=2)
        for partition in range(2):
            running.produce(TOPIC, *map(str, range(10)), partition=partition)
        yield running


def consumer(broker: TestBroker, client_id: str) -> confluent_kafka.Consumer:
    made = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": GROUP,
            "group.protocol": "consumer",
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    made.subscribe([TOPIC])
    return made


def why(broker: TestBroker) -> dict[str, Any]:
    """What was found about the group, by code."""
    options = ("--look", 0, "-o", "json", "-b", broker.bootstrap_servers)
    (told,) = facts(ottla("why", "group", GROUP, *options))
    return {"state": told["state"], **{found["code"]: found for found in told["findings"]}}


def until(found: Callable[[], Any], *polling: confluent_kafka.Consumer) -> Any:
    """Let members poll until something is found, and return it."""
    for _ in range(ROUNDS):
        for member in polling:
            member.poll(0.1)
        if it := found():
            return it
    raise AssertionError("it never came to that")


def test_a_member_that_does_not_poll_holds_up_the_others_and_is_named(broker: TestBroker) -> None:
    ada = consumer(broker, "ada")
    assert len(ada.consume(20, timeout=TIMEOUT_S)) == 20
    bob = consumer(broker, "bob")

    def held_up() -> dict[str, Any] | None:
        found = why(broker)
        return found if "waits_for_revocation" in found else None

    found = until(held_up, bob)
    revocation, set_off = found["waits_for_revocation"], found["set_off_by"]
    assert found["state"] == "Reconciling"
    assert revocation["members"] == [ada.memberid()]
    assert len(revocation["partitions"]) == 1
    assert "(bob, 127.0.0.1)" in revocation["text"]
    assert revocation["since_ms"] < revocation["until_ms"]
    assert set_off["members"] == [bob.memberid()]
    assert set_off["text"].endswith("it joined.")

    until(lambda: why(broker)["state"] == "Stable", ada, bob)
    with Admin(broker.bootstrap_servers) as admin:
        story = admin.describe_group(GROUP).story
    assert story is not None
    first, second = story.rebalances
    assert (first.client_id, first.generation, second.client_id) == ("ada", 1, "bob")
    assert second.ended_ms is not None
    assert second.ended_ms > second.began_ms

    bob.close()
    until(lambda: why(broker)["state"] == "Stable", ada)
    options = ("-o", "json", "-b", broker.bootstrap_servers)
    (described,) = facts(ottla("group", "describe", GROUP, *options))
    last = described["rebalances"][-1]
    assert (last["client"], last["reason"]) == ("bob", "it left")
    assert last["generation"] == described["generation"] == 3
    ada.close()
    assert "(the last was " in why(broker)["no_members"]["text"]
