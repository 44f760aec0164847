"""Questions for the leaders of partitions, with brokers that say what a test wants."""

import asyncio
import gc
import warnings
from contextlib import suppress
from typing import Any

import pytest

from ottla.client.admin.calling import Caller
from ottla.client.admin.lag import lag
from ottla.client.admin.positions import LATEST, list_offsets, offsets_at
from ottla.client.admin.topics import describe_topics
from ottla.errors import (
    DeadlineError,
    DeniedError,
    ErrorCode,
    RefreshError,
    UnknownTopicError,
)
from ottla.model import TopicPartition
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.registry import ApiKey
from tests.client.admin_world import ask, broker_with, in_turn, offsets, two_brokers
from tests.client.scripted import HANG_UP, topic
from tests.client.test_admin_groups import committed, group_of

ORDERS = TopicPartition("orders", 0)


def test_a_leader_that_is_none_any_more_leads_to_the_next_one() -> None:
    one, two = two_brokers((topic("orders", 1),), (topic("orders", 2, epoch=1),))
    one.handlers[ApiKey.LIST_OFFSETS] = offsets(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    two.handlers[ApiKey.LIST_OFFSETS] = offsets(offset=7)

    assert ask(one, two, work=lambda caller: list_offsets(caller, [ORDERS])) == {ORDERS: 7}
    assert (one.count(ListOffsetsRequest), two.count(ListOffsetsRequest)) == (1, 1)


def test_offsets_wait_for_a_leader_and_descriptions_do_not() -> None:
    one, two = two_brokers((topic("orders", -1),), (topic("orders", 2, epoch=1),))
    two.handlers[ApiKey.LIST_OFFSETS] = offsets(offset=7)
    assert ask(one, two, work=lambda caller: list_offsets(caller, [ORDERS])) == {ORDERS: 7}

    alone = broker_with(ApiKey.LIST_OFFSETS, offsets())
    alone.topics = (topic("orders", -1, 1),)
    results = ask(alone, work=lambda caller: describe_topics(caller, ["orders", "gone"]))
    partitions = results["orders"].partitions
    assert [(p.leader, p.end_offset) for p in partitions] == [(None, None), (1, 5)]
    assert isinstance(results.errors["gone"], UnknownTopicError)


def test_offsets_of_a_partition_without_a_leader_end_with_the_deadline() -> None:
    broker = broker_with(ApiKey.LIST_OFFSETS, offsets())
    broker.topics = (topic("orders", -1),)

    with pytest.raises(DeadlineError) as caught:
        ask(
            broker,
            work=lambda caller: list_offsets(caller, [ORDERS]),
            default_api_timeout_ms=1000,
        )

    assert isinstance(caught.value.__cause__, RefreshError)


def test_a_leader_that_hangs_up_is_asked_again_and_the_other_is_not() -> None:
    one, two = two_brokers((topic("orders", 1, 2),))
    one.handlers[ApiKey.LIST_OFFSETS] = offsets(offset=5)
    plain, lost = offsets(offset=7), [HANG_UP]

    def flaky(request: Any, version: int) -> Any:
        return lost.pop() if lost else plain(request, version)

    two.handlers[ApiKey.LIST_OFFSETS] = flaky
    other = TopicPartition("orders", 1)

    found = ask(one, two, work=lambda caller: list_offsets(caller, [ORDERS, other]))

    assert found == {ORDERS: 5, other: 7}
    assert (one.count(ListOffsetsRequest), two.count(ListOffsetsRequest)) == (1, 2)


def test_offsets_that_may_not_be_seen_are_no_unknown_ones() -> None:
    denied = offsets(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    broker = broker_with(ApiKey.LIST_OFFSETS, denied)
    broker.handlers[ApiKey.DESCRIBE_GROUPS] = in_turn(group_of())
    broker.handlers[ApiKey.OFFSET_FETCH] = in_turn(committed("orders", 1))

    results = ask(broker, work=lambda caller: describe_topics(caller, ["orders"]))
    assert isinstance(results.errors["orders"], DeniedError)

    with pytest.raises(DeniedError):
        ask(broker, work=lambda caller: lag(caller, "g"))


def test_a_call_that_is_canceled_at_any_turn_of_the_loop_leaves_nothing_that_was_not_begun() -> (
    None
):
    broker = broker_with(ApiKey.LIST_OFFSETS, offsets())

    async def call_and_cancel(caller: Caller) -> list[str]:
        told = await caller.topics({"orders"})
        gc.collect()  # what others left is none of ours
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for turns in list(range(10)) * 20:  # the loop draws who comes next
                call = asyncio.ensure_future(offsets_at(caller, [ORDERS], LATEST, told=told))
                for _ in range(turns):
                    await asyncio.sleep(0)
                call.cancel()
                with suppress(asyncio.CancelledError):
                    await call
            gc.collect()
        told_of = [str(warning.message) for warning in seen]
        return [text for text in told_of if "never awaited" in text]

    assert ask(broker, work=call_and_cancel) == []
