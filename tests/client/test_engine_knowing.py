"""How an engine finds a cluster, keeps knowing it, and lets go of it, on virtual time."""

import asyncio
from typing import Any

import pytest

from ottla.errors import (
    ClosedError,
    ConnectError,
    DeadlineError,
    DeniedError,
    ErrorCode,
    TransportError,
    UnknownTopicError,
)
from ottla.ports import Ports
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.registry import ApiKey
from tests.client.scripted import SILENCE, ScriptedBroker, Worlds, engine, topic

NOBODY = "nobody:9092"


def test_one_dead_address_of_several_does_not_matter() -> None:
    async def client(ports: Ports) -> int:
        asker = engine(ports, "dead:9092", "broker:9092", NOBODY)
        await asker.start()
        cluster = await asker.connect(5000)
        await asker.close()
        return len(cluster.nodes)

    for seed in range(10):
        with Worlds(seed) as world:
            world.serve(ScriptedBroker())
            assert world.play(client) == 1


def test_where_nobody_listens_the_error_names_every_address_and_reason() -> None:
    async def client(ports: Ports) -> str:
        asker = engine(ports, "one:9092", "two:9093")
        await asker.start()
        with pytest.raises(ConnectError) as caught:
            await asker.connect(2000)
        await asker.close()
        return str(caught.value)

    with Worlds() as world:
        message = world.play(client)
    assert "one:9092: Connection refused" in message
    assert "two:9093: Connection refused" in message
    assert "for 2 s" in message


def test_who_tries_once_is_told_at_once() -> None:
    async def client(ports: Ports) -> tuple[str, float]:
        asker = engine(ports, "one:9092", "two:9093")
        await asker.start()
        with pytest.raises(ConnectError) as caught:
            await asker.connect(60_000, once=True)
        await asker.close()
        return str(caught.value), asyncio.get_running_loop().time()

    with Worlds() as world:
        message, passed_s = world.play(client)
    assert sorted(message.split("; ")) == [
        "one:9092: Connection refused",
        "two:9093: Connection refused",
    ]
    assert passed_s < 1


@pytest.mark.parametrize(
    ("is_cut", "error", "words"),
    [
        (True, ConnectError, "broker:9092: no connection within 2 s"),
        (False, DeadlineError, "not done within 2 s; no broker answered"),
    ],
    ids=["nobody is reached", "somebody is there"],
)
def test_time_that_is_over_before_anything_went_wrong_says_how_far_we_came(
    is_cut: bool, error: type[Exception], words: str
) -> None:
    silent = ScriptedBroker()
    silent.handlers[ApiKey.API_VERSIONS] = lambda request, version: SILENCE

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        with pytest.raises(error, match=words):
            await asker.connect(2000)
        await asker.close()

    with Worlds() as world:
        world.serve(silent)
        if is_cut:
            world.sim.network.cut(["client"], ["broker"])
        world.play(client)


def test_a_broker_that_comes_late_is_waited_for() -> None:
    broker = ScriptedBroker()

    async def client(ports: Ports) -> int:
        asker = engine(ports)
        await asker.start()
        cluster = await asker.connect(60_000)
        await asker.close()
        return asker.now_ms() if cluster.is_known else -1

    async def late(ports: Ports) -> None:
        await asyncio.sleep(7)
        await broker.serve(ports.network)
        await asyncio.sleep(60)

    with Worlds() as world:
        world.sim.spawn(broker.host, late)
        assert 7_000 < world.play(client) < 9_500


def test_an_address_that_swallows_everything_is_given_up_in_time() -> None:
    broker = ScriptedBroker(host="hole")
    broker.handlers[ApiKey.API_VERSIONS] = lambda request, version: SILENCE

    async def client(ports: Ports) -> None:
        asker = engine(ports, "hole:9092", "broker:9092", request_timeout_ms=1000)
        await asker.start()
        await asker.connect(5000)
        await asker.close()

    with Worlds(seed=4) as world:
        world.serve(broker, ScriptedBroker())
        world.play(client)


def test_a_port_that_speaks_something_else_is_no_broker() -> None:
    class Chatty(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async def web(ports: Ports) -> None:
        await ports.network.listen("broker", 9092, Chatty)
        await asyncio.sleep(60)

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        with pytest.raises(ConnectError, match="is it a Kafka port"):
            await asker.connect(1000)
        await asker.close()

    with Worlds() as world:
        world.sim.spawn("broker", web)
        world.play(client)


def test_a_topic_is_waited_for_until_it_exists() -> None:
    broker = ScriptedBroker()
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.topics = (topic("orders", error=missing),)

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        with pytest.raises(UnknownTopicError, match=r"topic 'orders' \(for 3 s\)"):
            await asker.topic("orders", 3000)
        waiting = asyncio.ensure_future(asker.topic("orders", 60_000))
        await asyncio.sleep(1)
        broker.topics = (topic("orders", 1, 1, 1),)
        found = await waiting
        assert found.partition_count == 3
        assert found.available == (0, 1, 2)
        assert asker.cluster.names[found.topic_id] == "orders"
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)


def test_a_topic_that_we_may_not_see_is_not_waited_for() -> None:
    broker = ScriptedBroker()
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    broker.topics = (topic("secret", error=denied),)

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        with pytest.raises(DeniedError, match="topic 'secret'"):
            await asker.topic("secret")
        assert asker.now_ms() < 1000
        broker.topics = (topic("secret", 1),)
        assert (await asker.topic("secret")).name == "secret"
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)


def test_a_topic_that_no_broker_tells_of_ends_with_the_reason() -> None:
    async def client(ports: Ports) -> None:
        asker = engine(ports, NOBODY)
        await asker.start()
        with pytest.raises(DeadlineError, match=r"metadata of topic 'orders'.*refused"):
            await asker.topic("orders", 1000)
        await asker.close()

    with Worlds() as world:
        world.play(client)


def test_metadata_that_got_old_is_asked_for_again() -> None:
    broker = ScriptedBroker()

    async def client(ports: Ports) -> None:
        asker = engine(ports, metadata_max_age_ms=10_000)
        await asker.start()
        await asker.connect(1000)
        await asyncio.sleep(35)
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    assert broker.count(MetadataRequest) == 4


def test_a_restarted_broker_is_found_again() -> None:
    broker = ScriptedBroker()
    broker.handlers[ApiKey.LIST_GROUPS] = lambda request, version: ListGroupsResponse(groups=())

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        for _ in range(20):
            await asker.call(ListGroupsRequest(), ListGroupsResponse, to=1)
            await asyncio.sleep(0.5)
        await asker.close()

    with Worlds() as world:
        world.serve(broker)

        async def restart() -> None:
            for _ in range(3):
                await asyncio.sleep(2)
                world.sim.kill(broker.host)
                await asyncio.sleep(1)
                world.sim.spawn(broker.host, serve)

        async def serve(ports: Ports) -> None:
            await broker.serve(ports.network)
            await asyncio.get_running_loop().create_future()

        world.sim.loop.create_task(restart())
        world.play(client)
    assert broker.count(ListGroupsRequest) >= 20
    assert broker.connection_count == 4


def test_brokers_that_all_moved_are_found_through_the_first_addresses() -> None:
    old, new = ScriptedBroker(1, "old"), ScriptedBroker(2, "new")
    door = ScriptedBroker(1, "door")
    door.handlers[ApiKey.METADATA] = lambda request, version: cluster_of(old)
    new.handlers[ApiKey.METADATA] = lambda request, version: cluster_of(new)
    old.handlers[ApiKey.METADATA] = lambda request, version: cluster_of(old)

    def cluster_of(broker: ScriptedBroker) -> MetadataResponse:
        return ScriptedBroker(broker.node_id, broker.host)._metadata(MetadataRequest(topics=()), 13)

    async def client(ports: Ports) -> None:
        asker = engine(ports, "door:9092")
        await asker.start()
        assert list((await asker.connect(1000)).nodes) == [1]
        old.stop()
        door.handlers[ApiKey.METADATA] = new.handlers[ApiKey.METADATA]
        assert list((await asker.refresh(20_000)).nodes) == [2]
        await asker.close()

    with Worlds() as world:
        world.serve(old, new, door)
        world.play(client)


def denial(request: Any, version: int) -> MetadataResponse:
    return MetadataResponse(brokers=(), topics=(), error_code=ErrorCode.REBOOTSTRAP_REQUIRED)


def denied_greeting(request: Any, version: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED, api_keys=())


@pytest.mark.parametrize(
    ("key", "answer"), [(ApiKey.METADATA, denial), (ApiKey.API_VERSIONS, denied_greeting)]
)
def test_a_broker_that_sends_us_back_to_the_beginning_is_left(key: ApiKey, answer: Any) -> None:
    old, new, door = (ScriptedBroker(1, "old"), ScriptedBroker(2, "new"), ScriptedBroker(9, "door"))
    door.handlers[ApiKey.METADATA] = old.handlers[ApiKey.METADATA]

    async def client(ports: Ports) -> None:
        asker = engine(ports, "door:9092")
        await asker.start()
        assert list((await asker.connect(1000)).nodes) == [1]
        old.handlers[key] = answer
        door.handlers[ApiKey.METADATA] = new.handlers[ApiKey.METADATA]
        assert list((await asker.refresh(5000)).nodes) == [2]
        await asker.close()

    with Worlds() as world:
        world.serve(old, new, door)
        world.play(client)


def test_connections_that_nobody_uses_are_closed_and_made_again() -> None:
    broker = ScriptedBroker()
    broker.handlers[ApiKey.LIST_GROUPS] = lambda request, version: ListGroupsResponse(groups=())

    async def client(ports: Ports) -> None:
        asker = engine(ports, connections_max_idle_ms=3000)
        await asker.start()
        await asker.connect(1000)
        for _ in range(4):
            await asker.ask(ListGroupsRequest(), ListGroupsResponse, to=1)
            await asyncio.sleep(2)
        assert broker.connection_count == 1
        await asyncio.sleep(5)
        await asker.ask(ListGroupsRequest(), ListGroupsResponse, to=1)
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    assert broker.connection_count == 2


def test_closing_waits_for_answers_and_refuses_what_is_new() -> None:
    broker = ScriptedBroker()
    broker.handlers[ApiKey.LIST_GROUPS] = lambda request, version: ListGroupsResponse(groups=())

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        await asker.connect(1000)
        posted = asker.post(ListGroupsRequest(), ListGroupsResponse, to=1)
        await asker.close(timeout_ms=1000)
        assert (await posted).error_code == 0
        with pytest.raises(ClosedError, match="the client is closed"):
            await asker.ask(ListGroupsRequest(), ListGroupsResponse)
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)


def test_who_waits_for_a_topic_hears_that_the_client_was_closed() -> None:
    broker = ScriptedBroker()

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        waiting = asyncio.ensure_future(asker.topic("orders"))
        await asyncio.sleep(1)
        await asker.close()
        with pytest.raises(ClosedError):
            await waiting

    with Worlds() as world:
        world.serve(broker)
        world.play(client)


def test_a_task_that_crashes_closes_the_client(caplog: pytest.LogCaptureFixture) -> None:
    async def crash() -> None:
        raise ZeroDivisionError("a bug")

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        asker.spawn("sender", crash())
        await asyncio.sleep(0.01)
        with pytest.raises(ClosedError, match=r"its task 'sender' crashed: ZeroDivisionError"):
            await asker.connect(1000)
        await asker.close()

    with Worlds() as world:
        world.serve(ScriptedBroker())
        world.play(client)
    assert "task crashed: sender" in caplog.text


def test_a_cut_network_is_survived() -> None:
    broker = ScriptedBroker()
    broker.handlers[ApiKey.LIST_GROUPS] = lambda request, version: ListGroupsResponse(groups=())

    async def client(ports: Ports) -> None:
        asker = engine(ports, request_timeout_ms=1500)
        await asker.start()
        await asker.connect(1000)
        network.cut(["client"], ["broker"])
        with pytest.raises(TransportError, match="no answer to ListGroups within 1500 ms"):
            await asker.ask(ListGroupsRequest(), ListGroupsResponse, to=1)
        with pytest.raises(ConnectError, match="timed out"):
            await asker.ask(ListGroupsRequest(), ListGroupsResponse, to=1)
        network.heal()
        await asker.call(ListGroupsRequest(), ListGroupsResponse, to=1)
        await asker.close()

    with Worlds() as world:
        network = world.sim.network
        world.serve(broker)
        world.play(client)


def test_waiting_costs_no_requests() -> None:
    broker = ScriptedBroker()

    async def client(ports: Ports) -> None:
        asker = engine(ports)
        await asker.start()
        await asker.connect(1000)
        await asyncio.sleep(200)
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    assert (broker.count(ApiVersionsRequest), broker.count(MetadataRequest)) == (1, 1)
