"""The guard that no test leaves a client open: it has to see one."""

import asyncio
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

import pytest

import ottla
from ottla.client.config import ClientConfig
from ottla.client.engine import Engine
from ottla.client.faces import Driver
from ottla.client.ports import real_ports
from tests.open_clients import left_open, open_clients


async def nothing() -> None:
    """Work for a client, so that it starts its thread."""


def test_a_client_is_seen_until_it_is_closed_whatever_it_is_called() -> None:
    before = open_clients()
    client = Driver(Engine(ClientConfig.of("127.0.0.1:1"), real_ports(), client_id="till"))
    client.run_blocking(nothing())
    try:
        assert left_open(before, patience_s=0) == ["till"]
        assert left_open(open_clients(), patience_s=0) == []
    finally:
        client.close_blocking()
    assert left_open(before, patience_s=0) == []


def test_a_broker_is_no_client() -> None:
    before = open_clients()
    with ottla.Broker() as broker:
        assert left_open(before, patience_s=0) == []
        with ottla.Admin(broker.bootstrap_servers) as admin:
            (name,) = left_open(before, patience_s=0)
            assert name.startswith("ottla-admin-")
            assert admin.list_topics() == []


def enter(client: AbstractContextManager[Any] | AbstractAsyncContextManager[Any]) -> None:
    """Begin a `with` block, which may fail."""
    if isinstance(client, AbstractContextManager):
        client.__enter__()
    else:
        asyncio.run(client.__aenter__())


@pytest.mark.parametrize(
    "kind",
    [
        *(ottla.Producer, ottla.Consumer, ottla.Admin),
        *(ottla.AsyncProducer, ottla.AsyncConsumer, ottla.AsyncAdmin),
    ],
)
def test_a_client_that_reaches_nobody_is_closed_by_its_with(kind: Any) -> None:
    before = open_clients()

    with pytest.raises(ottla.OttlaError):
        enter(kind(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=1))

    assert left_open(before) == []
