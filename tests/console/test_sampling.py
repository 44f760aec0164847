"""The task that asks the cluster: what it sees, and what it says when nobody answers."""

import asyncio
from typing import Any

import ottla
from ottla.broker.embedded import Broker
from ottla.console.sampling import Sampler
from ottla.errors import ErrorCode
from ottla.testing import TestBroker


def run(test: Any) -> None:
    asyncio.run(asyncio.wait_for(test, 200))


def test_a_sample_has_topics_groups_and_transactions(
    broker: Broker, topic: str, group: str
) -> None:
    async def look() -> None:
        async with ottla.AsyncAdmin(broker.bootstrap_servers) as admin:
            sampler = Sampler(admin, 1.0)
            await sampler.sample()
            newest = sampler.history.newest
        assert newest is not None
        assert newest.topics[topic].record_count == 4
        assert newest.topics[topic].bounds == {0: (0, 2), 1: (0, 2)}
        assert newest.lags[group].total == 2
        assert newest.open_transaction_count is not None
        assert newest.offline_count == newest.under_replicated_count == 0

    run(look())


def test_who_may_not_ask_for_the_disks_of_brokers_sees_the_rest() -> None:
    async def look() -> None:
        with TestBroker() as broker:
            broker.produce("orders", "a")
            denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            broker.faults.fail("DescribeLogDirs", denied, times=None)
            async with ottla.AsyncAdmin(broker.bootstrap_servers) as admin:
                sampler = Sampler(admin, 1.0)
                await sampler.sample()
        newest = sampler.history.newest
        assert sampler.trouble == ""
        assert newest is not None
        assert newest.topics["orders"].record_count == 1
        assert newest.size_bytes is None

    run(look())


def test_a_cluster_that_goes_away_is_trouble_and_its_history_stays(topic: str) -> None:
    async def look() -> None:
        with Broker() as short_lived:
            admin = ottla.AsyncAdmin(short_lived.bootstrap_servers, default_api_timeout_ms=500)
            await admin.connect(60)
            sampler = Sampler(admin, 1.0)
            while sampler.history.newest is None:
                await sampler.sample()  # half a second may be too short for a busy machine
            assert sampler.trouble == ""
            tried = sampler.count
        await sampler.sample()
        assert sampler.trouble
        assert len(sampler.history) == 1
        assert sampler.count == tried + 1
        await admin.aclose()

    run(look())


def test_who_waits_is_woken_by_the_next_sample(broker: Broker) -> None:
    async def look() -> None:
        async with ottla.AsyncAdmin(broker.bootstrap_servers) as admin:
            sampler = Sampler(admin, 1.0)
            waiting = asyncio.ensure_future(sampler.next(0, 60.0))
            await sampler.sample()
            assert await waiting == 1
            assert await sampler.next(1, 0.01) == 1  # nothing new, and it did not wait for ever

    run(look())
