"""The console says why, in the words of `ottla why`, and points to what needs a look."""

import pytest
from starlette.testclient import TestClient

import ottla
from ottla.broker.embedded import Broker
from ottla.errors import ErrorCode
from ottla.testing import TestBroker
from ottla.why.topic import look_at_topic, why_topic
from tests.console.browsing import wait_for
from tests.console.conftest import console_of


def test_a_group_says_why_it_is_where_it_is(client: TestClient, group: str) -> None:
    shown = client.get("/groups/show", params={"id": group}).text

    assert "It has no members, and 2 records to read." in shown
    assert "<code>ottla group delete &#39;" in shown  # its name has a space, and a shell is told so


def test_a_topic_and_a_transaction_say_who_holds_readers_back(
    client: TestClient, broker: Broker, topic: str
) -> None:
    name = f"<i>held</i>-{topic}"
    with (
        ottla.Producer(
            broker.bootstrap_servers, transactional_id=name, transaction_timeout_ms=600_000
        ) as producer,
        producer.transaction(),
    ):
        producer.send(topic, b"undecided", partition=0).result()

        held = wait_for(client, f"/topics/{topic}", "read_committed consumers stop at offset 2")
        shown = client.get("/transactions/show", params={"id": name}).text

    assert "<i>held" not in held + shown
    assert "to end it, for" in shown
    assert f"holds back read_committed consumers of {topic}-0" in shown
    assert "Ongoing" in shown
    after = client.get("/transactions/show", params={"id": name}).text
    assert "It waits for nothing" in wait_for(client, f"/topics/{topic}", "waits for nothing")
    assert "Abort</button>" not in after


def test_a_transaction_that_nobody_knows_is_404_in_words(client: TestClient) -> None:
    answer = client.get("/transactions/show?id=nobody")
    assert answer.status_code == 404
    assert "nobody" in answer.text
    assert client.get("/transactions/show").status_code == 400


def test_the_overview_points_to_what_needs_a_look() -> None:
    # A broker of its own: of many things that need a look the overview names but the first.
    with Broker() as broker, ottla.Admin(broker.bootstrap_servers) as admin:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send("some-topic", b"unread").result()
        admin.alter_group_offsets("some/group", {ottla.TopicPartition("some-topic", 0): 0})
        with console_of(broker) as client:
            shown = wait_for(client, "/", "some/group has no members, and 1 record to read")
    assert 'class="badge warn">look at this' in shown
    assert 'href="/groups/show?id=some%2Fgroup"' in shown


def test_a_page_is_shown_although_nobody_can_say_why() -> None:
    with TestBroker() as broker:
        broker.produce("some-topic", "a")
        # What a broker does that fails; it is asked for nothing else on this page.
        broker.faults.fail("DescribeLogDirs", ErrorCode.UNKNOWN_SERVER_ERROR, times=None)
        with console_of(broker) as client:
            answer = client.get("/topics/some-topic")
    assert answer.status_code == 200
    assert "It could not be looked at: UNKNOWN_SERVER_ERROR" in answer.text


def test_a_topic_that_is_read_without_being_allowed_to_ask_for_disks_says_why() -> None:
    with TestBroker() as broker, ottla.Admin(broker.bootstrap_servers) as admin:
        broker.produce("some-topic", "a")
        broker.faults.fail("DescribeLogDirs", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        found = why_topic(look_at_topic(admin, "some-topic"))
    assert [finding.code for finding in found] == ["nothing"]


def test_a_console_goes_on_when_a_broker_does_not_tell_of_itself(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with console_of(broker, metrics_url="http://127.0.0.1:9/metrics") as client:
        wait_for(client, f"/topics?find={topic}", f"<b>{topic}</b>")
        shown = client.get("/").text
    assert "Produce p99" not in shown
    assert caplog.text.count("does not tell how the broker does") == 1
