"""A broker whose handlers may wait: coordinators run, on a loop, without a socket."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from ottla.broker.context import Context
from ottla.broker.session import Session
from ottla.errors import ErrorCode
from ottla.wire.header import decode_request, decode_response, encode_request, encode_response
from tests.broker_fixture import LittleBroker

PEER = cast(Session, SimpleNamespace(peer=("10.0.0.1", 50_000), hold_frame=lambda: None))


class Office:
    """A broker whose handlers may wait."""

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        self.broker = LittleBroker(
            {
                "offsets.topic.num.partitions": 3,
                "transaction.state.log.num.partitions": 3,
                "transaction.two.phase.commit.enable": True,
                **(settings or {}),
            }
        )
        self.groups = self.broker.node.groups
        self.transactions = self.broker.node.transactions

    async def ask(self, request: Any, version: int) -> Any:
        """Send `request` at `version`; the response as the client would decode it."""
        sent = encode_request(request, version, correlation_id=1, client_id="ada")
        received = decode_request(bytearray(b"".join(sent)))
        route = self.broker.node.routes[received.api.key]
        context = Context(self.broker.node, PEER, version, received.header.client_id)
        answer = route.handler(received.body, context)
        if inspect.isawaitable(answer):
            answer = await answer
        frame = b"".join(encode_response(answer, version, correlation_id=1))
        return decode_response(route.api, version, frame)[1]

    async def transactions_settle(self, transactional_id: str) -> None:
        """Wait until the markers of the last transaction are written."""
        shard = await self.transactions.find(transactional_id)
        assert not isinstance(shard, ErrorCode)
        await shard.settled(transactional_id)

    async def stop_loading(self) -> None:
        """Leave all shards as they are while they load."""
        await self.groups.ensure_topic()
        for shard in self.shards():
            shard.is_loaded = False

    def shards(self) -> list[Any]:
        return list(self.groups._shards.values())


def play(
    scenario: Callable[[Office], Awaitable[None]], settings: Mapping[str, object] | None = None
) -> None:
    async def run() -> None:
        office = Office(settings)
        try:
            await scenario(office)
        finally:
            office.groups.close()
            office.transactions.close()

    asyncio.run(run())
