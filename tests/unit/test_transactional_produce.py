"""Writes of a transaction that wait for their coordinator while topics come and go.

A record that its transaction does not know of would be open for ever: no marker ends it, and
whoever reads committed waits for it.
"""

import asyncio
from typing import Any

from ottla.errors import ErrorCode
from ottla.wire.messages.produce import ProduceRequest, TopicProduceData
from ottla.wire.schema import replace
from tests.broker_office import Office, play
from tests.cluster_samples import done
from tests.unit.test_handlers_transactions import (
    NAME,
    TOPIC,
    VERSION_2_PRODUCE,
    end,
    errors_of_produce,
    producer_of,
    write,
)

LATE = "late"
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def write_to(topics: tuple[str, ...], producer: Any) -> ProduceRequest:
    request = write(producer)
    data = request.topic_data[0].partition_data
    return replace(
        request,
        topic_data=tuple(TopicProduceData(name=topic, partition_data=data) for topic in topics),
    )


async def begin(office: Office, request: ProduceRequest) -> "asyncio.Task[list[int]]":
    """Send a request, and come back when it waits for its turn."""
    task = asyncio.create_task(errors_of_produce(office, request, VERSION_2_PRODUCE))
    await asyncio.sleep(0)
    assert not office.transactions.turns.is_free(0)
    return task


def test_a_partition_that_appears_while_a_write_waits_is_not_written() -> None:
    async def scenario(office: Office) -> None:
        producer = await producer_of(office)
        before = asyncio.Event()
        first = office.transactions.turns.run(producer.producer_id, before.wait)
        waiting = await begin(office, write_to((TOPIC, LATE), producer))

        office.broker.create(LATE)
        before.set()

        assert await first
        assert await waiting == [ErrorCode.NONE, UNKNOWN]
        assert office.broker.partition(LATE).next_offset == 0
        again = write_to((LATE,), producer)
        assert await errors_of_produce(office, again, VERSION_2_PRODUCE) == [ErrorCode.NONE]
        await office.ask(end(producer), 5)
        await office.transactions_settle(NAME)
        late = office.broker.partition(LATE)
        assert late.last_stable_offset == late.next_offset == 2

    play(scenario)


def test_a_topic_that_is_replaced_while_a_write_waits_is_not_written() -> None:
    async def scenario(office: Office) -> None:
        producer = await producer_of(office)
        assert await errors_of_produce(office, write(producer), VERSION_2_PRODUCE) == [0]
        before = asyncio.Event()
        first = office.transactions.turns.run(producer.producer_id, before.wait)
        waiting = await begin(office, write(producer, sequence=1))

        done(office.broker.controller.delete_topics([TOPIC]))
        await office.ask(end(producer), 5)
        await office.transactions_settle(NAME)
        office.broker.create(TOPIC)
        before.set()

        assert await waiting == [UNKNOWN]
        assert office.broker.partition(TOPIC).last_stable_offset == 0
        assert office.broker.partition(TOPIC).next_offset == 0
        assert await first

    play(scenario)
