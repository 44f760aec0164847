"""Brokers that break a promise on purpose: the simulation has to find each of them."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from ottla.broker.flusher import AfterSync, Flusher, Syncable
from ottla.broker.partition import Partition
from ottla.testing.simulation import Simulation
from tests.simulation.workload import Workload

R = TypeVar("R")

SEEDS = range(18)


class AcknowledgesBeforeSync(Flusher):
    """Answers acks=all at once, and syncs behind the client's back."""

    def when_durable(self, response: R) -> "asyncio.Future[R]":
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        future.set_result(response)
        return future

    def after_sync(self, response: R, if_failed: Callable[[R], R]) -> AfterSync[R]:
        return response  # type: ignore[return-value]  # which is answered as it is


class ShowsBeforeSync(Flusher):
    """Waits before it answers, but lets consumers read what no sync has saved yet."""

    def note(self, dirty: Syncable) -> None:
        super().note(dirty)
        assert isinstance(dirty, Partition)
        dirty.high_watermark = dirty.next_offset
        waiters, dirty.waiters = dirty.waiters, {}
        for waiter in waiters:
            waiter.on_advance(dirty)


@pytest.mark.parametrize(
    ("flusher", "least", "symptoms"),
    [
        (AcknowledgesBeforeSync, 9, ("unseen", "lost write", "inconsistent offsets")),
        (ShowsBeforeSync, 4, ("went back", "was read", "inconsistent offsets", "skip")),
    ],
)
def test_sabotage_is_found(flusher: type[Flusher], least: int, symptoms: tuple[str, ...]) -> None:
    found = 0
    for seed in SEEDS:
        with Simulation(seed) as sim:
            wrong = "\n".join(Workload(sim, flusher=flusher).play())
            found += any(symptom in wrong for symptom in symptoms)
    assert found >= least, f"found in {found} of {len(SEEDS)} runs"
