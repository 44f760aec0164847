"""The half of a consumer that lives on the I/O thread: tasks, and what the caller asks of them.

The caller's half is `reading`.  Between them are the `Shelf` (records), the `Mailbox` (turns and
errors) and `Presence` (when he polled).
"""

import asyncio
import logging
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping

from ottla.client.consumer.classic_group import ClassicGroup
from ottla.client.consumer.committer import Committer
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.fetcher import Fetcher
from ottla.client.consumer.lookups import Lookups
from ottla.client.consumer.mailbox import Bell, Committed, Mailbox
from ottla.client.consumer.membership import Goodbye, Membership, Presence
from ottla.client.consumer.modern_group import ModernGroup
from ottla.client.consumer.partition import Need
from ottla.client.consumer.positioner import Positioner
from ottla.client.consumer.shelf import Shelf
from ottla.client.consumer.solo import Solo
from ottla.client.consumer.subscription import Subscription
from ottla.client.durations import milliseconds
from ottla.client.engine import Engine
from ottla.client.records import GroupMetadata, OffsetAndMetadata
from ottla.errors import MisuseError, OttlaError
from ottla.model import TopicPartition

log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Core:
    """Made anywhere; `start` and all coroutines run in the loop of the engine."""

    def __init__(
        self, engine: Engine, config: ConsumerConfig, bell: Bell, processed: Callable[[], Offsets]
    ) -> None:
        """`processed` tells what may be committed; it is called on the I/O thread."""
        self.engine = engine
        self.config = config
        self.shelf = Shelf()
        self.mailbox = Mailbox(bell)
        self.presence = Presence()
        self.lookups = Lookups(engine, is_committed_only=config.is_committed_only)
        self._bell = bell
        self._processed = processed
        self._committing: list[dict[TopicPartition, OffsetAndMetadata]] = []
        """What needs no commit any more when those that are under way are done; in their order."""
        self._membership: Membership | None = None
        self._member_task: asyncio.Task[None] | None = None
        self._fetcher: Fetcher | None = None
        self._positioner: Positioner | None = None
        self._committer: Committer | None = None
        self._cluster_version = -1

    @property
    def is_started(self) -> bool:
        return self._membership is not None

    @property
    def is_auto_committing(self) -> bool:
        config = self.config
        return config.enable_auto_commit and config.group_id is not None and not config.offset_store

    def member_identity(self) -> GroupMetadata:
        """Who we are in the group; `CommitFailedError` if we are not in it now."""
        if self._membership is not None:
            self._membership.check_membership()
        return self.identity

    @property
    def is_outside(self) -> bool:
        """Whether the group shares out our partitions, and goes on without us."""
        return self._membership is not None and self._membership.is_outside

    @property
    def identity(self) -> GroupMetadata:
        """Who we are in the group."""
        if self._membership is None:
            return GroupMetadata(self.config.group_id or "")
        return self._membership.identity

    def check(self) -> None:
        """Raise what keeps this consumer from ever reading again."""
        self.engine.check_open()
        if self._membership is not None and self._membership.stopped is not None:
            raise self._membership.stopped.with_traceback(None)

    async def start(self) -> None:
        """Begin to work; nothing is waited for.  Twice is no error."""
        if self._membership is not None:
            return
        engine = self.engine
        self._fetcher = Fetcher(engine, self.shelf, self.config, self._bell.ring)
        self._positioner = Positioner(
            engine,
            self.shelf,
            self.config,
            self.lookups,
            on_news=self._on_position,
            fail=self.mailbox.complain,
        )
        self._membership = self._new_membership()
        self._committer = Committer(
            engine, lambda: self.identity, self._membership.hear, lambda: self.shelf.assigned
        )
        engine.subscribe(self._on_change)
        engine.spawn("fetch", self._fetcher.run())
        engine.spawn("positions", self._positioner.run())
        self._member_task = engine.spawn("group", self._membership.run())
        if self.is_auto_committing:
            engine.spawn("auto commit", self._commit_for_ever())

    async def connect(self, timeout_s: float | None = None, *, once: bool = False) -> None:
        """Wait until the cluster is known; see `Engine.connect`."""
        await self.engine.connect(milliseconds(timeout_s), once=once)
        await self.start()

    def wake(self) -> None:
        """The caller did something: polled, sought, made room."""
        if self._membership is None:
            return
        assert self._fetcher is not None
        assert self._positioner is not None
        self._membership.wake()
        self._positioner.wake()
        self._fetcher.wake()

    def refill(self) -> None:
        """The caller has read something to its end: there is room for more."""
        if self._fetcher is not None:
            self._fetcher.wake()
        if self._positioner is not None and any(p.need is not Need.NOTHING for p in self.shelf):
            self._positioner.wake()

    # What to read.

    async def subscribe(self, subscription: Subscription) -> None:
        """Want these topics; partitions come by and by."""
        await self.start()
        assert self._membership is not None
        now_ms = self.engine.now_ms()
        self.engine.metadata.want_all(subscription.pattern is not None, now_ms)
        self.engine.metadata.want_only(subscription.topics, now_ms)
        self.engine.wake_metadata()
        self._membership.subscribe(subscription)

    async def unsubscribe(self, reason: str, partitions: Iterable[TopicPartition] = ()) -> None:
        """Leave the group, if we are in one, and read `partitions`, which the caller has taken."""
        await self.start()
        assert self._membership is not None
        try:
            await self._end_membership()
            await self._membership.leave(Goodbye.LEAVE, reason)
        except OttlaError as error:
            log.debug("not told the group that we left: %s", error)
        finally:
            # Also if nobody waits for it any more: who subscribes next needs it.
            if not self.engine.is_closed:
                self._begin_anew({tp.topic for tp in partitions})
        self.engine.check_open()

    def _begin_anew(self, topics: Collection[str]) -> None:
        assert self._membership is not None
        self._membership.forget()
        self._membership.subscribe(Subscription())
        now_ms = self.engine.now_ms()
        self.engine.metadata.want_all(False, now_ms)
        self.engine.metadata.want_only(topics, now_ms)
        self.engine.wake_metadata()
        self._member_task = self.engine.spawn("group", self._membership.run())
        self.wake()

    # Commits.

    async def commit(self, offsets: Offsets, timeout_ms: int | None = None) -> None:
        """Commit, in the order of calls; see `Committer.commit`.

        What is processed by now is not committed automatically behind it: what the program says
        counts.
        """
        passed = {
            tp: at
            for tp, at in self._processed().items()
            if tp in offsets and at.offset <= offsets[tp].offset
        }
        await self._commit(offsets, passed, timeout_ms)

    async def commit_last(self, offsets: Offsets, timeout_ms: int) -> Offsets:
        """Commit what is processed of partitions that are given up; returns what was committed.

        Not where the program has committed that, or more, itself: it would go back behind it.
        """
        assert self._committer is not None, "partitions come when it is started"
        left_ms = await self._committer.settled(timeout_ms)
        passed = self.shelf.passed()
        chosen = {tp: at for tp, at in offsets.items() if passed.get(tp) != at}
        if chosen:
            await self._commit(chosen, chosen, left_ms, waits=True)
        return chosen

    async def _commit(
        self,
        offsets: Offsets,
        passed: dict[TopicPartition, OffsetAndMetadata],
        timeout_ms: int | None = None,
        *,
        waits: bool = False,
    ) -> None:
        """Commit `offsets`; then what was `passed` needs no commit any more."""
        if self.config.group_id is None:
            raise MisuseError("there is no group to commit for: set group_id")
        await self.start()
        assert self._committer is not None
        assert self._membership is not None
        self._membership.check_membership()
        self._committing.append(passed)
        try:
            await self._committer.commit(offsets, timeout_ms, waits=waits)
            self.shelf.note_passed(passed)
        finally:
            self._committing.remove(passed)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed."""
        if self.config.group_id is None:
            raise MisuseError("there is no group that could have committed: set group_id")
        return await self.lookups.committed(self.config.group_id, partitions)

    async def _commit_for_ever(self) -> None:
        while True:
            await asyncio.sleep(max(self.config.auto_commit_interval_ms, 1) / 1000)
            assigned = self.shelf.assigned
            passed = ChainMap(*reversed(self._committing), self.shelf.passed())
            offsets = {
                tp: at
                for tp, at in self._processed().items()
                if tp in assigned and passed.get(tp) != at
            }
            if not offsets:
                continue
            try:
                await self._commit(offsets, offsets)
            except OttlaError as error:
                self.engine.check_open()
                log.warning("auto commit failed: %s", error)
                continue
            if self.config.interceptors:
                self.mailbox.put(Committed(offsets))

    # The end.

    async def finish(self) -> None:
        """Say goodbye to the group."""
        if self._membership is None:
            return
        await self._end_membership()
        is_static = self.config.group_instance_id is not None
        goodbye = Goodbye.STAY if is_static else Goodbye.LEAVE
        await self._membership.leave(goodbye, "the consumer was closed")

    async def _end_membership(self) -> None:
        task, self._member_task = self._member_task, None
        if task is None:
            return
        task.cancel()
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            await asyncio.wait([task])  # it ends soon, and there must not be two of them
            raise

    # What changes around us.

    def _new_membership(self) -> Membership:
        config = self.config
        if config.group_id is None:
            kind: type[Solo | ClassicGroup | ModernGroup] = Solo
        else:
            kind = ClassicGroup if config.group_protocol == "classic" else ModernGroup
        return kind(self.engine, config, self.mailbox, self.presence)

    def _on_change(self) -> None:
        version = self.engine.cluster.version
        if version != self._cluster_version and self._membership is not None:
            self._cluster_version = version
            self._membership.refresh_topics()
            self._membership.wake()

    def _on_position(self) -> None:
        assert self._fetcher is not None
        self._fetcher.wake()
        self._bell.ring()
