"""`ottla why transaction` and `ottla why pipeline`, with a broker in each of the situations."""

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from ottla.broker.embedded import Broker
from ottla.cli import main as cli
from ottla.client.admin.admin import Admin
from ottla.client.producer.producer import Producer
from ottla.errors import ErrorCode, NotFoundError
from ottla.model import TopicPartition
from ottla.pipeline.progress import StepProgress
from ottla.pipeline.state import FAILED, RUNNING, STATE_VARIABLE, STOPPED, State, StateFolder
from ottla.spark.sink.decisions import (
    SETTLED_PREFIX,
    TOPIC_CONFIG,
    Decision,
    Identity,
    Names,
    Participant,
)
from tests.broker.txn_wire import TxnWire
from tests.broker.wire_client import WireClient
from tests.compat.cli_samples import Run, facts
from tests.keeping import KEEPS

numbers = count()
PATIENCE_S = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={**KEEPS, "transaction.two.phase.commit.enable": True}) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as connected:
        yield connected


@pytest.fixture
def topic(topic: str, client: WireClient) -> str:
    """A topic that exists."""
    assert client.create_topic(topic) == ErrorCode.NONE
    return topic


def opened(client: WireClient, transactional_id: str, topic: str, **how: Any) -> TxnWire:
    """A transaction that has written one record."""
    producer = TxnWire(client, transactional_id)
    assert producer.init(**how).error_code == ErrorCode.NONE
    assert producer.produce(topic, b"a").error_code == ErrorCode.NONE
    return producer


def codes(result: Result) -> list[str]:
    """What `ottla why -o json` found."""
    (told,) = facts(result)
    return [finding["code"] for finding in told["findings"]]


# Transactions.


def test_an_open_transaction_waits_for_its_producer(
    run: Run, client: WireClient, topic: str
) -> None:
    producer = opened(client, f"of-{topic}", topic, timeout_ms=600_000)

    (told,) = facts(run("why", "transaction", f"of-{topic}", "-o", "json"))
    shown = run("why", "transaction", f"of-{topic}").stdout

    assert told["state"] == "Ongoing"
    opening, holding = told["findings"]
    assert opening["code"] == "open"
    assert opening["until_ms"] - opening["since_ms"] == 600_000
    assert f"producer {producer.producer.producer_id} (epoch 0)" in opening["text"]
    assert holding["code"] == "holds_back"
    assert holding["partitions"] == [f"{topic}-0"]
    assert "It is aborted in " in shown
    assert "stop at offset 0, 1 offset before the end" in shown
    assert f"`ottla txn abort of-{topic}`" in shown
    producer.finish()


def test_a_prepared_transaction_may_wait_for_ever(run: Run, client: WireClient, topic: str) -> None:
    producer = opened(client, f"of-{topic}", topic, enable2_pc=True)

    (told,) = facts(run("why", "transaction", f"of-{topic}", "-o", "json"))

    assert [finding["code"] for finding in told["findings"]] == ["prepared", "holds_back"]
    assert told["findings"][0]["until_ms"] is None
    assert "two-phase commit" in told["findings"][0]["text"]
    producer.finish()


def test_whoever_was_fenced_is_told_who_may_go_on(run: Run, client: WireClient, topic: str) -> None:
    opened(client, f"of-{topic}", topic)
    successor = TxnWire(client, f"of-{topic}")
    deadline_s = time.monotonic() + PATIENCE_S
    while (answer := successor.init()).error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        assert time.monotonic() < deadline_s  # the transaction of its predecessor is aborted first
    assert answer.error_code == ErrorCode.NONE

    (told,) = facts(run("why", "transaction", f"of-{topic}", "-o", "json"))

    (finding,) = told["findings"]
    assert finding["code"] == "nothing"
    assert f"epoch {successor.producer.epoch}" in finding["text"]
    assert "PRODUCER_FENCED" in finding["text"]


@pytest.mark.parametrize(("commit", "code"), [(True, "nothing"), (False, "aborted")])
def test_a_transaction_that_ended_waits_for_nothing(
    run: Run, client: WireClient, topic: str, commit: bool, code: str
) -> None:
    opened(client, f"of-{topic}", topic).finish(commit=commit)
    deadline_s = time.monotonic() + PATIENCE_S
    while codes(answer := run("why", "transaction", f"of-{topic}", "-o", "json")) != [code]:
        assert time.monotonic() < deadline_s, answer.stdout  # markers are written meanwhile


def test_an_id_that_nobody_used_is_not_found(run: Run) -> None:
    result = run("why", "transaction", "nobody")

    assert result.exit_code == cli.EXIT_CODES[NotFoundError]
    assert "nobody" in result.stderr


# Pipelines.


class World:
    """A pipeline `shop-N` of one step, revenue: its traces on a machine and in a broker."""

    def __init__(self, broker: Broker, client: WireClient, source: str, home: Path) -> None:
        self.name = f"shop-{next(numbers)}"
        self.names = Names(f"{self.name}.revenue")
        self.broker, self.client, self.source = broker, client, source
        self.folder = StateFolder(home, self.name)
        now_ms = int(time.time() * 1000)
        self.state = State(
            name=self.name,
            pid=4711,
            file="shop.py",
            bootstrap=broker.bootstrap_servers,
            master="local",
            checkpoint="/checkpoints",
            is_once=False,
            started_ms=now_ms - 3_600_000,
            updated_ms=now_ms,
            steps=(StepProgress(step="revenue", batch_id=7, in_per_s=0.0, batch_ms=1000),),
            groups={"revenue": self.names.sink_id},
        )

    def tell(self, **changes: Any) -> None:
        """Have it written down on this machine."""
        self.folder.path.mkdir(parents=True, exist_ok=True)
        self.folder.write(replace(self.state, **changes))

    def commit(self, offset: int) -> None:
        with Admin(self.broker.bootstrap_servers) as admin:
            admin.alter_group_offsets(self.names.sink_id, {TopicPartition(self.source, 0): offset})

    def participants(self, topic: str) -> list[TxnWire]:
        """Two tasks that have written and not ended."""
        ids = [self.names.participant("worker", index) for index in range(2)]
        return [opened(self.client, name, topic, enable2_pc=True) for name in ids]

    def decide(self, tasks: list[TxnWire], *, settled: bool = False) -> Decision:
        """Let the journal say that the batch of these tasks counts."""
        decision = Decision(
            sink_id=self.names.sink_id,
            query_id="query",
            batch_id=12,
            round=Identity(self.names.coordinator, 1, 0),
            participants=tuple(
                Participant(Identity(task.transactional_id, *task.producer), index, 10)
                for index, task in enumerate(tasks)
            ),
            offsets_digest=None,
            decided_ms=int(time.time() * 1000) - 600_000,
            duration_ms=100,
        )
        journal = self.names.journal.topic
        with Admin(self.broker.bootstrap_servers) as admin:
            admin.create_topic(journal, partitions=1, config=TOPIC_CONFIG)
        with Producer(self.broker.bootstrap_servers) as producer:
            producer.send(journal, decision.encode(), key=decision.key)
            if settled:
                mark = b'{"stamp": "%s", "void": false}' % decision.stamp.encode()
                producer.send(journal, mark, key=SETTLED_PREFIX + decision.key)
        return decision


@pytest.fixture
def world(
    broker: Broker,
    client: WireClient,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)
    return World(broker, client, topic, tmp_path)


def test_a_batch_that_was_decided_waits_for_a_driver_to_carry_it_out(
    run: Run, world: World, topic: str
) -> None:
    tasks = world.participants(topic)
    world.decide(tasks)
    world.tell(outcome=RUNNING)  # and nobody holds its lock

    (told,) = facts(run("why", "pipeline", world.name, "-o", "json"))
    shown = run("why", "transaction", tasks[0].transactional_id).stdout

    assert told["state"] == "killed"
    killed, pending = told["findings"]
    assert killed["code"] == "killed"
    assert "process 4711" in killed["text"]
    assert pending["code"] == "decision_pending"
    assert "2 of its 2 transactions" in pending["text"]
    assert "`ottla pipeline run shop.py`" in pending["advice"]
    assert pending["partitions"] == [f"{topic}-0"]
    assert "Batch 12" in shown
    assert "Do not abort it" in shown


def test_a_batch_that_was_never_decided_was_left_in_the_middle(
    run: Run, world: World, topic: str
) -> None:
    world.decide([], settled=True)
    (first, _) = world.participants(topic)
    world.tell(outcome=FAILED, trouble="the shop burnt down")

    (told,) = facts(run("why", "pipeline", world.name, "-o", "json"))

    failed, left = told["findings"]
    assert failed["code"] == "failed"
    assert "the shop burnt down" in failed["text"]
    assert left["code"] == "batch_left"
    assert "2 transactions" in left["text"]
    assert codes(run("why", "transaction", first.transactional_id, "-o", "json")) == [
        "batch_open",
        "holds_back",
    ]


def test_a_decision_that_was_carried_out_is_no_news(run: Run, world: World, topic: str) -> None:
    world.decide(world.participants(topic), settled=True)
    world.tell(outcome=STOPPED)

    assert "decision_pending" not in codes(run("why", "pipeline", world.name, "-o", "json"))


def test_a_pipeline_that_was_stopped_says_so_and_how_far_behind_it_is(
    run: Run, world: World, topic: str
) -> None:
    with Producer(world.broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"x"] * 5)
    world.commit(2)
    world.tell(outcome=STOPPED)

    (told,) = facts(run("why", "pipeline", world.name, "-o", "json"))

    assert [finding["code"] for finding in told["findings"]] == ["stopped", "behind"]
    assert told["lag"] == 3
    assert "3 records behind" in told["findings"][1]["text"]
    assert "nobody reads" in told["findings"][1]["text"]


def test_a_pipeline_that_runs_and_is_behind_says_how_fast_it_reads(
    run: Run, world: World, topic: str
) -> None:
    with Producer(world.broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"x"] * 5)
    world.commit(2)
    reading = StepProgress(step="revenue", in_per_s=1200.0, batch_ms=1000)
    world.tell(outcome=RUNNING, steps=(reading,))

    with world.folder.claimed():
        (told,) = facts(run("why", "pipeline", world.name, "--look", 0, "-o", "json"))

    (finding,) = told["findings"]
    assert finding["code"] == "catches_up"
    assert "1,200 records a second" in finding["text"]


def test_a_pipeline_of_another_machine_is_known_by_its_journal(
    run: Run, world: World, topic: str
) -> None:
    world.decide(world.participants(topic))

    (told,) = facts(run("why", "pipeline", world.name, "-o", "json"))

    assert told["state"] is None
    assert told["steps"] == ["revenue"]
    assert "decision_pending" in [finding["code"] for finding in told["findings"]]


def test_a_pipeline_that_nobody_knows_is_an_error(run: Run, world: World) -> None:
    result = run("why", "pipeline", "nothing")

    assert result.exit_code != cli.OK
    assert "no pipeline 'nothing' ever ran here" in result.stderr
