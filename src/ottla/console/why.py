"""What `ottla.why` finds, for pages: looked up once for all who look, and in a thread.

The same words as those of `ottla why`, from the same judges.  Where a broker does not tell when
offsets were committed, two looks are compared; so the earlier ones are kept for some seconds.
"""

import asyncio
import os
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakValueDictionary

from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer
from ottla.console.settings import ConsoleSettings
from ottla.errors import OttlaError
from ottla.pipeline.state import StateFolder, state_dir
from ottla.why import pipeline_waits, transaction_waits
from ottla.why.access import Access
from ottla.why.findings import Finding
from ottla.why.group import why_group
from ottla.why.pipeline import look_at_pipeline
from ottla.why.sight import Sight, look
from ottla.why.topic import look_at_topic, why_topic
from ottla.why.transaction import look_at_transaction

MAX_KEPT: Final = 200
SHORT_LOOK_MS: Final = 1_000
LONG_LOOK_MS: Final = 10_000
"""Looks are compared over so long; consumers that commit by themselves do so every five seconds."""
OLDEST_LOOK_MS: Final = 120_000
"""A page that is open is renewed more often than that, however large the cluster."""

Findings = list[Finding]


class OncePerSample:
    """What is found out once for each thing and sample, whoever asks; no thing waits for another.

    Threads find it out; all else is for one event loop.
    """

    def __init__(self, sample_count: Callable[[], int]) -> None:
        self._sample_count = sample_count
        self._looking: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        """One for each thing, for as long as somebody has it or waits for it."""
        self._kept: OrderedDict[tuple[str, str], tuple[int, Findings]] = OrderedDict()
        """What was found with which sample; what was not asked for longest goes first."""

    async def find(self, kind: str, name: str, why: Callable[[str], Findings]) -> Findings:
        """What `why` says of `name`, if it was not asked since the last sample."""
        count, key = self._sample_count(), (kind, name)
        lock = self._looking.setdefault(key, asyncio.Lock())
        async with lock:
            kept = self._kept.get(key)
            if kept is None or kept[0] < count:
                try:
                    found = await asyncio.to_thread(why, name)
                except OttlaError as error:  # what else the page has is still of use
                    found = [Finding(code="not_seen", text=f"It could not be looked at: {error}.")]
                kept = self._kept[key] = count, found
            self._kept.move_to_end(key)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return kept[1]


class Advisor:
    """Says why, for all who look."""

    def __init__(self, settings: ConsoleSettings, sample_count: Callable[[], int]) -> None:
        self._settings = settings
        self._admin = Admin(settings.bootstrap_servers, **settings.client_options)
        self._access = Access(
            admin=self._admin, committed_reader=self._committed_reader, timeout_s=settings.timeout_s
        )
        self._once = OncePerSample(sample_count).find
        self._looks: OrderedDict[str, deque[Sight]] = OrderedDict()
        """By group, the looks of the last seconds, with one that is older."""

    async def group(self, group_id: str) -> Findings:
        """Why a group is where it is."""
        looks = self._looks.setdefault(group_id, deque())
        self._looks.move_to_end(group_id)
        if len(self._looks) > MAX_KEPT:
            self._looks.popitem(last=False)

        def why(it: str) -> Findings:
            now = look(self._admin, it, with_bounds=True)
            return why_group(earlier_look(looks, now), now)

        return await self._once("group", group_id, why)

    async def topic(self, name: str) -> Findings:
        """What holds a topic up."""
        return await self._once("topic", name, lambda it: why_topic(look_at_topic(self._admin, it)))

    async def transaction(self, transactional_id: str) -> Findings:
        """What a transaction waits for."""

        def why(it: str) -> Findings:
            return list(transaction_waits.waits(look_at_transaction(self._access, it)))

        return await self._once("transaction", transactional_id, why)

    async def pipeline(self, name: str) -> Findings:
        """What a pipeline waits for, without a look at how fast records come."""

        def why(it: str) -> Findings:
            folder = StateFolder(state_dir(os.environ), it)
            return list(pipeline_waits.findings(look_at_pipeline(self._access, folder, 0)))

        return await self._once("pipeline", name, why)

    async def close(self) -> None:
        """Let the client go."""
        await asyncio.to_thread(self._admin.close)

    def _committed_reader(self) -> Consumer[Any, Any]:
        servers = self._settings.bootstrap_servers
        options = {**self._settings.client_options, "isolation_level": "read_committed"}
        return Consumer(bootstrap_servers=servers, **options)


def earlier_look(looks: deque[Sight], now: Sight) -> Sight | None:
    """The look to compare with, if there is one that is old enough; keeps `now` for later."""
    # One of another day says little about now, and one of the future that the clock was set.
    while looks and not 0 <= now.seen_ms - looks[0].seen_ms <= OLDEST_LOOK_MS:
        looks.popleft()
    while len(looks) > 1 and now.seen_ms - looks[1].seen_ms >= LONG_LOOK_MS:
        looks.popleft()
    if not looks or now.seen_ms - looks[-1].seen_ms >= SHORT_LOOK_MS:
        looks.append(now)
    least_ms = LONG_LOOK_MS if now.group.story is None else SHORT_LOOK_MS
    return looks[0] if now.seen_ms - looks[0].seen_ms >= least_ms else None
