"""Committed offsets: what each client commits, all of them find again, whatever happened since."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.testing import TestBroker
from tests.broker.served import ServedBroker
from tests.compat.group_clients import GROUP_CLIENTS, GroupClient


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


@pytest.fixture(params=GROUP_CLIENTS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> type[GroupClient]:
    found: type[GroupClient] = request.param
    return found


@pytest.fixture
def client(kind: type[GroupClient], broker: TestBroker) -> GroupClient:
    return kind(broker.bootstrap_servers)


@pytest.fixture
def created(broker: TestBroker, topic: str) -> str:
    broker.create_topic(topic)
    return topic


def test_a_committed_offset_is_found_by_every_client(
    broker: TestBroker, client: GroupClient, created: str
) -> None:
    group = f"simple-{created}"
    assert client.committed(group, created) is None
    client.commit(group, created, 42, "how far it came")
    found = {
        kind.name: kind(broker.bootstrap_servers).committed(group, created)
        for kind in GROUP_CLIENTS
    }
    assert found == dict.fromkeys(found, 42)


def test_a_committed_offset_may_go_back(client: GroupClient, created: str) -> None:
    client.commit(f"back-{created}", created, 42)
    client.commit(f"back-{created}", created, 7)
    assert client.committed(f"back-{created}", created) == 7


def test_a_member_that_commits_by_itself_goes_on_where_it_was(
    broker: TestBroker, client: GroupClient, created: str
) -> None:
    broker.produce(created, *(str(number) for number in range(10)))
    group = f"auto-{created}"
    assert client.consume(group, created, 4) == [0, 1, 2, 3]
    assert client.committed(group, created) == 4
    assert client.consume(group, created, 6) == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("end", ["stopped", "crashed"])
def test_offsets_and_groups_outlive_a_broker_in_this_process(
    broker: TestBroker, client: GroupClient, created: str, end: str
) -> None:
    broker.produce(created, "a", "b")
    simple, joined = f"simple-{created}", f"joined-{created}"
    client.commit(simple, created, 1)
    assert client.consume(joined, created, 2) == [0, 1]
    if end == "crashed":
        broker.crash()
    broker.restart()
    assert client.committed(simple, created) == 1
    assert client.committed(joined, created) == 2
    assert {simple, joined} <= client.groups()
    assert client.state(joined) == "Empty"


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_offsets_outlive_the_broker_process(
    tmp_path: Path, kind: type[GroupClient], end: str
) -> None:
    with ServedBroker(tmp_path / "data") as served:
        with ottla.Admin(served.bootstrap_servers) as admin:
            admin.create_topic("orders")
        client = kind(served.bootstrap_servers)
        client.commit("survivors", "orders", 1)
        client.commit("survivors", "orders", 2)
        if end == "stopped":
            assert served.stop() == 0
        else:
            served.kill()
    with ServedBroker(tmp_path / "data") as served:
        assert kind(served.bootstrap_servers).committed("survivors", "orders") == 2


def test_the_offsets_of_a_deleted_topic_are_gone(
    broker: TestBroker, client: GroupClient, created: str
) -> None:
    group = f"bereft-{created}"
    broker.create_topic(f"{created}-kept")
    client.commit(group, created, 5)
    client.commit(group, f"{created}-kept", 6)
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic(created)
    assert client.committed(group, created) is None
    assert client.committed(group, f"{created}-kept") == 6
    broker.crash()
    broker.restart()
    assert client.committed(group, created) is None
