"""Pipelines of this machine, and the ledgers of sinks in the cluster."""

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import ottla
from ottla.broker.embedded import Broker
from ottla.model import TopicPartition
from ottla.pipeline.progress import StepProgress
from ottla.pipeline.state import State, StateFolder
from ottla.spark.sink.decisions import SETTLED_PREFIX, Decision, Identity, Names, Participant
from tests.console.browsing import wait_for


def decision(sink_id: str, batch_id: int, *rows: int) -> Decision:
    return Decision(
        sink_id=sink_id,
        query_id="query",
        batch_id=batch_id,
        round=Identity("coordinator", 7, batch_id),
        participants=tuple(
            Participant(Identity(f"task-{n}", 8 + n, 0), n, count) for n, count in enumerate(rows)
        ),
        offsets_digest=None,
        groups={"shop": {TopicPartition("orders", 0): batch_id * 100}},
        decided_ms=1_700_000_000_000 + batch_id * 1000,
        duration_ms=250,
    )


@pytest.fixture
def sink_id(broker: Broker, topic: str) -> str:
    """A sink that has decided two batches."""
    name = f"sink-of-{topic}"
    place = Names(name).journal
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(place.topic)
    with ottla.Producer(broker.bootstrap_servers) as producer:
        for told in (decision(name, 1, 30), decision(name, 2, 5, 6)):
            producer.send(place.topic, told.encode(), key=told.key, partition=0)
        producer.send(place.topic, b"whatever", key=SETTLED_PREFIX + b"2", partition=0)
    return name


def test_a_sink_shows_its_last_decision_and_its_ledger(client: TestClient, sink_id: str) -> None:
    wait_for(client, "/pipelines", sink_id)
    shown = client.get("/pipelines/ledger", params={"id": sink_id}).text
    assert "orders[0]@200" in shown
    assert "one phase" in shown
    assert "2 transactions" in shown
    assert "41" in shown  # rows of all batches
    assert "group shop" in shown


def test_a_ledger_that_is_none_is_refused(client: TestClient, broker: Broker, topic: str) -> None:
    assert client.get("/pipelines/ledger").status_code == 400
    assert client.get("/pipelines/ledger?id=nobody").status_code == 404
    name = Names(f"strange-{topic}").journal.topic
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(name)
    with ottla.Producer(broker.bootstrap_servers) as producer:
        producer.send(name, json.dumps({"v": 99}).encode(), key=b"1")
    answer = client.get(f"/pipelines/ledger?id=strange-{topic}")
    assert answer.status_code == 400
    assert "version" in answer.text


def test_pipelines_of_this_machine_are_shown(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_STATE_DIR", str(tmp_path))
    folder = StateFolder(tmp_path, "shop")
    with folder.claimed():
        folder.write(
            State(
                name="shop",
                pid=1,
                file="shop.py",
                bootstrap="localhost:9092",
                master="local[2]",
                checkpoint="/nowhere",
                is_once=False,
                started_ms=1_700_000_000_000,
                updated_ms=1_700_000_000_000,
                steps=(StepProgress(step="revenue", batch_id=17, rows_in=4321, lag=5),),
            )
        )
        shown = client.get("/pipelines").text
        assert "running" in shown
    assert "revenue" in shown
    assert "4,321" in shown
    assert "killed" in client.get("/pipelines").text  # it said that it runs, and holds no lock
