"""Failures that a driver survives, and those of the people who look after it: each record once.

The numbers of windows are those of the table in docs/explanation/exactly-once-spark.md.
"""

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StringType, StructField, StructType

import ottla
from ottla.client.config import ClientConfig
from ottla.client.engine import Engine
from ottla.client.ports import real_ports
from ottla.client.targets import transaction as coordinator_of
from ottla.model import TopicPartition
from ottla.spark.sink import protocol, tasks
from ottla.spark.sink.brokers import Brokers
from ottla.spark.sink.decisions import Names, read_ledger
from ottla.spark.sink.faults import REACHED, RESUME
from ottla.spark.sink.protocol import SupersededError
from ottla.spark.sink.rows import Rows
from ottla.testing import TestBroker
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.kafka_cluster import OpenBroker
from tests.spark.sink_world import World, finish, order, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1200)
TWO_BATCHES = {"maxOffsetsPerTrigger": 6}
ROWS = range(4)
LAST_EPOCHS = 32_762
"""Two rounds later there are none left."""


@pytest.fixture(scope="module")
def two_phase_broker(open_broker: OpenBroker) -> Iterator[TestBroker]:
    with open_broker({"transaction.two.phase.commit.enable": True}) as broker:
        yield broker


@pytest.fixture
def world(two_phase_broker: TestBroker, tmp_path: Path) -> World:
    return World(two_phase_broker.bootstrap_servers, tmp_path)


def copied(world: World, topic: str, *, partitions: int = 3) -> list[str]:
    """Topics for a query, the first one with rows; they are what shall be written."""
    world.make(f"{topic}-out", 2)
    return world.fill(f"{topic}-in", partitions=partitions, rows=ROWS)


def fails(run: Callable[[], None], why: str) -> None:
    with pytest.raises(PySparkException, match=why):
        run()


@pytest.mark.parametrize(
    ("point", "partitions", "is_decided"),
    [
        ("commit.before.EndRound", 3, False),
        ("commit.among.End", 3, True),
        ("commit.before.End", 1, False),
        ("commit.after.End", 1, True),
    ],
)
def test_w7_an_error_in_the_commit_aborts_what_is_not_decided_and_nothing_else(
    spark: "SparkSession", world: World, topic: str, point: str, partitions: int, is_decided: bool
) -> None:
    wanted = copied(world, topic, partitions=partitions)
    order(point, topic, "raise")

    fails(lambda: world.run(spark, topic), "ordered")

    left = [entry.transactional_id for entry in world.open_transactions(topic)]
    assert is_decided or left == []
    world.run(spark, topic)
    assert world.committed(f"{topic}-out") == wanted
    assert world.open_transactions(topic) == []


def test_w8_a_query_is_stopped_while_it_commits(
    spark: "SparkSession", world: World, topic: str
) -> None:
    wanted = copied(world, topic)
    reached = order("commit.before.EndRound", topic, "pause")
    query = world.copy_until(spark, topic, reached)

    stopping = threading.Thread(target=query.stop)
    stopping.start()
    resume(reached)
    stopping.join()
    world.run(spark, topic)

    assert world.committed(f"{topic}-out") == wanted
    assert world.open_transactions(topic) == []


@pytest.mark.parametrize(
    ("point", "what"),
    [("task1.among", "raise"), ("task1.among", "exit"), ("task1.written", "exit")],
)
def test_w9_a_task_that_fails_or_whose_worker_dies_is_repeated_and_counts_once(
    spark: "SparkSession", world: World, topic: str, point: str, what: str
) -> None:
    wanted = copied(world, topic)
    reached = order(point, topic, what)

    world.run(spark, topic, source=TWO_BATCHES)

    assert reached.exists()
    assert world.committed(f"{topic}-out") == wanted
    assert world.open_transactions(topic) == []


def test_w11_a_task_that_comes_when_its_batch_is_over_writes_nothing(
    world: World, topic: str
) -> None:
    world.make(topic)
    names = Names(topic)
    client = {"bootstrap.servers": world.servers}
    with Brokers.of(client, names) as brokers:
        late = brokers.run("plan", protocol.plan())
        brokers.run("plan", protocol.plan())

    with pytest.raises(SupersededError, match="too late"):
        tasks.write_prepared(tasks.Job(client, names, late.round, True), *one_row(topic), 0)

    assert world.open_transactions(topic) == []


def test_w11_what_a_worker_that_died_late_has_left_is_aborted_by_the_next_batch(
    spark: "SparkSession", world: World, topic: str
) -> None:
    wanted = copied(world, topic)
    client = {"bootstrap.servers": world.servers}
    names = Names(topic)
    with Brokers.of(client, names) as brokers:
        plan = brokers.run("plan", protocol.plan())
    rows, batches = one_row(f"{topic}-out")
    orphan = tasks.write_prepared(tasks.Job(client, names, plan.round, True), rows, batches, 0)
    assert orphan is not None
    left = [entry.transactional_id for entry in world.open_transactions(topic)]
    assert left == [orphan.identity.transactional_id]

    world.run(spark, topic)

    assert world.committed(f"{topic}-out") == wanted
    assert world.open_transactions(topic) == []


def test_w13_a_new_checkpoint_for_the_same_sink_skips_nothing(
    spark: "SparkSession", world: World, topic: str
) -> None:
    first = copied(world, topic)
    world.run(spark, topic, source=TWO_BATCHES)
    shutil.rmtree(world.checkpoint(topic))
    more = world.fill(f"{topic}-in", partitions=3, rows=range(10, 14))

    world.run(spark, topic, source={"startingOffsets": "group"})

    assert world.committed(f"{topic}-out") == sorted(first + more)


def test_w14_a_checkpoint_that_was_changed_is_noticed(
    spark: "SparkSession", world: World, topic: str
) -> None:
    wanted = copied(world, topic)
    world.run(spark, topic, source=TWO_BATCHES)
    checkpoint = world.checkpoint(topic)
    for path in (checkpoint / "commits" / "1", checkpoint / "commits" / ".1.crc"):
        path.unlink(missing_ok=True)
    offsets = checkpoint / "offsets" / "1"
    lines = offsets.read_text("utf-8").splitlines()
    offsets.with_name(".1.crc").unlink(missing_ok=True)
    offsets.write_text("\n".join([*lines[:-1], lines[-1].replace('"0": 4', '"0": 3')]), "utf-8")

    fails(lambda: world.run(spark, topic), "ended at other offsets")

    assert world.committed(f"{topic}-out") == wanted


def test_w14_a_checkpoint_from_an_older_copy_is_noticed(
    spark: "SparkSession", world: World, topic: str
) -> None:
    copied(world, topic)
    world.run(spark, topic, source=TWO_BATCHES)
    copy = world.folder / "copy"
    shutil.copytree(world.checkpoint(topic), copy)
    more = world.fill(f"{topic}-in", partitions=3, rows=range(10, 11))
    world.run(spark, topic)
    shutil.rmtree(world.checkpoint(topic))
    copy.rename(world.checkpoint(topic))
    world.fill(f"{topic}-in", partitions=3, rows=range(11, 12))

    fails(lambda: world.run(spark, topic), "ended at other offsets")

    assert [value for value in more if world.committed(f"{topic}-out").count(value) != 1] == []


def test_w16_readers_see_a_batch_when_it_is_committed_and_not_before(
    spark: "SparkSession", world: World, topic: str
) -> None:
    wanted = copied(world, topic)
    reached = order("commit.before.Decide", topic, "pause")
    query = world.copy_until(spark, topic, reached)

    assert world.committed(f"{topic}-out") == []
    assert len(world.open_transactions(topic)) == 3

    resume(reached)
    finish(query)
    assert world.committed(f"{topic}-out") == wanted


def test_w17_the_number_of_transactional_ids_does_not_grow_with_that_of_batches(
    spark: "SparkSession", world: World, topic: str
) -> None:
    world.make(f"{topic}-out", 2)
    wanted = world.fill(f"{topic}-in", partitions=1, rows=range(12))

    world.run(spark, topic, source={"maxOffsetsPerTrigger": 1})

    assert world.committed(f"{topic}-out") == wanted
    assert len(read_ledger(world.servers, topic)) == len(wanted)
    with ottla.Admin(world.servers) as admin:
        names = [entry.transactional_id for entry in admin.list_transactions()]
    # A task has two Python workers, one to read and one to write, and any may be either.  Two
    # tasks have four; and Spark replaces those that had nothing to do for a minute.
    assert len([name for name in names if Names(topic).is_participant(name)]) <= 8


@pytest.mark.parametrize("choice", ["rewrite", "skip"])
def test_w15_what_expires_after_its_decision_is_told_and_the_user_chooses(
    spark: "SparkSession", open_broker: OpenBroker, tmp_path: Path, topic: str, choice: str
) -> None:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}
    with open_broker(settings) as broker:
        world = World(broker.bootstrap_servers, tmp_path)
        wanted = copied(world, topic)
        sink: dict[str, Any] = {"kafka.transaction.timeout.ms": 300_000}
        order("commit.after.EndRound", topic, "raise")
        fails(lambda: world.run(spark, topic, sink=sink), "ordered")
        broker.advance(timedelta(minutes=6))
        wait_until(lambda: world.open_transactions(topic) == [])

        fails(lambda: world.run(spark, topic, sink=sink), f'12 of 12 rows.*"{choice} 0"')
        world.run(spark, topic, sink={**sink, "afterLoss": f"{choice} 0"})
        more = world.fill(f"{topic}-in", partitions=3, rows=range(10, 11))
        world.run(spark, topic, sink=sink)

        kept = wanted if choice == "rewrite" else []
        assert world.committed(f"{topic}-out") == sorted(kept + more)


def test_w18_a_driver_whose_epochs_are_used_up_gets_another_producer_id(
    spark: "SparkSession", world: World, topic: str
) -> None:
    wanted = copied(world, topic)
    names = Names(topic)
    with Brokers.of({"bootstrap.servers": world.servers}, names) as brokers:
        first = brokers.run("plan", protocol.plan()).round
    use_up_epochs(world, names, until=LAST_EPOCHS)

    world.run(spark, topic, source={"maxOffsetsPerTrigger": 3})

    ledger = read_ledger(world.servers, topic)
    assert world.committed(f"{topic}-out") == wanted
    assert {decision.round.producer_id for decision in ledger} > {first.producer_id}
    assert world.group_offsets(f"{topic}-group") == {
        TopicPartition(f"{topic}-in", partition): len(ROWS) for partition in range(3)
    }


def use_up_epochs(world: World, names: Names, *, until: int) -> None:
    """Take the driver's id again and again, many requests at a time."""

    async def take() -> None:
        engine = Engine(ClientConfig.of(world.servers), real_ports())
        await engine.start()
        await engine.connect()
        target = coordinator_of(names.coordinator)
        request = InitProducerIdRequest(
            transactional_id=names.coordinator, transaction_timeout_ms=1000
        )
        epoch = 0
        while epoch < until:
            count = min(until - epoch, 64)
            asked = [engine.ask(request, InitProducerIdResponse, to=target) for _ in range(count)]
            epoch = max(answer.producer_epoch for answer in await asyncio.gather(*asked))
        await engine.close()

    asyncio.run(take())


def one_row(topic: str) -> tuple[Rows, Any]:
    """What a task has to write."""
    import pyarrow as pa

    schema = StructType([StructField("value", StringType())])
    return Rows(schema, topic), iter([pa.record_batch({"value": pa.array(["late"])})])


def resume(reached: Path) -> None:
    reached.with_name(reached.name.removesuffix(REACHED) + RESUME).touch()
