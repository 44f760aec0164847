"""A broker that is at another address now: the way to the old one is closed, and waited for."""

import asyncio

from ottla.client.cluster_view import Node
from ottla.errors import ClosedError
from ottla.ports import Ports
from tests.client.scripted import PORT, ScriptedBroker, Worlds, engine

SEND_TIMEOUT_S = 5.0


def test_what_a_broker_that_moved_has_not_read_is_waited_for_at_the_end() -> None:
    broker = ScriptedBroker()

    async def client(ports: Ports) -> float:
        loop = asyncio.get_running_loop()
        asker = engine(ports)
        await asker.start()
        await asker.connect(10_000)
        assert asker._router is not None
        links = asker._router.links
        before = links.known(1)
        assert before is not None
        assert before.connection is not None
        assert before.connection._transport is not None
        broker.stop_reading()
        before.connection._transport.write(bytes(4_000_000))  # records with acks=0, say

        assert links.to(Node(1, "elsewhere", PORT)) is not before
        start_s = loop.time()
        await links.close(ClosedError("over"), send_timeout_s=SEND_TIMEOUT_S)
        waited_s = loop.time() - start_s
        await asker.close()
        return waited_s

    with Worlds() as world:
        world.serve(broker)
        assert world.play(client) >= SEND_TIMEOUT_S


def test_a_broker_that_moves_again_and_again_leaves_nothing_behind() -> None:
    async def client(ports: Ports) -> int:
        asker = engine(ports)
        await asker.start()
        await asker.connect(10_000)
        assert asker._router is not None
        links = asker._router.links
        for number in range(20):
            links.to(Node(1, f"elsewhere-{number}", PORT))
        kept = len(links._moved)
        await asker.close()
        return kept

    with Worlds() as world:
        world.serve(ScriptedBroker())
        assert world.play(client) <= 2
