"""What a broker counts and times: one in 32 stands for all, and those that wait are timed."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from ottla.broker.families import RECENT_S, Recent
from ottla.broker.flusher import AfterSync, Sync
from ottla.broker.meters import BOUNDS_S, LAG_INTERVAL_S, SAMPLED_OF, Histogram, Meters, quantile_s
from ottla.testing.loop import SimLoop
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.registry import ApiKey

KEY = ApiKey.HEARTBEAT
RESPONSE = HeartbeatResponse()


def play(scenario: Callable[[Meters], Awaitable[None]]) -> None:
    loop = SimLoop(random.Random(1))
    try:
        loop.run_until_complete(_with_meters(scenario))
    finally:
        loop.close()


async def _with_meters(scenario: Callable[[Meters], Awaitable[None]]) -> None:
    await scenario(Meters())


def test_a_duration_falls_into_the_first_bucket_that_holds_it() -> None:
    times = Histogram()
    times.observe(BOUNDS_S[3])
    times.observe(BOUNDS_S[3] + 1e-6, weight=16)
    times.observe(1e9)

    assert times.counts[3] == 1
    assert times.counts[4] == 16
    assert times.counts[-1] == 1
    assert times.sum_s == pytest.approx(1e9 + 17 * BOUNDS_S[3], rel=1e-3)


def test_a_quantile_lies_within_its_bucket() -> None:
    counts = [0] * (len(BOUNDS_S) + 1)
    assert quantile_s(counts, 0.5) is None
    counts[3] = 100

    assert quantile_s(counts, 0.5) == pytest.approx((BOUNDS_S[2] + BOUNDS_S[3]) / 2)
    assert quantile_s(counts, 1.0) == pytest.approx(BOUNDS_S[3])

    counts[-1] = 1000
    assert quantile_s(counts, 0.99) == BOUNDS_S[-1], "it is known to be longer"


def test_the_first_requests_count_for_themselves_and_a_later_sample_for_many() -> None:
    async def scenario(meters: Meters) -> None:
        since_s = asyncio.get_running_loop().time()
        for count in range(1, 3 * SAMPLED_OF + 6):
            meters.untimed_counts[KEY] -= 1
            is_due = not meters.untimed_counts[KEY]
            assert is_due == (count <= SAMPLED_OF or count % SAMPLED_OF == 0)
            if is_due:
                meters.sample(KEY, RESPONSE, since_s)
            assert meters.request_counts[KEY] == count

        assert sum(meters.request_times[KEY].counts) == 3 * SAMPLED_OF
        assert sum(meters.request_counts) == 3 * SAMPLED_OF + 5

    play(scenario)


def test_a_request_is_timed_until_the_sync_that_it_waits_for() -> None:
    async def scenario(meters: Meters) -> None:
        loop = asyncio.get_running_loop()
        sync = Sync()
        meters.sample(KEY, AfterSync(RESPONSE, sync, lambda response: response), loop.time())
        await asyncio.sleep(2)
        assert KEY not in meters.request_times

        sync.tell()

        assert meters.request_times[KEY].sum_s == pytest.approx(2, abs=0.01)

    play(scenario)


def test_a_request_that_waits_otherwise_is_timed_by_who_waits_for_it() -> None:
    async def scenario(meters: Meters) -> None:
        loop = asyncio.get_running_loop()
        meters.sample(KEY, loop.create_future(), loop.time())
        assert KEY not in meters.request_times

        await asyncio.sleep(3)
        meters.finish(KEY, since_s=0.0)

        assert meters.request_times[KEY].sum_s == pytest.approx(3, abs=0.01)

    play(scenario)


def test_the_loop_is_late_by_what_it_was_busy_with() -> None:
    async def scenario(meters: Meters) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        watching = loop.create_task(meters.watch_loop())
        await asyncio.sleep(LAG_INTERVAL_S / 2)
        loop.jump(0.75)  # as a callback would that takes so long
        await asyncio.sleep(LAG_INTERVAL_S)
        watching.cancel()

        assert meters.loop_lag_s == pytest.approx(0.5, abs=0.05)

    play(scenario)


def test_quantiles_are_of_the_last_minutes() -> None:
    async def scenario(meters: Meters) -> None:
        recent = Recent(meters)
        meters.sample(KEY, RESPONSE, -1.0)
        assert sum(recent.counts(0.0)[KEY]) == 1, "all since the start"
        for number in range(1, 100):
            recent.counts(number * RECENT_S / 10)
        assert sum(recent.counts(10 * RECENT_S)[KEY]) == 0

        meters.sample(KEY, RESPONSE, -1.0)

        assert sum(recent.counts(10 * RECENT_S + 1)[KEY]) == 1

    play(scenario)
