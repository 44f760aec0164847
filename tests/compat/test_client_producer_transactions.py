"""Transactions of our producer against a real broker: both versions, faults, fences, hand-overs."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.client.records import Batch, GroupMetadata, Span
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.testing import TestBroker
from tests.compat.client_producers import SOON_S, served, values
from tests.kafka_cluster import OpenBroker, skip_at_kafka, skip_before

__all__ = ["served"]  # a fixture

TWO_PHASE = {"transaction.two.phase.commit.enable": True}
NO_TWO_PHASE = "it knows the requests of KIP-939 and does not keep what was prepared"
VERSIONS = pytest.mark.parametrize("version", [1, 2])


@pytest.fixture(scope="module")
def faulty(open_broker: OpenBroker) -> Iterator[TestBroker]:
    with open_broker(TWO_PHASE) as broker:
        yield broker


def visible(broker: TestBroker, topic: str, count: int) -> list[bytes | None]:
    """What readers see once markers are written: brokers answer before they are."""
    return [record.value for record in broker.wait_for(topic, count, SOON_S)]


def transactional(broker: TestBroker, topic: str, version: int = 0, **options: Any) -> Any:
    """A producer whose transactional id is the topic, in a version of the protocol; 0: the best."""
    if version == 2:
        skip_before("4.0", broker, "it has no second version of transactions (KIP-890)")
    producer: ottla.Producer = ottla.Producer(
        broker.bootstrap_servers, transactional_id=topic, **options
    )
    if version:
        producer._core.coordination.features = lambda: {"transaction.version": version}
    return producer


class FakeConsumer:
    """Where a batch came from."""

    def __init__(self, group: str) -> None:
        self.group_metadata = GroupMetadata(group)
        self.rewound: list[Batch[Any, Any]] = []

    def rewind(self, batch: Batch[Any, Any]) -> None:
        self.rewound.append(batch)


def consumed(group: str, topic: str) -> tuple[FakeConsumer, Batch[Any, Any]]:
    """A batch of the input, up to offset 5."""
    consumer = FakeConsumer(group)
    spans = {TopicPartition(topic, 0): Span(0, 5)}
    return consumer, Batch(spans=spans, source=consumer)


def committed(broker: TestBroker, group: str) -> dict[str, int]:
    with ottla.Admin(broker.bootstrap_servers) as admin:
        found = admin.list_group_offsets(group, require_stable=True)
    return {str(tp): at.offset for tp, at in found.items()}


@VERSIONS
def test_a_transaction_is_visible_as_a_whole_when_it_is_committed(
    served: TestBroker, topic: str, version: int
) -> None:
    expected: list[bytes | None] = []
    with transactional(served, topic, version) as producer:
        for n in range(3):
            with producer.transaction() as tx:
                assert tx.send(topic, b"%d" % n).result(SOON_S).topic == topic
                assert tx.send_many(topic, [b"more"]) == 1
                assert values(served, topic) == expected
            expected += [b"%d" % n, b"more"]
            assert visible(served, topic, len(expected)) == expected


@VERSIONS
def test_a_block_that_raises_leaves_nothing_visible_and_the_producer_goes_on(
    served: TestBroker, topic: str, version: int
) -> None:
    def go_wrong(producer: Any) -> None:
        with producer.transaction() as tx:
            tx.send(topic, b"never").result(SOON_S)
            tx.send(topic, b"nor this")
            raise ZeroDivisionError

    with transactional(served, topic, version) as producer:
        for n in range(2):
            with pytest.raises(ZeroDivisionError):
                go_wrong(producer)
            with producer.transaction() as tx:
                tx.send(topic, b"%d" % n)
    assert visible(served, topic, 2) == [b"0", b"1"]


@VERSIONS
def test_offsets_are_committed_with_the_records(
    served: TestBroker, topic: str, version: int
) -> None:
    served.produce(f"{topic}-in", *b"abcde".decode())
    consumer, batch = consumed(topic, f"{topic}-in")
    with transactional(served, topic, version) as producer, producer.transaction(batch) as tx:
        tx.send(topic, b"out")
    assert committed(served, topic) == {f"{topic}-in-0": 5}
    assert consumer.rewound == []


@VERSIONS
def test_a_transaction_that_fails_rewinds_the_consumer(
    served: TestBroker, topic: str, version: int
) -> None:
    served.produce(f"{topic}-in", *b"abcde".decode())
    consumer, batch = consumed(topic, f"{topic}-in")

    def go_wrong(producer: Any) -> None:
        with producer.transaction(batch) as tx:
            tx.send(topic, b"out")
            raise ZeroDivisionError

    with transactional(served, topic, version) as producer:
        with pytest.raises(ZeroDivisionError):
            go_wrong(producer)
        assert consumer.rewound == [batch]
        with producer.transaction(batch) as tx:
            tx.send(topic, b"again")
    assert committed(served, topic) == {f"{topic}-in-0": 5}
    assert visible(served, topic, 1) == [b"again"]


@VERSIONS
def test_who_lost_its_group_aborts_rewinds_and_goes_on(
    served: TestBroker, topic: str, version: int
) -> None:
    consumer, batch = consumed(topic, f"{topic}-in")
    served.create_topic(f"{topic}-in")

    def attempt(producer: Any) -> None:
        with producer.transaction(batch) as tx:
            tx.send(topic, b"out")

    with transactional(served, topic, version) as producer:
        served.faults.fail("TxnOffsetCommit", ErrorCode.ILLEGAL_GENERATION)
        with pytest.raises(ottla.CommitFailedError):
            attempt(producer)
        assert (values(served, topic), consumer.rewound) == ([], [batch])
        attempt(producer)
    assert visible(served, topic, 1) == [b"out"]


@VERSIONS
@pytest.mark.parametrize("api", ["InitProducerId", "Produce", "EndTxn", "TxnOffsetCommit"])
def test_a_lost_reply_at_any_step_changes_nothing(
    served: TestBroker, topic: str, version: int, api: str
) -> None:
    served.create_topic(f"{topic}-in")
    _, batch = consumed(topic, f"{topic}-in")
    lost = served.faults.drop_reply(api)
    with transactional(served, topic, version) as producer:
        for n in range(2):
            with producer.transaction(batch) as tx:
                tx.send(topic, b"%d" % n)
    assert lost.hit_count == 1
    assert visible(served, topic, 2) == [b"0", b"1"]


@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "AddOffsetsToTxn"])
def test_what_only_version_1_asks_is_asked_again_too(
    served: TestBroker, topic: str, api: str
) -> None:
    served.create_topic(f"{topic}-in")
    _, batch = consumed(topic, f"{topic}-in")
    lost = served.faults.drop_reply(api)
    with transactional(served, topic, 1) as producer, producer.transaction(batch) as tx:
        tx.send(topic, b"once")
    assert lost.hit_count == 1
    assert visible(served, topic, 1) == [b"once"]


@VERSIONS
def test_a_record_that_fails_fails_the_transaction(
    served: TestBroker, topic: str, version: int
) -> None:
    def attempt(producer: Any) -> None:
        with producer.transaction() as tx:
            tx.send(topic, b"a").exception(SOON_S)
            served.faults.fail("Produce", ErrorCode.INVALID_RECORD)
            tx.send(topic, b"b").exception(SOON_S)

    with transactional(served, topic, version) as producer:
        with pytest.raises(ottla.OttlaError) as caught:
            attempt(producer)
        assert getattr(caught.value, "code", None) is ErrorCode.INVALID_RECORD
        with producer.transaction() as tx:
            tx.send(topic, b"c")
    assert visible(served, topic, 1) == [b"c"]


@VERSIONS
def test_a_newer_producer_of_the_same_name_fences_the_older(
    served: TestBroker, topic: str, version: int
) -> None:
    old = transactional(served, topic, version)

    def attempt() -> None:
        with old.transaction() as tx:
            tx.send(topic, b"old")
            with transactional(served, topic, version) as newer, newer.transaction() as newer_tx:
                newer_tx.send(topic, b"new")

    with pytest.raises(ottla.OttlaError):
        attempt()
    with pytest.raises(ottla.FencedError) as caught, old.transaction():
        pass
    assert caught.value.fatal
    old.close()
    assert visible(served, topic, 1) == [b"new"]


def test_outside_of_a_transaction_nothing_can_be_sent(served: TestBroker, topic: str) -> None:
    with transactional(served, topic) as producer:
        with pytest.raises(ottla.MisuseError, match=r"producer\.transaction"):
            producer.send(topic, b"a")
        with producer.transaction() as tx:
            tx.send(topic, b"a")
        with pytest.raises(ottla.MisuseError, match="between transactions"):
            producer.send(topic, b"b")


def test_transactions_need_a_name(served: TestBroker) -> None:
    with (
        ottla.Producer(served.bootstrap_servers) as producer,
        pytest.raises(ottla.ConfigError, match=r"transactional\.id"),
        producer.transaction(),
    ):
        pass


def test_closing_aborts_what_is_open(served: TestBroker, topic: str) -> None:
    with transactional(served, topic) as producer:
        tx = producer.transaction()
        tx.__enter__().send(topic, b"open").result(SOON_S)
        producer.close()
    with transactional(served, topic) as producer, producer.transaction() as tx:
        tx.send(topic, b"next")
    assert visible(served, topic, 1) == [b"next"]


@VERSIONS
def test_an_empty_transaction_is_no_work(served: TestBroker, topic: str, version: int) -> None:
    ended = served.faults.delay("EndTxn", 0)
    with transactional(served, topic, version) as producer:
        for _ in range(2):
            with producer.transaction():
                pass
    assert ended.hit_count == 0


@pytest.mark.parametrize("two_phase", [True, False], ids=["KIP-939", "by id and epoch"])
@pytest.mark.parametrize("commits", [True, False])
def test_another_producer_ends_what_was_prepared(
    served: TestBroker, topic: str, two_phase: bool, commits: bool
) -> None:
    if two_phase:
        skip_at_kafka(served, NO_TWO_PHASE)
    options: Any = {"transaction_two_phase_commit_enable": two_phase}
    first = transactional(served, topic, **options)
    with first.transaction() as tx:
        tx.send(topic, b"prepared")
        token = tx.prepare()
    assert values(served, topic) == []
    with transactional(served, topic, **options) as heir:
        assert heir.complete(token) if commits else heir.abort(token)
        with heir.transaction() as tx:
            tx.send(topic, b"next")
    first.close()
    expected = ([b"prepared"] if commits else []) + [b"next"]
    assert visible(served, topic, len(expected)) == expected


def test_who_prepared_it_may_end_it_too(served: TestBroker, topic: str) -> None:
    skip_at_kafka(served, NO_TWO_PHASE)
    with transactional(served, topic, transaction_two_phase_commit_enable=True) as producer:
        with producer.transaction() as tx:
            tx.send(topic, b"prepared")
            token = tx.prepare()
        with pytest.raises(ottla.MisuseError, match="prepared"):
            producer.send(topic, b"more")
        assert producer.complete(token)
        with producer.transaction() as tx:
            tx.send(topic, b"next")
    assert visible(served, topic, 2) == [b"prepared", b"next"]


def test_what_was_ended_before_is_not_ended_again(served: TestBroker, topic: str) -> None:
    skip_at_kafka(served, NO_TWO_PHASE)
    options: Any = {"transaction_two_phase_commit_enable": True}
    with transactional(served, topic, **options) as first, first.transaction() as tx:
        tx.send(topic, b"prepared")
        token = tx.prepare()
    for is_first in (True, False):
        with transactional(served, topic, **options) as heir:
            assert heir.complete(token) is is_first
    assert visible(served, topic, 1) == [b"prepared"]


def test_asyncio_has_the_same_transactions(served: TestBroker, topic: str) -> None:
    consumer, batch = consumed(topic, f"{topic}-in")
    served.create_topic(f"{topic}-in")

    async def go_wrong(producer: ottla.AsyncProducer) -> None:
        async with producer.transaction(batch) as tx:
            await tx.send(topic, b"never")
            raise ZeroDivisionError

    async def main() -> None:
        async with ottla.AsyncProducer(
            served.bootstrap_servers, transactional_id=topic
        ) as producer:
            with pytest.raises(ZeroDivisionError):
                await go_wrong(producer)
            async with producer.transaction(batch) as tx:
                await tx.send(topic, b"a")
                assert await tx.send_many(topic, [b"b"]) == 1
            async with producer.transaction() as tx:
                await tx.send(topic, b"c")
                token = await tx.prepare()
            assert await producer.complete(token)

    asyncio.run(main())
    assert visible(served, topic, 3) == [b"a", b"b", b"c"]
    assert consumer.rewound == [batch]
    assert committed(served, topic) == {f"{topic}-in-0": 5}


def test_a_batch_without_records_adds_nothing(served: TestBroker, topic: str) -> None:
    with transactional(served, topic) as producer, producer.transaction(Batch()) as tx:
        tx.send(topic, b"out")
    assert visible(served, topic, 1) == [b"out"]
