"""Deadlines, and doing again what failed: with pauses that grow, until it works or time is up."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from ottla.client.backoff import Backoff
from ottla.client.durations import seconds
from ottla.errors import DeadlineError, OttlaError
from ottla.ports import Entropy

T = TypeVar("T")


@asynccontextmanager
async def within(
    timeout_ms: int, what: str, trouble: list[OttlaError] | None = None
) -> AsyncIterator[None]:
    """Bound what is inside: `DeadlineError`, caused by the last of `trouble`."""
    deadline = asyncio.timeout(timeout_ms / 1000)
    try:
        async with deadline:
            yield
    except TimeoutError:
        if not deadline.expired():
            raise
        cause = trouble[-1] if trouble else None
        why = str(cause) if cause else "no broker answered"
        raise DeadlineError(f"{what}: not done within {seconds(timeout_ms)}; {why}") from cause


async def repeat(
    attempt: Callable[[], Awaitable[T]],
    *,
    what: str,
    timeout_ms: int,
    backoff: Backoff,
    entropy: Entropy,
    hear: Callable[[OttlaError], None],
    max_retries: int | None = None,
) -> T:
    """Run `attempt` until it raises nothing that is retriable.

    Each failure is told to `hear`, which may find out better before the next attempt.
    """
    trouble: list[OttlaError] = []
    failure_count = 0
    async with within(timeout_ms, what, trouble):
        while True:
            try:
                return await attempt()
            except OttlaError as error:
                hear(error)
                if not error.retriable or failure_count == max_retries:
                    raise
                trouble[:] = [error]
            failure_count += 1
            await asyncio.sleep(backoff.delay_ms(failure_count, entropy.random()) / 1000)
