"""Transactions at a broker that says what a test wants: broken off, refused, interfered with."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.records import Batch
from ottla.errors import DeadlineError, DeniedError, ErrorCode, MisuseError, RequestError
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.registry import ApiKey
from tests.client.scripted import HANG_UP, SILENCE
from tests.client.txn_world import PRODUCER_ID, TOPIC, SimulatedProducer, Taker, consumed, play

SOON_S = 5


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def heard(broker: Taker, kind: type[Any]) -> None:
    """Wait until a broker has heard such a request; its answer is not there yet."""
    while not broker.count(kind):  # noqa: ASYNC110, the time is that of the simulation
        await asyncio.sleep(0.0001)


async def go_wrong(producer: SimulatedProducer, broker: Taker, kind: type[Any]) -> None:
    """Raise in a transaction, when the broker has heard of it."""
    async with producer.transaction() as tx:
        await tx.send(TOPIC, b"a")
        await heard(broker, kind)
        raise ZeroDivisionError


def test_who_breaks_off_a_commit_does_not_know_how_it_ended() -> None:
    broker = Taker(1)
    broker.handlers[ApiKey.END_TXN] = lambda request, version: SILENCE
    consumer, batch = consumed()

    async def story(producer: SimulatedProducer) -> None:
        async def commit() -> None:
            async with producer.transaction(batch) as tx:
                await tx.send(TOPIC, b"a")

        task = asyncio.ensure_future(commit())
        await heard(broker, EndTxnRequest)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Going back could do everything twice, and going on would lose it.
        assert consumer.rewound == []
        with pytest.raises(DeadlineError, match="nobody knows how the transaction ended") as found:
            async with producer.transaction():
                pass
        assert found.value.fatal

    play(story, broker, transactional_id="t")


def test_who_breaks_off_before_the_end_aborts_and_goes_back() -> None:
    broker = Taker(1)
    broker.handlers[ApiKey.PRODUCE] = lambda request, version: SILENCE
    consumer, batch = consumed()

    async def story(producer: SimulatedProducer) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), producer.transaction(batch) as tx:
                await tx.send(TOPIC, b"a")
        assert consumer.rewound == [batch]

    play(story, broker, transactional_id="t", request_timeout_ms=2_000)
    ended = [told.body.committed for told in broker.heard if isinstance(told.body, EndTxnRequest)]
    assert ended == [False]


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_that_is_spoiled_does_not_wait_for_what_is_not_sent(version: int) -> None:
    broker = Taker(1, 1)
    broker.refusals = {
        0: [ErrorCode.INVALID_RECORD],
        1: [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 1_000,
    }

    async def attempt(producer: SimulatedProducer) -> None:
        async with producer.transaction() as tx:
            await tx.send(TOPIC, b"a", partition=0)
            await tx.send(TOPIC, b"b", partition=1)

    async def story(producer: SimulatedProducer) -> None:
        producer._core.coordination.features = lambda: {"transaction.version": version}
        start_s = now_s()
        with pytest.raises(RequestError, match="INVALID_RECORD"):
            await attempt(producer)
        assert now_s() - start_s < SOON_S

    play(story, broker, transactional_id="t")


def test_an_abort_does_not_repeat_what_it_is_about_to_undo() -> None:
    broker = Taker(1)
    broker.refusals = {0: [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 1_000}

    async def story(producer: SimulatedProducer) -> None:
        start_s = now_s()
        with pytest.raises(ZeroDivisionError):
            await go_wrong(producer, broker, ProduceRequest)
        assert now_s() - start_s < SOON_S

    play(story, broker, transactional_id="t")


@pytest.mark.parametrize("step", [ProduceRequest, EndTxnRequest])
def test_nothing_is_sent_into_a_transaction_that_is_being_ended(step: type[Any]) -> None:
    broker = Taker(1)

    async def story(producer: SimulatedProducer) -> list[bool]:
        async def commit() -> None:
            async with producer.transaction() as tx:
                await tx.send(TOPIC, b"a")

        task = asyncio.ensure_future(commit())
        await heard(broker, step)
        with pytest.raises(MisuseError, match=r"being ended|ending a transaction"):
            await producer.enqueue(TOPIC, b"b")
        await task
        async with producer.transaction() as tx:
            await tx.send(TOPIC, b"c")
        return [b.body.committed for b in broker.heard if isinstance(b.body, EndTxnRequest)]

    assert play(story, broker, transactional_id="t") == [True, True]


def test_a_commit_that_the_coordinator_wants_aborted_is_aborted() -> None:
    broker = Taker(1)
    consumer, batch = consumed()
    plain = broker.end

    def refuse_commit(request: EndTxnRequest, version: int) -> Any:
        if request.committed and broker.count(EndTxnRequest) == 1:
            return EndTxnResponse(
                error_code=ErrorCode.TRANSACTION_ABORTABLE, producer_id=PRODUCER_ID
            )
        return plain(request, version)

    broker.handlers[ApiKey.END_TXN] = refuse_commit

    async def attempt(producer: SimulatedProducer) -> None:
        async with producer.transaction(batch) as tx:
            await tx.send(TOPIC, b"a")

    async def story(producer: SimulatedProducer) -> list[bool]:
        with pytest.raises(Exception, match="TRANSACTION_ABORTABLE"):
            await attempt(producer)
        assert consumer.rewound == [batch]
        await attempt(producer)
        return [b.body.committed for b in broker.heard if isinstance(b.body, EndTxnRequest)]

    assert play(story, broker, transactional_id="t") == [True, False, True]


def test_after_an_abort_no_partition_is_added_any_more() -> None:
    broker = Taker(1)
    broker.handlers[ApiKey.ADD_PARTITIONS_TO_TXN] = lambda request, version: HANG_UP

    async def story(producer: SimulatedProducer) -> int:
        producer._core.coordination.features = lambda: {"transaction.version": 1}
        with pytest.raises(ZeroDivisionError):
            await go_wrong(producer, broker, AddPartitionsToTxnRequest)
        asked_count = broker.count(AddPartitionsToTxnRequest)
        await asyncio.sleep(10)
        return broker.count(AddPartitionsToTxnRequest) - asked_count

    assert play(story, broker, transactional_id="t") == 0


def refused(request: AddPartitionsToTxnRequest, version: int) -> Any:
    told = AddPartitionsToTxnPartitionResult(
        partition_index=0, partition_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )
    topic = AddPartitionsToTxnTopicResult(name=TOPIC, results_by_partition=(told,))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=(topic,))


@pytest.mark.parametrize("first", [refused, lambda request, version: HANG_UP])
def test_in_version_1_a_producer_goes_on_after_a_transaction_that_nobody_has_heard_of(
    first: Callable[[AddPartitionsToTxnRequest, int], Any],
) -> None:
    """Its coordinator finds nothing to abort, and says so with an error that is fatal elsewhere."""
    broker = Taker(1)

    def end(request: EndTxnRequest, version: int) -> Any:
        if request.committed:
            return broker.end(request, version)
        return EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)

    def add(request: AddPartitionsToTxnRequest, version: int) -> Any:
        is_first = broker.count(AddPartitionsToTxnRequest) == 1
        return first(request, version) if is_first else broker.add(request, version)

    broker.handlers |= {ApiKey.ADD_PARTITIONS_TO_TXN: add, ApiKey.END_TXN: end}

    async def story(producer: SimulatedProducer) -> None:
        producer._core.coordination.features = lambda: {"transaction.version": 1}
        with pytest.raises((ZeroDivisionError, DeniedError)):
            await go_wrong(producer, broker, AddPartitionsToTxnRequest)
        await send_one(producer)

    play(story, broker, transactional_id="t")
    assert commits(broker) == [False, True]
    epochs = [t.body.producer_epoch for t in broker.heard if isinstance(t.body, EndTxnRequest)]
    assert epochs[0] < epochs[1], "what was told of the first one may yet come"


async def send_one(producer: SimulatedProducer, batch: Batch[Any, Any] | None = None) -> None:
    async with producer.transaction(batch) as tx:
        await tx.send(TOPIC, b"a")


def commits(broker: Taker) -> list[bool]:
    return [told.body.committed for told in broker.heard if isinstance(told.body, EndTxnRequest)]


def test_who_is_canceled_just_as_a_transaction_begins_leaves_none_behind() -> None:
    broker = Taker(1)
    consumer, batch = consumed()

    async def story(producer: SimulatedProducer) -> None:
        producer.host.interrupted = "begin_transaction"
        with pytest.raises(asyncio.CancelledError):
            await send_one(producer, batch)
        assert consumer.rewound == [batch]
        await send_one(producer)

    play(story, broker, transactional_id="t")
    assert commits(broker) == [True]


def test_who_is_canceled_just_as_a_commit_succeeds_does_not_go_back() -> None:
    broker = Taker(1)
    consumer, batch = consumed()

    async def story(producer: SimulatedProducer) -> None:
        producer.host.interrupted = "commit"
        with pytest.raises(asyncio.CancelledError):
            await send_one(producer, batch)
        assert consumer.rewound == []
        await send_one(producer)

    play(story, broker, transactional_id="t")
    assert commits(broker) == [True, True]


def test_of_two_transactions_at_a_time_the_second_is_refused() -> None:
    broker = Taker(1)

    async def story(producer: SimulatedProducer) -> list[BaseException | None]:
        both = [send_one(producer) for _ in range(2)]
        return await asyncio.gather(*both, return_exceptions=True)

    first, second = play(story, broker, transactional_id="t")
    assert first is None
    assert isinstance(second, MisuseError)
    assert commits(broker) == [True]


def test_a_transaction_that_cannot_begin_sends_its_consumer_back() -> None:
    broker = Taker(1)
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    broker.handlers[ApiKey.INIT_PRODUCER_ID] = lambda request, version: InitProducerIdResponse(
        error_code=denied, producer_epoch=-1
    )
    consumer, batch = consumed()

    async def story(producer: SimulatedProducer) -> None:
        with pytest.raises(DeniedError):
            await send_one(producer, batch)
        assert consumer.rewound == [batch]

    play(story, broker, transactional_id="t")


def test_what_was_prepared_for_nobody_is_aborted() -> None:
    broker = Taker(1)

    async def prepare(producer: SimulatedProducer) -> None:
        async with producer.transaction() as tx:
            await tx.send(TOPIC, b"a")
            await tx.prepare()

    async def story(producer: SimulatedProducer) -> None:
        producer.host.interrupted = "prepare"
        with pytest.raises(asyncio.CancelledError):
            await prepare(producer)
        await send_one(producer)

    play(story, broker, transactional_id="t")
    assert commits(broker) == [False, True]
