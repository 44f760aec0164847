"""What all kinds of membership share: turns of the caller, the poll interval, who we are.

A membership runs as a task on the I/O thread.  It decides what is assigned; the caller's thread
carries it out, inside `poll`, with `Turn`s that the membership waits for.  Whoever does not poll
for `max.poll.interval.ms` is taken for dead, however alive his heartbeats are.
"""

import asyncio
import enum
import logging
from collections.abc import Callable, Iterable
from typing import Any

from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.mailbox import Change, Mailbox, Turn
from ottla.client.consumer.subscription import Subscription
from ottla.client.engine import Engine
from ottla.client.records import GroupMetadata
from ottla.client.targets import Target
from ottla.errors import CommitFailedError, ErrorCode, OttlaError, exception_for
from ottla.model import TopicPartition

log = logging.getLogger(__name__)


class Goodbye(enum.Enum):
    """How a member leaves when the consumer is closed."""

    LEAVE = "leave the group"
    STAY = "be expected back: static members keep their partitions"


class Presence:
    """When the caller polled; written by his thread, read by ours.

    Between any two lines the other thread may look: so the end of a poll is noted before the poll
    counts as over, and here they are read the other way round.  Who waited for longer than he may
    stay away would else be late for a moment, and out of his group.
    """

    def __init__(self) -> None:
        self.polled_at_ms: int | None = None
        """None: never yet."""
        self.is_polling = False

    def is_late(self, now_ms: int, interval_ms: int) -> bool:
        if self.is_polling:
            return False
        polled_at_ms = self.polled_at_ms
        return polled_at_ms is not None and now_ms - polled_at_ms > interval_ms


class Membership:
    """The part that is the same for all; see `solo`, `classic_group` and `modern_group`."""

    def __init__(
        self, engine: Engine, config: ConsumerConfig, mailbox: Mailbox, presence: Presence
    ) -> None:
        self._engine = engine
        self._config = config
        self._mailbox = mailbox
        self._presence = presence
        self._subscription = Subscription()
        self._wake = asyncio.Event()
        self._waiting: asyncio.Future[None] | None = None
        """Set while it is the caller's turn."""
        self.topics: frozenset[str] = frozenset()
        """What the subscription means, as far as the cluster is known."""
        self.owned: frozenset[TopicPartition] = frozenset()
        """What the caller was given."""
        self.stopped: OttlaError | None = None
        """Why we can never be in the group again: another has our place."""

    # What the consumer tells it.

    def wake(self) -> None:
        """Something changed: a poll, a subscription, metadata."""
        self._wake.set()

    def subscribe(self, subscription: Subscription) -> None:
        """Want something else from now on; the wish is carried out by and by."""
        self._subscription = subscription
        self.refresh_topics()
        self.wake()

    def refresh_topics(self) -> bool:
        """Metadata is newer: which topics are meant now?  Whether that has changed."""
        excludes = self._config.exclude_internal_topics
        found = self._subscription.matching(self._engine.cluster, excludes_internal=excludes)
        changed, self.topics = found != self.topics, found
        return changed

    def forget(self) -> None:
        """The caller has nothing any more, and knows it: he unsubscribed or chose partitions."""
        self.owned = frozenset()

    def hear(self, error: OttlaError) -> None:
        """An answer to a commit said something of the group."""

    @property
    def identity(self) -> GroupMetadata:
        """Who we are to the group; outside of one, nobody."""
        return GroupMetadata(self._config.group_id or "")

    @property
    def is_outside(self) -> bool:
        """Whether a group shares out our partitions, and we are not in it."""
        has_group = self._config.group_id is not None
        return has_group and self._subscription.is_shared and self.identity.generation_id < 0

    def check_membership(self) -> None:
        """Raise `CommitFailedError` if the group shared out our partitions and we are not in it.

        Those who chose their partitions themselves commit from outside, as long as nobody is in.
        """
        if self._subscription.is_shared and self.identity.generation_id < 0:
            raise CommitFailedError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"this consumer is not in group {self._config.group_id!r} now, so its partitions "
                "may be somebody else's; poll to join again",
            )

    async def run(self) -> None:
        """Be a member for ever."""
        raise NotImplementedError

    async def leave(self, goodbye: Goodbye, reason: str) -> None:
        """Say goodbye."""
        raise NotImplementedError

    # What it uses itself.

    async def _tell(self, change: Change, partitions: Iterable[TopicPartition]) -> None:
        """Have the caller carry out a change, and wait until he has; nothing to do is skipped."""
        affected = frozenset(partitions)
        if not affected and change is not Change.ASSIGNED:
            return
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[None] = loop.create_future()

        def done() -> None:
            if not waiting.done():
                waiting.set_result(None)

        turn = Turn(change, affected, lambda: _call_soon(loop, done))
        self._waiting = waiting
        self._mailbox.put(turn)
        is_taken = True
        try:
            await waiting
        except BaseException:
            # What the caller has begun he will end, whether we wait for it or not.
            is_taken = not self._mailbox.withdraw(turn)
            raise
        finally:
            self._waiting = None
            if is_taken:
                added = affected if change is Change.ASSIGNED else frozenset()
                self.owned = self.owned - affected | added

    def _give_up_turn(self, error: OttlaError) -> None:
        """The caller did not take his turn in time: whoever waits for it gets `error`."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is true that a wake tells of."""
        while not condition():
            self._wake.clear()
            if not condition():
                await self._wake.wait()

    async def _back_off(self, failure_count: int) -> None:
        luck = self._engine.ports.entropy.random()
        await asyncio.sleep(self._engine.backoff.delay_ms(failure_count, luck) / 1000)

    def _counts(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions topics have, of those that exist."""
        known = self._engine.cluster.topics
        return {t: known[t].partition_count for t in sorted(topics) if t in known}

    def _is_late(self) -> bool:
        return self._presence.is_late(self._engine.now_ms(), self._config.max_poll_interval_ms)

    def _complain_about_polls(self) -> OttlaError:
        """Say that we leave for want of polls; whoever waits for the caller gets it as an error."""
        interval_ms = self._config.max_poll_interval_ms
        log.warning(
            "leaving group %s: no poll for max.poll.interval.ms = %d; take fewer records at a "
            "time (max.poll.records), or allow more time",
            self._config.group_id,
            interval_ms,
        )
        detail = f"no poll for max.poll.interval.ms = {interval_ms}"
        return exception_for(ErrorCode.UNKNOWN_MEMBER_ID, detail)

    async def _say_goodbye(self, request: Any, answer: type[Any], to: Target) -> None:
        """Tell the group that we left; if it cannot be told, it finds out by itself."""
        try:
            await self._engine.ask(request, answer, to=to)
        except OttlaError as error:
            self._engine.check_open()
            log.debug("not told the group that we left: %s", error)


def _call_soon(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(act)
