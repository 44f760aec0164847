"""A connection that ends in the very moment in which it is made."""

import asyncio
from typing import Any

import pytest

from ottla.ports import Ports
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.registry import ApiKey
from tests.client.scripted import ScriptedBroker, Worlds, api_versions, engine


@pytest.mark.parametrize("seed", range(12))
def test_a_broker_that_greets_and_hangs_up_is_tried_again(seed: int) -> None:
    broker = ScriptedBroker()
    greet = api_versions()

    def greet_once(request: ApiVersionsRequest, version: int) -> Any:
        if broker.count(ApiVersionsRequest) <= 2:
            asyncio.get_running_loop().call_soon(broker.hang_up)
        return greet(request, version)

    broker.handlers[ApiKey.API_VERSIONS] = greet_once

    async def client(ports: Ports) -> int:
        asker = engine(ports)
        await asker.start()
        cluster = await asker.connect(10_000)
        await asker.close()
        return len(cluster.nodes)

    with Worlds(seed) as world:
        world.serve(broker)
        assert world.play(client) == 1
