"""Consumer groups of real clients, each member a process: who owns what, and who has read what.

Every record is seen, and no partition has two owners at once, whoever comes, leaves or dies.
"""

from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.testing import TestBroker
from tests.compat.group_crowd import (
    Crowd,
    Ownership,
    let_be_missed,
    overlaps,
    watched_crowd,
    write_to_each,
)

PARTITION_COUNT = 6
KINDS = ("confluent-kafka", "kafka-python", "aiokafka")
FLAVORS: list[Any] = [
    *(pytest.param({"client": kind}, id=kind) for kind in KINDS),
    pytest.param({"client": "confluent-kafka", "cooperative": True}, id="cooperative-sticky"),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


@pytest.fixture
def crowd(broker: TestBroker, topic: str) -> Iterator[Crowd]:
    with watched_crowd(broker, topic, PARTITION_COUNT) as crowd:
        yield crowd


def rebalances_set_off_by(broker: TestBroker, topic: str, member: str) -> list[str]:
    """Why a member made its group rebalance, each time."""
    with ottla.Admin(broker.bootstrap_servers) as admin:
        story = admin.describe_group(f"group-of-{topic}").story
    assert story is not None
    return [told.reason for told in story.rebalances if (told.member_id or "").startswith(member)]


def test_two_owners_at_once_would_be_noticed() -> None:
    early, late = Ownership("early", 0, 1.0, 2.0), Ownership("late", 0, 2.0)
    elsewhere = Ownership("late", 1, 1.0)
    assert overlaps([late, elsewhere, early]) == []
    too_early = Ownership("late", 0, 1.9)
    assert overlaps([too_early, elsewhere, early]) == [(early, too_early)]


@pytest.mark.parametrize("flavor", FLAVORS)
def test_members_share_the_partitions_and_miss_nothing(
    broker: TestBroker, crowd: Crowd, topic: str, flavor: dict[str, Any]
) -> None:
    count = write_to_each(broker, topic, PARTITION_COUNT)
    first = crowd.start(**flavor)
    crowd.wait_for_shares(PARTITION_COUNT)
    crowd.wait_for_records(count)
    crowd.start(**flavor)
    crowd.wait_for_shares(3, 3)
    count += write_to_each(broker, topic, PARTITION_COUNT)
    crowd.wait_for_records(count)
    crowd.leave(first)
    crowd.wait_for_shares(0, PARTITION_COUNT)
    count += write_to_each(broker, topic, PARTITION_COUNT)
    crowd.wait_for_records(count)
    assert len(crowd.records_read()) == count


@pytest.mark.parametrize("flavor", FLAVORS)
def test_who_is_killed_is_missed_and_its_share_goes_on(
    broker: TestBroker, crowd: Crowd, topic: str, flavor: dict[str, Any]
) -> None:
    crowd.start(**flavor)
    victim = crowd.start(**flavor)
    crowd.wait_for_shares(3, 3)
    count = write_to_each(broker, topic, PARTITION_COUNT)
    crowd.wait_for_records(count)
    crowd.kill(victim)
    count += write_to_each(broker, topic, PARTITION_COUNT)
    let_be_missed(broker, "Heartbeat")
    crowd.wait_for_shares(0, PARTITION_COUNT)
    crowd.wait_for_records(count)


def test_members_of_all_three_clients_share_one_group(
    broker: TestBroker, crowd: Crowd, topic: str
) -> None:
    members = [crowd.start(kind) for kind in KINDS]
    crowd.wait_for_shares(2, 2, 2)
    count = write_to_each(broker, topic, PARTITION_COUNT)
    crowd.wait_for_records(count)
    for left_over, member in zip((2, 1), members, strict=False):
        crowd.leave(member)
        share = PARTITION_COUNT // left_over
        crowd.wait_for_shares(*[0] * (3 - left_over), *[share] * left_over)
        count += write_to_each(broker, topic, PARTITION_COUNT)
        crowd.wait_for_records(count)


@pytest.mark.parametrize("client", KINDS)
def test_a_static_member_comes_back_to_what_it_had(
    broker: TestBroker, crowd: Crowd, topic: str, client: str
) -> None:
    """A static member that is back in time has its old share, and the other was not disturbed."""
    crowd.start(client, instance_id="stays")
    crowd.wait_for_shares(PARTITION_COUNT)
    gone = crowd.start(client, instance_id="comes-back")
    crowd.wait_for_shares(3, 3)
    share, reasons = gone.owned, rebalances_set_off_by(broker, topic, "comes-back")
    crowd.kill(gone)
    back = crowd.start(client, instance_id="comes-back")
    crowd.wait_for_shares(0, 3, 3)
    crowd.wait_for_records(write_to_each(broker, topic, PARTITION_COUNT))
    assert back.owned == share
    assert rebalances_set_off_by(broker, topic, "comes-back") == reasons


@pytest.mark.parametrize("client", KINDS)
def test_a_group_goes_on_after_the_broker_was_killed(
    broker: TestBroker, crowd: Crowd, topic: str, client: str
) -> None:
    crowd.start(client)
    crowd.start(client)
    crowd.wait_for_shares(3, 3)
    count = write_to_each(broker, topic, PARTITION_COUNT)
    crowd.wait_for_records(count)
    broker.crash()
    broker.restart()
    count += write_to_each(broker, topic, PARTITION_COUNT)
    crowd.wait_for_records(count)
    crowd.members[0].errors.clear()  # librdkafka tells of the connection that it lost
    crowd.members[1].errors.clear()
