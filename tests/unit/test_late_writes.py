"""Writes that had to wait, and what has become of their coordinator or broker meanwhile."""

from ottla.coordinator.txn.transaction import Producer
from ottla.errors import ErrorCode, StorageError
from ottla.model import TopicPartition
from ottla.records.builder import build
from tests.broker_fixture import NOW_MS, LittleBroker
from tests.broker_office import Office, play
from tests.unit.test_handlers_transactions import NAME, TOPIC, add, end, producer_of

PLACE = TopicPartition(TOPIC, 0)
ADD_VERSION = 3
END_VERSION = 3


async def opened(office: Office) -> tuple[Producer, object]:
    """A transaction of version 1 that has its partition: who writes, and what it was granted."""
    granted = await producer_of(office)
    await office.ask(add(granted), ADD_VERSION)
    return Producer(granted.producer_id, granted.producer_epoch), granted


def test_a_write_is_let_in_while_its_transaction_is_open() -> None:
    async def scenario(office: Office) -> None:
        producer, granted = await opened(office)
        assert office.transactions.refusal_now(NAME, producer, PLACE) is ErrorCode.NONE

        await office.ask(end(granted), END_VERSION)

        refusal = office.transactions.refusal_now(NAME, producer, PLACE)
        assert refusal is ErrorCode.INVALID_TXN_STATE

    play(scenario)


def test_nobody_can_tell_whether_a_write_belongs_to_a_transaction_of_a_broken_coordinator() -> None:
    """It is to be sent again: another error would end a producer that did nothing wrong."""

    async def scenario(office: Office) -> None:
        producer, _ = await opened(office)
        shard = await office.transactions.find(NAME)
        assert not isinstance(shard, ErrorCode)

        shard.give_up(StorageError("its disk was full"))

        refusal = office.transactions.refusal_now(NAME, producer, PLACE)
        assert refusal is ErrorCode.NOT_COORDINATOR

    play(scenario)


def test_nothing_is_appended_once_the_logs_are_closed() -> None:
    """The next start trusts what a clean end left behind, and does not look for more."""
    broker = LittleBroker()
    broker.create(TOPIC)
    partition = broker.partition(TOPIC)
    broker.storage.close()

    appended = partition.append(build([(NOW_MS, b"k", b"v", ())]), now_ms=NOW_MS)

    assert appended.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.next_offset == 0


def test_a_coordinator_that_was_closed_decides_nothing_more() -> None:
    async def scenario(office: Office) -> None:
        await opened(office)

        office.transactions.close()

        assert await office.transactions.find(NAME) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    play(scenario)
