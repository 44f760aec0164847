"""Connections: how many are admitted, and what is remembered of those that are gone."""

import asyncio
from types import SimpleNamespace
from typing import cast

from ottla.broker.context import Node
from ottla.broker.listener import ConnectionLimits, Connections
from ottla.broker.meters import Meters
from ottla.broker.session import Session


def connections(**limits: int) -> tuple[Connections, Meters]:
    meters = Meters()
    given = {"max_connections": 10, "max_connections_per_ip": 10} | limits
    rest = {
        "max_idle_ms": 1000,
        "max_frame_bytes": 1000,
        "max_in_flight": 1,
        "max_queued_bytes": 1000,
        "max_partial_bytes": 1000,
    }
    node = cast(Node, SimpleNamespace(meters=meters))
    return Connections(node, ConnectionLimits(**given, **rest)), meters


class Peer:
    """As much of a session as its listener looks at."""

    def __init__(self, host: str) -> None:
        self.peer = (host, 50_000)


def peer(host: str) -> Session:
    return cast(Session, Peer(host))


def test_nothing_is_remembered_of_an_address_from_which_nobody_is_connected() -> None:
    async def run() -> None:
        all_of_them, meters = connections(max_connections_per_ip=2)
        first, second = peer("10.0.0.1"), peer("10.0.0.1")
        assert all_of_them._admit(first)
        assert all_of_them._admit(second)
        assert not all_of_them._admit(peer("10.0.0.1"))
        assert (len(all_of_them), meters.connection_count) == (2, 2)
        for session in (first, second, first):  # to be told twice does no harm
            all_of_them._forget(session)
        assert (len(all_of_them), meters.connection_count) == (0, 0)
        assert dict(all_of_them._per_ip) == {}
        assert all_of_them._admit(peer("10.0.0.1"))

    asyncio.run(run())


def test_who_was_refused_takes_nobodys_place_when_he_goes() -> None:
    async def run() -> None:
        all_of_them, _ = connections(max_connections=1)
        assert all_of_them._admit(peer("10.0.0.1"))
        refused = peer("10.0.0.2")
        assert not all_of_them._admit(refused)
        all_of_them._forget(refused)
        assert not all_of_them._admit(peer("10.0.0.3"))

    asyncio.run(run())


def test_nobody_is_admitted_any_more_when_all_were_sent_away() -> None:
    async def run() -> None:
        all_of_them, _ = connections()
        all_of_them.abort_all()
        assert not all_of_them._admit(peer("10.0.0.1"))

    asyncio.run(run())
