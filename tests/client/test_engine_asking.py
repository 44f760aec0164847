"""What an engine makes of brokers that are slow, gone, old or confused, on virtual time."""

import asyncio
from typing import Any

import pytest

from ottla.client.targets import ANY, CONTROLLER, LeaderOf, group
from ottla.errors import (
    ClosedError,
    ConnectError,
    DeadlineError,
    ErrorCode,
    RefreshError,
    TransportError,
    UnsupportedError,
)
from ottla.model import TopicPartition
from ottla.ports import Ports
from ottla.testing.loop import Order
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.registry import ApiKey
from tests.client.scripted import (
    HANG_UP,
    SILENCE,
    ScriptedBroker,
    Worlds,
    api_versions,
    engine,
    topic,
)

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def no_groups(request: Any, version: int) -> ListGroupsResponse:
    return ListGroupsResponse(groups=())


def broker_with_groups() -> ScriptedBroker:
    broker = ScriptedBroker()
    broker.handlers[ApiKey.LIST_GROUPS] = no_groups
    return broker


def test_a_request_goes_out_in_the_newest_version_that_both_sides_speak() -> None:
    broker = broker_with_groups()
    broker.handlers[ApiKey.API_VERSIONS] = api_versions(highest={ApiKey.LIST_GROUPS: 3})

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        await asker.ask(ListGroupsRequest(), ListGroupsResponse)
        await asker.ask(ListGroupsRequest(), ListGroupsResponse, max_version=1)
        with pytest.raises(UnsupportedError, match=r"speaks v0-3 of ListGroups, not v4-5"):
            await asker.ask(ListGroupsRequest(), ListGroupsResponse, min_version=4)
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    asked = [h.version for h in broker.heard if isinstance(h.body, ListGroupsRequest)]
    assert asked == [3, 1]


def test_a_broker_that_is_too_old_for_our_first_question_is_asked_an_older_one() -> None:
    broker = broker_with_groups()
    broker.handlers[ApiKey.API_VERSIONS] = api_versions(highest={ApiKey.API_VERSIONS: 2})

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        await asker.ask(ListGroupsRequest(), ListGroupsResponse)
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    versions = [h.version for h in broker.heard if isinstance(h.body, ApiVersionsRequest)]
    assert versions == [5, 2]


def test_finalized_features_are_known_once_a_broker_was_reached() -> None:
    broker = ScriptedBroker()
    broker.handlers[ApiKey.API_VERSIONS] = api_versions(features={"transaction.version": 2})

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        assert asker.features == {}
        await asker.start()
        await asker.connect(1000)
        assert asker.features == {"transaction.version": 2}
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)


def test_an_answer_that_does_not_come_closes_the_connection() -> None:
    broker = broker_with_groups()
    broker.handlers[ApiKey.LIST_GROUPS] = lambda request, version: SILENCE

    async def client(ports: Ports) -> None:
        asker = engine(ports, request_timeout_ms=700)
        await asker.start()
        await asker.connect(1000)
        began_ms = asker.now_ms()
        with pytest.raises(TransportError, match="no answer to ListGroups within 700 ms"):
            await asker.ask(ListGroupsRequest(), ListGroupsResponse)
        assert asker.now_ms() - began_ms >= 700
        broker.handlers[ApiKey.LIST_GROUPS] = no_groups
        await asker.call(ListGroupsRequest(), ListGroupsResponse)
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    assert broker.connection_count == 2


def test_a_connection_that_is_lost_in_the_middle_fails_all_that_wait_on_it() -> None:
    broker = broker_with_groups()
    broker.handlers[ApiKey.LIST_GROUPS] = lambda request, version: SILENCE

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        await asker.connect(1000)
        asked = [
            asyncio.ensure_future(asker.ask(ListGroupsRequest(), ListGroupsResponse))
            for _ in range(3)
        ]
        await asyncio.sleep(0.1)
        broker.hang_up()
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(result) for result in results] == [TransportError] * 3
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)


def test_a_call_is_repeated_until_it_works() -> None:
    broker = broker_with_groups()
    script: list[Any] = [
        HANG_UP,
        ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=()),
        ListGroupsResponse(groups=()),
    ]
    broker.handlers[ApiKey.LIST_GROUPS] = lambda request, version: script.pop(0)

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        answer = await asker.call(ListGroupsRequest(), ListGroupsResponse, to=CONTROLLER)
        assert answer.error_code == 0
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    assert broker.count(ListGroupsRequest) == 3


def test_an_answer_that_repetition_would_not_change_is_returned() -> None:
    broker = broker_with_groups()
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    broker.handlers[ApiKey.LIST_GROUPS] = lambda request, version: ListGroupsResponse(
        error_code=denied, groups=()
    )

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        answer = await asker.call(ListGroupsRequest(), ListGroupsResponse)
        assert answer.error_code == denied
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    assert broker.count(ListGroupsRequest) == 1


def test_a_trouble_that_repetition_would_not_change_is_raised_at_once() -> None:
    broker = broker_with_groups()

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        with pytest.raises(UnsupportedError):
            await asker.call(ListGroupsRequest(), ListGroupsResponse, min_version=99)
        assert asker.now_ms() < 1000
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)


def test_an_attempt_is_repeated_as_often_as_allowed() -> None:
    attempts: list[int] = []

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()

        async def attempt() -> None:
            attempts.append(asker.now_ms())
            raise TransportError("gone")

        with pytest.raises(TransportError, match="gone"):
            await asker.repeat(attempt, what="trying", max_retries=2)
        await asker.close()

    with Worlds() as world:
        world.serve(ScriptedBroker())
        world.play(client)
    assert len(attempts) == 3


def test_a_call_that_never_works_ends_with_its_deadline_and_the_last_trouble() -> None:
    broker = broker_with_groups()
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.handlers[ApiKey.LIST_GROUPS] = lambda request, version: ListGroupsResponse(
        error_code=loading, groups=()
    )

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        with pytest.raises(DeadlineError, match="within 5 s; COORDINATOR_LOAD") as caught:
            await asker.call(ListGroupsRequest(), ListGroupsResponse, timeout_ms=5000)
        assert getattr(caught.value.__cause__, "code", None) is loading
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    # 100 ms, 200, 400, 800, then a second each: pauses grow, and end growing.
    assert 7 <= broker.count(ListGroupsRequest) <= 12


def test_no_more_requests_are_in_flight_than_allowed_and_who_comes_first_goes_first() -> None:
    broker = broker_with_groups()
    most_waiting = 0

    async def client(ports: Ports) -> None:
        nonlocal most_waiting
        asker = engine(ports, max_in_flight_requests_per_connection=2)
        await asker.start()
        await asker.connect(1000)
        tasks = [
            asyncio.ensure_future(
                asker.ask(ListGroupsRequest(states_filter=(str(number),)), ListGroupsResponse)
            )
            for number in range(6)
        ]
        while not all(task.done() for task in tasks):
            most_waiting = max(most_waiting, len(asker._answers))
            await asyncio.sleep(0.0001)
        await asker.close()

    with Worlds(order=Order.FIFO) as world:
        world.serve(broker)
        world.play(client)
    asked = [h.body.states_filter for h in broker.heard if isinstance(h.body, ListGroupsRequest)]
    assert asked == [(str(number),) for number in range(6)]
    assert most_waiting == 2


def test_a_throttled_connection_is_left_alone_for_so_long() -> None:
    broker = broker_with_groups()
    broker.handlers[ApiKey.LIST_GROUPS] = lambda request, version: ListGroupsResponse(
        throttle_time_ms=900, groups=()
    )

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        await asker.connect(1000)
        assert asker.is_ready(1)
        for to in (1, ANY):
            await asker.ask(ListGroupsRequest(), ListGroupsResponse, to=to)
            assert not asker.is_ready(1)
            assert asker.delay_ms(1) == 900
            began_ms = asker.now_ms()
            await asker.ask(ListGroupsRequest(), ListGroupsResponse, to=to)
            assert asker.now_ms() - began_ms >= 900
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)


def test_what_is_posted_is_sent_at_once_and_in_order() -> None:
    broker = broker_with_groups()

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        heard = asyncio.Event()
        asker.subscribe(heard.set)
        await asker.connect(1000)
        while not asker.is_ready(1):
            heard.clear()
            await heard.wait()
        posted = [
            asker.post(ListGroupsRequest(states_filter=(str(n),)), ListGroupsResponse, to=1)
            for n in range(5)
        ]
        await asyncio.gather(*posted)
        broker.hang_up()
        with pytest.raises(TransportError):
            await asker.ask(ListGroupsRequest(), ListGroupsResponse, to=1)
        with pytest.raises(TransportError, match="broker 1 is not ready"):
            asker.post(ListGroupsRequest(), ListGroupsResponse, to=1)
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    filters = [h.body.states_filter for h in broker.heard if isinstance(h.body, ListGroupsRequest)]
    assert filters[:5] == [(str(n),) for n in range(5)]


def test_heartbeats_do_not_wait_behind_a_long_poll() -> None:
    broker = broker_with_groups()
    found = Coordinator(key="g", node_id=1, host=broker.host, port=broker.port)
    broker.handlers[ApiKey.FIND_COORDINATOR] = lambda request, version: FindCoordinatorResponse(
        coordinators=(found,)
    )
    broker.handlers[ApiKey.LIST_GROUPS] = lambda request, version: SILENCE
    broker.handlers[ApiKey.HEARTBEAT] = lambda request, version: HeartbeatResponse()

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        await asker.connect(1000)
        poll = asyncio.ensure_future(asker.ask(ListGroupsRequest(), ListGroupsResponse, to=1))
        await asker.ask(HEARTBEAT, HeartbeatResponse, to=group("g"))
        assert not poll.done()
        await asker.close()
        with pytest.raises(ClosedError):
            await poll

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    heartbeat = next(h for h in broker.heard if isinstance(h.body, HeartbeatRequest))
    polled = next(h for h in broker.heard if isinstance(h.body, ListGroupsRequest))
    assert heartbeat.connection != polled.connection


def test_a_coordinator_that_denies_it_is_looked_for_again() -> None:
    here, there = ScriptedBroker(1, "here"), ScriptedBroker(2, "there")
    nodes = [here, there]
    for broker in nodes:
        broker.handlers[ApiKey.FIND_COORDINATOR] = lambda request, version: FindCoordinatorResponse(
            coordinators=(
                Coordinator(
                    key=request.coordinator_keys[0],
                    node_id=nodes[0].node_id,
                    host=nodes[0].host,
                    port=nodes[0].port,
                ),
            )
        )

    def move_away(request: Any, version: int) -> HeartbeatResponse:
        nodes.reverse()
        return HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)

    here.handlers[ApiKey.HEARTBEAT] = move_away
    there.handlers[ApiKey.HEARTBEAT] = lambda request, version: HeartbeatResponse()

    async def client(ports: Ports) -> None:
        asker = engine(ports, "here:9092")
        await asker.start()
        for _ in range(3):
            answer = await asker.call(HEARTBEAT, HeartbeatResponse, to=group("g"))
            assert answer.error_code == 0
        await asker.close()

    with Worlds() as world:
        world.serve(here, there)
        world.play(client)
    assert here.count(FindCoordinatorRequest) + there.count(FindCoordinatorRequest) == 2
    assert (here.count(HeartbeatRequest), there.count(HeartbeatRequest)) == (1, 3)


def test_a_lost_node_coordinates_nothing_any_more() -> None:
    broker = broker_with_groups()
    found = Coordinator(key="g", node_id=1, host=broker.host, port=broker.port)
    broker.handlers[ApiKey.FIND_COORDINATOR] = lambda request, version: FindCoordinatorResponse(
        coordinators=(found,)
    )

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        node = await asker.coordinator(group("g"))
        assert asker.coordinators.node(group("g")) == node
        broker.hang_up()
        await asyncio.sleep(0.1)
        assert asker.coordinators.node(group("g")) is None
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)


def test_a_partition_without_a_leader_is_asked_about_again() -> None:
    broker = broker_with_groups()
    broker.topics = (topic("orders", 1, -1),)

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        await asker.topic("orders", 1000)
        to = LeaderOf(TopicPartition("orders", 1))
        with pytest.raises(RefreshError, match="orders-1 has no leader"):
            await asker.ask(ListGroupsRequest(), ListGroupsResponse, to=to)
        broker.topics = (topic("orders", 1, 1, epoch=1),)
        await asker.call(ListGroupsRequest(), ListGroupsResponse, to=to)
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)


def test_a_node_that_nobody_knows_cannot_be_asked() -> None:
    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        await asker.connect(1000)
        with pytest.raises(ConnectError, match="broker 7 is not in the cluster's metadata"):
            await asker.ask(ListGroupsRequest(), ListGroupsResponse, to=7)
        assert not asker.is_ready(7)
        await asker.close()

    with Worlds() as world:
        world.serve(ScriptedBroker())
        world.play(client)


def test_the_broker_is_told_which_cluster_and_node_is_meant() -> None:
    broker = broker_with_groups()

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        await asker.connect(1000)
        broker.hang_up()
        await asker.call(ListGroupsRequest(), ListGroupsResponse, to=1)
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    introductions = [h.body for h in broker.heard if isinstance(h.body, ApiVersionsRequest)]
    assert [(i.cluster_id, i.node_id) for i in introductions] == [(None, -1), ("the-cluster", 1)]


def test_the_connection_to_bootstrap_from_is_used_on() -> None:
    broker = broker_with_groups()

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        await asker.connect(1000)
        await asker.ask(ListGroupsRequest(), ListGroupsResponse, to=1)
        await asker.ask(ListGroupsRequest(), ListGroupsResponse, to=ANY)
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    assert broker.connection_count == 1
    assert broker.count(MetadataRequest) == 1
