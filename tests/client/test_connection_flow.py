"""How requests get onto a connection, and who hears that there is room for more."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

from ottla.client.engine import Engine
from ottla.ports import Ports
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.registry import ApiKey
from tests.client.scripted import ScriptedBroker, Worlds, engine


def scripted() -> ScriptedBroker:
    broker = ScriptedBroker()
    broker.handlers[ApiKey.LIST_GROUPS] = lambda request, version: ListGroupsResponse(groups=())
    broker.handlers[ApiKey.PRODUCE] = lambda request, version: ProduceResponse(responses=())
    return broker


async def ready(asker: Engine) -> None:
    heard = asyncio.Event()
    asker.subscribe(heard.set)
    await asker.start()
    await asker.connect(1000)
    while not asker.is_ready(1):
        heard.clear()
        await heard.wait()


def produce(records: bytes) -> ProduceRequest:
    data = (
        PartitionProduceData(index=0, records=records),
        PartitionProduceData(index=1, records=b"small"),
    )
    topics = (TopicProduceData(name="t", partition_data=data),)
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics)


def test_a_large_request_arrives_whole_between_small_ones() -> None:
    broker = scripted()
    large = bytes(range(256)) * 1000

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await ready(asker)
        await asyncio.gather(
            asker.post(ListGroupsRequest(), ListGroupsResponse, to=1),
            asker.post(produce(large), ProduceResponse, to=1, max_version=9),
            asker.post(ListGroupsRequest(), ListGroupsResponse, to=1),
        )
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    (produced,) = (h.body for h in broker.heard if isinstance(h.body, ProduceRequest))
    arrived = [bytes(p.records or b"") for p in produced.topic_data[0].partition_data]
    assert arrived == [large, b"small"]


def test_listeners_hear_of_room_only_where_there_was_none() -> None:
    broker = scripted()
    heard: list[str] = []

    async def client(ports: Ports) -> None:
        asker = engine(ports, max_in_flight_requests_per_connection=2)
        await ready(asker)
        asker.subscribe(lambda: heard.append("room"))
        await asker.post(ListGroupsRequest(), ListGroupsResponse, to=1)
        assert heard == [], "there was room all the time"
        posted = [asker.post(ListGroupsRequest(), ListGroupsResponse, to=1) for _ in range(2)]
        assert not asker.is_ready(1)
        await asyncio.gather(*posted)
        assert heard == ["room"]
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)


def test_what_answers_leave_to_be_done_is_done_once_after_all_that_came_together() -> None:
    broker = scripted()
    events: list[str] = []

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await ready(asker)
        over = asyncio.Event()

        def rest() -> None:
            events.append("rest")
            if events.count("told") == 3:
                over.set()

        def told(answer: object) -> Callable[[], None]:
            events.append("told")
            return rest

        for _ in range(3):
            asker.hand(ListGroupsRequest(), ListGroupsResponse, told, to=1)
        await over.wait()
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    assert events.count("told") == 3
    assert events[-1] == "rest"
    for before, event in pairwise(events):
        assert (before, event) != ("rest", "rest"), "once for those that came together"


def test_who_hands_over_a_request_hears_whether_another_may_follow() -> None:
    broker = scripted()

    async def client(ports: Ports) -> None:
        asker = engine(ports, max_in_flight_requests_per_connection=2)
        await ready(asker)
        handed = [
            asker.hand(ListGroupsRequest(), ListGroupsResponse, lambda told: None, to=1)
            for _ in range(2)
        ]
        assert handed == [True, False]
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)


def test_room_that_an_answer_s_own_follower_takes_is_told_to_nobody() -> None:
    broker = scripted()
    heard: list[str] = []

    async def client(ports: Ports) -> None:
        asker = engine(ports, max_in_flight_requests_per_connection=1)
        await ready(asker)
        over = asyncio.Event()
        asker.subscribe(lambda: heard.append("room"))
        asker.subscribe(over.set)

        def follow() -> None:
            asker.hand(ListGroupsRequest(), ListGroupsResponse, lambda told: None, to=1)
            heard.append("followed")

        asker.hand(ListGroupsRequest(), ListGroupsResponse, lambda told: follow, to=1)
        await over.wait()
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    assert heard[:2] == ["followed", "room"], "the room behind the second one only"
