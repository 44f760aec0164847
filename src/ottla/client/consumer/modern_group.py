"""Membership in a group whose broker assigns (KIP-848).

Two tasks.  `_beat` sends heartbeats: when they are due, and at once when there is something to say.
`_follow` walks the caller towards the target: gives up what is not in it, then takes what is new.
"""

import asyncio
import base64
import logging

from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.mailbox import Change, Mailbox
from ottla.client.consumer.membership import Goodbye, Membership, Presence
from ottla.client.consumer.modern import Fate, ModernMember, Target, named
from ottla.client.engine import Engine
from ottla.client.records import GroupMetadata
from ottla.client.targets import group
from ottla.errors import (
    BrokerError,
    OttlaError,
    UnsupportedError,
    exception_for,
    raise_for_code,
)
from ottla.model import TopicPartition
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

log = logging.getLogger(__name__)

_ID_BYTES = 16


class ModernGroup(Membership):
    """Made in the loop of the engine."""

    def __init__(
        self, engine: Engine, config: ConsumerConfig, mailbox: Mailbox, presence: Presence
    ) -> None:
        super().__init__(engine, config, mailbox, presence)
        assert config.group_id is not None
        self._to = group(config.group_id)
        self._member = ModernMember(config, _new_member_id(engine))
        self._is_lost = False
        self._ids: dict[TopicPartition, bytes] = {}
        """Topic ids of what we own: a topic that was created anew is another one."""
        self._beat_wake = asyncio.Event()
        self._sent_at_ms = 0

    @property
    def identity(self) -> GroupMetadata:
        return self._member.identity

    def wake(self) -> None:
        super().wake()
        self._beat_wake.set()

    def forget(self) -> None:
        super().forget()
        self._ids.clear()

    def hear(self, error: OttlaError) -> None:
        """A commit was refused; the next heartbeat will tell more."""
        self._beat_wake.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._beat())
            tasks.create_task(self._follow())

    async def leave(self, goodbye: Goodbye, reason: str) -> None:
        member = self._member
        if member.is_in:
            request = member.leave(comes_back=goodbye is Goodbye.STAY)
            member.left()
            await self._engine.ask(request, ConsumerGroupHeartbeatResponse, to=self._to)
            log.debug("left %s: %s", self._to, reason)
        self._is_lost = False

    # Heartbeats.

    @property
    def _owned_ids(self) -> Target:
        return frozenset((self._ids[tp], tp.partition) for tp in self.owned)

    async def _beat(self) -> None:
        failure_count = 0
        while True:
            await self._until_due()
            if self._member.is_in and self._is_late():
                await self._leave_late()
                continue
            try:
                await self._say()
                failure_count = 0
            except OttlaError as error:
                self._engine.check_open()
                failure_count += 1
                await self._after(error, failure_count)

    def _may_speak(self) -> bool:
        return (
            self.stopped is None
            and self._subscription.is_shared
            and self._presence.polled_at_ms is not None
            and self._engine.cluster.is_known
            and (self._member.is_in or not (self._is_lost or self._is_late()))
        )

    async def _until_due(self) -> None:
        while True:
            self._beat_wake.clear()
            due_ms = self._sent_at_ms + self._member.heartbeat_interval_ms - self._engine.now_ms()
            if self._may_speak():
                if due_ms <= 0 or self._member.needs_heartbeat(self.topics, self._owned_ids):
                    return
            else:
                due_ms = self._member.heartbeat_interval_ms
            try:
                async with asyncio.timeout(due_ms / 1000):
                    await self._beat_wake.wait()
            except TimeoutError:
                continue

    async def _say(self) -> None:
        topics, owned = self.topics, self._owned_ids
        self._sent_at_ms = self._engine.now_ms()
        try:
            answer = await self._engine.ask(
                self._member.heartbeat(topics, owned),
                ConsumerGroupHeartbeatResponse,
                to=self._to,
            )
        except OttlaError:
            self._member.unanswered()
            raise
        if answer.error_message:
            raise exception_for(answer.error_code, answer.error_message)
        raise_for_code(answer.error_code, f"heartbeat to {self._to}")
        self._engine.metrics.count("heartbeat-total")
        if self._member.answered(answer, topics, owned):
            super().wake()

    async def _after(self, error: OttlaError, failure_count: int) -> None:
        self._engine.hear(error, self._to)
        fate = Fate.RETRY if error.retriable else Fate.FAIL
        if isinstance(error, BrokerError):
            fate = self._member.refused(error.code)
        if fate is Fate.RETRY:
            await self._back_off(failure_count)
            return
        # What the caller is about to take over is lost, too.
        self._is_lost = bool(self.owned) or self._waiting is not None
        self._give_up_turn(error)
        super().wake()
        if fate is Fate.LOST:
            log.warning("group %s goes on without us: %s", self._config.group_id, error)
            return
        if isinstance(error, UnsupportedError):
            error.add_note("the broker has no consumer groups (KIP-848): group_protocol='classic'")
        self._mailbox.complain(error)
        if fate is Fate.STOP:
            self.stopped = error
            return
        polled_at_ms = self._presence.polled_at_ms
        await self._back_off(failure_count)
        while self._presence.polled_at_ms == polled_at_ms:
            self._beat_wake.clear()
            await self._beat_wake.wait()

    async def _leave_late(self) -> None:
        late = self._complain_about_polls()
        # What the caller is about to take over is lost, too.
        self._is_lost = bool(self.owned) or self._waiting is not None
        self._give_up_turn(late)
        is_static = self._config.group_instance_id is not None
        request = self._member.leave(comes_back=is_static)
        self._member.left()
        super().wake()
        await self._say_goodbye(request, ConsumerGroupHeartbeatResponse, self._to)

    # The way to the target.

    async def _follow(self) -> None:
        while True:
            await self._until(self._has_way_to_go)
            try:
                if self._is_lost:
                    await self._tell(Change.LOST, self.owned)
                    self._is_lost = False
                    self._ids = {}
                    self._beat_wake.set()
                else:
                    await self._walk()
            except OttlaError as error:
                self._engine.check_open()
                log.debug("the way to the target ended: %s", error)
                self._ids = {tp: i for tp, i in self._ids.items() if tp in self.owned}

    def _wanted(self) -> frozenset[TopicPartition] | None:
        target = self._member.target
        if target is None:
            return None
        found = named(target, self._engine.cluster.names)
        if found is None:
            self._engine.metadata.refresh()
            self._engine.wake_metadata()
        return found

    def _has_way_to_go(self) -> bool:
        if self._is_lost:
            return True
        wanted = self._wanted()
        return wanted is not None and self._target_ids(wanted) != self._ids

    def _target_ids(self, wanted: frozenset[TopicPartition]) -> dict[TopicPartition, bytes]:
        topics = self._engine.cluster.topics
        return {tp: topics[tp.topic].topic_id for tp in wanted}

    async def _walk(self) -> None:
        wanted = self._wanted()
        if wanted is None:
            return
        ids = self._target_ids(wanted)
        gone = {tp for tp in self.owned if ids.get(tp) != self._ids[tp]}
        await self._tell(Change.REVOKED, gone)
        self._ids = {tp: topic_id for tp, topic_id in self._ids.items() if tp not in gone}
        added = wanted - self.owned
        self._ids |= {tp: ids[tp] for tp in added}
        # They are owned, and heartbeats say so, when the caller has taken over.
        await self._tell(Change.ASSIGNED, added)
        self._beat_wake.set()


def _new_member_id(engine: Engine) -> str:
    made = engine.ports.entropy.random_bytes(_ID_BYTES)
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()
