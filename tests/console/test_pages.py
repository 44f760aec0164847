"""Each page shows what the cluster has, and each form does what it says."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

import ottla
from ottla import measures
from ottla.broker.embedded import Broker
from tests.console.browsing import WAIT_S, post, wait_for
from tests.console.conftest import console_of
from tests.kafka_cluster import skip_at_kafka


def test_the_overview_shows_topics_and_groups() -> None:
    # A broker of its own: of many topics and groups the overview shows but the first.
    with Broker() as broker, ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("some-topic")
        admin.alter_group_offsets("some-group", {ottla.TopicPartition("some-topic", 0): 0})
        with console_of(broker) as client:
            wait_for(client, "/", "some-topic")
            shown = wait_for(client, "/", "some-group")
    assert '<span class="badge ok">healthy</span>' in shown


def test_topics_can_be_searched(client: TestClient, topic: str) -> None:
    assert topic in wait_for(client, f"/topics?find={topic[-3:]}", topic)
    assert "No such topic." in client.get("/topics?find=nothing-like-it").text
    assert "__consumer_offsets" not in client.get("/topics").text


def test_a_topic_shows_its_partitions_and_settings(client: TestClient, topic: str) -> None:
    shown = client.get(f"/topics/{topic}").text
    assert "retention.ms" in shown
    assert shown.count('<td class="r">2</td>') >= 2  # records of each partition


def test_a_topic_that_is_not_there_is_404_in_words(client: TestClient) -> None:
    answer = client.get("/topics/nothing")
    assert answer.status_code == 404
    assert "nothing" in answer.text


def test_an_address_that_is_not_there_is_404(client: TestClient) -> None:
    assert client.get("/what").status_code == 404


def test_a_topic_is_created_changed_and_deleted(client: TestClient, broker: Broker) -> None:
    answer = post(
        client, "/topics", name="made-here", partitions="3", settings="retention.ms=60000"
    )
    assert "was created" in answer.text
    post(client, "/topics/made-here/config", name="retention.ms", value="70000")
    answer = post(client, "/topics/made-here/partitions", total="4")
    assert "70000" in answer.text
    with ottla.Admin(broker.bootstrap_servers) as admin:
        assert len(admin.describe_topic("made-here").partitions) == 4
    answer = post(client, "/topics/made-here/delete", confirm="another name")
    assert answer.status_code == 400
    assert "was deleted" in post(client, "/topics/made-here/delete", confirm="made-here").text
    with ottla.Admin(broker.bootstrap_servers) as admin:
        assert "made-here" not in admin.list_topics()


def test_a_setting_is_taken_back(client: TestClient, topic: str) -> None:
    post(client, f"/topics/{topic}/config", name="retention.ms", value="70000")
    shown = post(client, f"/topics/{topic}/config", name="retention.ms", value="", unset="1").text
    assert "has its default again" in shown
    assert "<code>70000</code>" not in shown


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"name": "x", "partitions": "no"}, "no number of partitions"),
        ({"name": "x", "partitions": "1", "settings": "retention"}, "name=value"),
        ({"name": "bad name", "partitions": "1"}, "bad name"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    client: TestClient, form: dict[str, str], said: str
) -> None:
    answer = post(client, "/topics", **form)
    assert answer.status_code == 400
    assert said in answer.text


def test_the_newest_messages_come_first_and_payloads_are_escaped(
    client: TestClient, topic: str
) -> None:
    shown = client.get(f"/topics/{topic}/messages").text
    assert "&lt;b&gt;bold&lt;/b&gt;" in shown
    assert "<b>bold" not in shown
    assert shown.index("key-3") < shown.index("key-0")
    assert "trace=t1" in shown


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("begin=oldest&count=2&partition=0", ["key-0", "key-2"]),
        ("begin=offset&at=1", ["key-2", "key-3"]),
        ("begin=offset&at=999", []),
        ("begin=time&at=2020-01-01", ["key-0", "key-1", "key-2", "key-3"]),
        ("begin=time&at=2100-01-01", []),
        ("key=key-3", ["key-3"]),
        ("value=%22number%22:%202", ["key-2"]),
        ("header=trace=t1", ["key-1"]),
        ("path=number=0", ["key-0"]),
        ("begin=oldest&path=number=3", ["key-3"]),
    ],
)
def test_messages_are_found(client: TestClient, topic: str, query: str, keys: list[str]) -> None:
    lines = client.get(f"/topics/{topic}/download?{query}").text.splitlines()
    assert sorted(json.loads(line)["key"] for line in lines) == keys
    shown = client.get(f"/topics/{topic}/messages?{query}").text
    assert [f"key-{number}" for number in range(4) if f"key-{number}<" in shown] == keys


@pytest.mark.parametrize(
    "query", ["begin=nowhere", "begin=offset&at=x", "begin=time&at=x", "format=x"]
)
def test_a_search_that_makes_no_sense_is_refused(
    client: TestClient, topic: str, query: str
) -> None:
    assert client.get(f"/topics/{topic}/messages?{query}").status_code == 400


def test_a_record_is_written(client: TestClient, topic: str) -> None:
    where = f"/topics/{topic}/messages"
    answer = post(client, where, key="mine", value="hello", headers="a=b", partition="1")
    assert "Written to partition 1 at offset 2" in answer.text
    assert "hello" in answer.text
    answer = post(client, where, key="mine", value="ignored", is_tombstone="1")
    assert ">null<" in answer.text
    assert post(client, where, value="x", headers="no equals sign").status_code == 400
    assert post(client, "/topics/not-there/messages", value="x").status_code == 404


def test_records_of_open_transactions_are_shown_on_demand(
    client: TestClient, broker: Broker, topic: str
) -> None:
    with ottla.Producer(
        broker.bootstrap_servers, transactional_id=f"open-{topic}", transaction_timeout_ms=600_000
    ) as producer:
        with producer.transaction():
            producer.send(topic, b"undecided", partition=0).result()
            assert "undecided" not in client.get(f"/topics/{topic}/messages").text
            where = f"/topics/{topic}/messages?isolation=uncommitted"
            assert "undecided" in client.get(where).text
            shown = client.get("/transactions").text
            assert f"open-{topic}" in shown
            assert f"{topic}[0]" in shown
        wait_for(client, f"/topics/{topic}/messages", "undecided")  # once its markers are written
    assert f"open-{topic}" in client.get("/transactions?all=1").text


def test_a_transaction_is_aborted(client: TestClient, broker: Broker, topic: str) -> None:
    producer = ottla.Producer(broker.bootstrap_servers, transactional_id=f"stuck-{topic}")
    transaction = producer.transaction()
    transaction.__enter__()
    producer.send(topic, b"never seen", partition=0).result()
    assert "was aborted" in post(client, "/transactions/abort", id=f"stuck-{topic}").text
    assert f"<b>stuck-{topic}</b>" not in client.get("/transactions").text
    assert "never seen" not in client.get(f"/topics/{topic}/messages").text
    with pytest.raises(ottla.errors.OttlaError):
        transaction.__exit__(None, None, None)
    producer.close()


def test_a_group_shows_its_lag_and_is_moved(
    client: TestClient, broker: Broker, topic: str, group: str
) -> None:
    shown = client.get("/groups/show", params={"id": group}).text
    assert topic in shown
    assert "Nobody is in it." in shown
    plan = client.get("/groups/show", params={"id": group, "to": "latest", "topic": topic}).text
    assert "1 → 2" in plan
    assert "+2 records" in plan
    with ottla.Admin(broker.bootstrap_servers) as admin:
        assert admin.lag(group).total == 2  # a preview changes nothing
        answer = post(client, f"/groups/reset?id={group}", to="latest", topic=topic, at="")
        assert "Moved the offsets of 2 partitions" in answer.text
        assert admin.lag(group).total == 0


@pytest.mark.parametrize(
    ("to", "at"), [("offset", "many"), ("time", "soon"), ("ago", ""), ("elsewhere", "")]
)
def test_a_place_that_is_none_is_refused(client: TestClient, group: str, to: str, at: str) -> None:
    assert post(client, f"/groups/reset?id={group}", to=to, at=at).status_code == 400
    shown = client.get("/groups/show", params={"id": group, "to": to, "at": at})
    assert shown.status_code == 200
    assert 'class="bad"' in shown.text


def test_a_group_is_deleted_by_its_name(client: TestClient, group: str) -> None:
    wait_for(client, "/groups", group)
    assert post(client, f"/groups/delete?id={group}", confirm="x").status_code == 400
    assert "was deleted" in post(client, f"/groups/delete?id={group}", confirm=group).text
    assert client.get("/groups/show", params={"id": group}).status_code == 404


def test_a_group_in_use_is_not_moved(client: TestClient, broker: Broker, topic: str) -> None:
    servers = broker.bootstrap_servers
    with ottla.Consumer(
        topic, bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest"
    ) as reader:
        assert reader.poll(WAIT_S)
        shown = wait_for(client, f"/groups/show?id={topic}&to=earliest", "stop them first")
        assert "disabled" in shown
        wait_for(client, f"/groups/show?id={topic}", "<rect")  # the timeline of its member
        answer = post(client, f"/groups/reset?id={topic}", to="earliest", at="")
        assert answer.status_code == 409


def test_a_group_shows_its_rebalances(client: TestClient, broker: Broker, topic: str) -> None:
    skip_at_kafka(broker, "it does not tell what set off a rebalance")
    servers = broker.bootstrap_servers
    with ottla.Consumer(
        topic, bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest"
    ) as reader:
        assert reader.poll(WAIT_S)
        shown = client.get(f"/groups/show?id={topic}").text
    assert "<h2>Rebalances</h2>" in shown
    assert '<span class="mut">127.0.0.1</span>' in shown  # who set off the first one


def test_brokers_show_their_folders_and_settings(client: TestClient, broker: Broker) -> None:
    shown = client.get("/brokers").text
    assert "controller" in shown
    with ottla.Admin(broker.bootstrap_servers) as admin:
        features = admin.describe_features()
    assert features
    assert all(f"<td>{name}</td>" in shown for name in features)
    assert "num.partitions" in client.get("/brokers/1?find=num.part").text


def test_metrics_have_the_names_of_exporters(client: TestClient, topic: str, group: str) -> None:
    # A sample looks at topics before groups: one that has the group may lack the last records.
    end = f'kafka_topic_partition_current_offset{{topic="{topic}",partition="1"}} 2\n'
    wait_for(client, "/metrics", end)
    text = wait_for(client, "/metrics", f'consumergroup="{group}"')
    assert end in text
    labels = f'consumergroup="{group}",topic="{topic}"'
    assert f"kafka_consumergroup_lag_sum{{{labels}}} 2\n" in text
    assert f'kafka_consumergroup_lag{{{labels},partition="0"}} 1\n' in text
    assert "ottla_cluster_up 1\n" in text
    assert "\nkafka_brokers 1\n" in text
    families = text_string_to_metric_families(text)
    told = {family.name + "_total" * (family.type == "counter") for family in families}
    assert told == measures.told_by("console")


def test_health_and_readiness(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    wait_for(client, "/readyz", '"ready"')
