"""Membership in a classic group: joins, syncs, sends heartbeats, and leaves.

Two tasks.  `run` goes the round: have the caller give up what must be given up, join, sync, have
him take what is new, then wait for a reason to go round again.  `_beat` sends heartbeats all the
while, also while the caller takes his time with a rebalance, and watches `max.poll.interval.ms`.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from ottla.client.consumer.assignors import Member
from ottla.client.consumer.classic import NO_GENERATION, ClassicMember, Reaction
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.mailbox import Change, Mailbox
from ottla.client.consumer.membership import Goodbye, Membership, Presence
from ottla.client.engine import Engine
from ottla.client.records import GroupMetadata
from ottla.client.targets import group
from ottla.errors import (
    BrokerError,
    ErrorCode,
    MisuseError,
    OttlaError,
    raise_for_code,
)
from ottla.model import TopicPartition
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

log = logging.getLogger(__name__)

JOIN_LANE: Final = "join"
"""A broker holds a join until all have joined; commits and goodbyes must not wait behind it."""
_JOIN_SLACK_MS = 5_000
"""How long the answer to a join may take beyond the time that the group gives its members."""


class ClassicGroup(Membership):
    """Made in the loop of the engine."""

    def __init__(
        self, engine: Engine, config: ConsumerConfig, mailbox: Mailbox, presence: Presence
    ) -> None:
        super().__init__(engine, config, mailbox, presence)
        assert config.group_id is not None
        self._to = group(config.group_id)
        self._member = ClassicMember(config)
        self._rejoin_reason: str | None = "first join"
        self._is_lost = False
        """What we own is not ours any more."""
        self._is_joining = False
        self._heard_at_ms = 0
        self._joined_topics: frozenset[str] = frozenset()
        self._joined_counts: Mapping[str, int] = {}

    @property
    def identity(self) -> GroupMetadata:
        return self._member.identity

    def hear(self, error: OttlaError) -> None:
        if isinstance(error, BrokerError):
            self._react(error)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._beat())
            tasks.create_task(self._go_round())

    async def leave(self, goodbye: Goodbye, reason: str) -> None:
        member, self._rejoin_reason = self._member, "first join"
        if member.member_id and goodbye is Goodbye.LEAVE:
            request = member.leave(reason)
            member.left()
            answer = await self._engine.ask(request, LeaveGroupResponse, to=self._to)
            log.debug("left group %s: %s", self._to, ErrorCode.of(answer.error_code).name)
        member.left()
        self._is_lost = False

    # The round.

    async def _go_round(self) -> None:
        failure_count = 0
        while True:
            await self._until(self._has_reason)
            try:
                await self._round()
                failure_count = 0
            except OttlaError as error:
                self._engine.check_open()
                failure_count += 1
                await self._after(error, failure_count)

    def _has_reason(self) -> bool:
        """Whether to go round, and a caller is there to go along."""
        if not self._subscription.is_shared or self._presence.polled_at_ms is None:
            return False
        if self.stopped is not None:
            return self._is_lost
        if self._is_late() or not self._engine.cluster.is_known:
            return False
        if self._rejoin_reason is None:
            self._rejoin_reason = self._news()
        return self._rejoin_reason is not None

    def _news(self) -> str | None:
        """What has changed since we joined."""
        if self.topics != self._joined_topics:
            return "the subscription has changed"
        if self._member.is_leader and self._joined_counts != self._counts(
            self._member.group_topics
        ):
            return "partitions were added, or topics came or went"
        return None

    async def _round(self) -> None:
        await self._give_up()
        if self.stopped is not None:
            return
        reason, self._rejoin_reason = self._rejoin_reason or "rebalance", None
        topics, self._joined_topics = self.topics, self.topics
        self._is_joining = True
        try:
            members = await self._join(topics, reason)
            plan = await self._plan(members) if self._member.is_leader else None
            mine = await self._sync(plan)
        except BaseException:
            self._rejoin_reason = reason
            raise
        finally:
            self._is_joining = False
        log.info(
            "joined group %s: generation %d, assignor %s, %d partitions",
            self._config.group_id,
            self._member.generation,
            self._member.protocol,
            len(mine),
        )
        await self._take_over(mine)

    async def _give_up(self) -> None:
        """What must be out of the caller's hands before we join."""
        if self._is_lost:
            await self._tell(Change.LOST, self.owned)
            self._is_lost = False
        elif self._member.is_cooperative:
            unwanted = [tp for tp in self.owned if tp.topic not in self.topics]
            await self._tell(Change.REVOKED, unwanted)
        else:
            await self._tell(Change.REVOKED, self.owned)

    async def _take_over(self, mine: frozenset[TopicPartition]) -> None:
        if gone := self.owned - mine:
            await self._tell(Change.REVOKED, gone)
            # Those who get it wait for us to come back without it.
            self._rejoin_reason = f"gave up {len(gone)} partitions"
        await self._tell(Change.ASSIGNED, mine - self.owned)

    async def _join(self, topics: frozenset[str], reason: str) -> dict[str, Member]:
        owned = self.owned if self._member.is_cooperative else frozenset()
        answer = await self._engine.ask(
            self._member.join(topics, owned, reason),
            JoinGroupResponse,
            to=self._to,
            lane=JOIN_LANE,
            timeout_ms=self._config.max_poll_interval_ms + _JOIN_SLACK_MS,
        )
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member.member_id = answer.member_id
            return await self._join(topics, reason)
        raise_for_code(answer.error_code, f"join of {self._to}")
        self._heard_at_ms = self._engine.now_ms()
        return self._member.joined(answer)

    async def _plan(self, members: dict[str, Member]) -> dict[str, list[TopicPartition]]:
        wanted = self._member.group_topics
        cluster = self._engine.cluster
        self._engine.metadata.want(wanted, self._engine.now_ms())
        if not wanted <= cluster.topics.keys() | cluster.errors.keys():
            await self._engine.refresh()
        self._joined_counts = self._counts(wanted)
        try:
            return self._member.plan(members, self._joined_counts)
        except OttlaError:
            raise
        except Exception as error:
            raise MisuseError(f"assignor {self._member.protocol!r} failed: {error!r}") from error

    async def _sync(
        self, plan: dict[str, list[TopicPartition]] | None
    ) -> frozenset[TopicPartition]:
        answer = await self._engine.ask(
            self._member.sync(plan),
            SyncGroupResponse,
            to=self._to,
            lane=JOIN_LANE,
            timeout_ms=self._config.max_poll_interval_ms + _JOIN_SLACK_MS,
        )
        raise_for_code(answer.error_code, f"sync of {self._to}")
        self._heard_at_ms = self._engine.now_ms()
        return self._member.synced(bytes(answer.assignment))

    async def _after(self, error: OttlaError, failure_count: int) -> None:
        """The round was broken off: what now?"""
        if isinstance(error, BrokerError) and self._react(error) is not None:
            return
        if error.retriable:
            log.debug("rebalance broken off: %s", error)
            self._engine.hear(error, self._to)
            await self._back_off(failure_count)
            return
        self._mailbox.complain(error)
        polled_at_ms = self._presence.polled_at_ms
        await self._back_off(failure_count)
        await self._until(lambda: self._presence.polled_at_ms != polled_at_ms)

    def _react(self, error: BrokerError) -> Reaction | None:
        reaction = self._member.refused(error.code)
        match reaction:
            case None:
                return None
            case Reaction.STOP:
                self.stopped = error
                self._is_lost = True
                self._mailbox.complain(error)
            case Reaction.LOST | Reaction.FORGOTTEN:
                log.warning("group %s goes on without us: %s", self._config.group_id, error)
                self._is_lost = True
            case Reaction.REJOIN:
                pass
        self._rejoin_reason = self._rejoin_reason or error.code.name.lower().replace("_", " ")
        if self._is_lost:
            self._give_up_turn(error)
        self.wake()
        return reaction

    # Heartbeats.

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._beat_wait_ms() / 1000)
            if self._member.generation == NO_GENERATION or self._is_joining:
                continue
            if self._is_late():
                await self._leave_late()
            elif self._engine.now_ms() - self._heard_at_ms >= self._config.heartbeat_interval_ms:
                await self._send_heartbeat()

    def _beat_wait_ms(self) -> int:
        interval_ms = self._config.heartbeat_interval_ms
        if self._member.generation == NO_GENERATION or self._is_joining:
            return min(interval_ms, self._config.retry_backoff_max_ms)
        due_ms = self._heard_at_ms + interval_ms - self._engine.now_ms()
        return min(max(due_ms, 1), interval_ms)

    async def _send_heartbeat(self) -> None:
        asked = self._member.identity
        try:
            answer = await self._engine.ask(
                self._member.heartbeat(),
                HeartbeatResponse,
                to=self._to,
                timeout_ms=self._config.session_timeout_ms,
            )
            raise_for_code(answer.error_code, f"heartbeat to {self._to}")
        except OttlaError as error:
            self._engine.check_open()
            if self._member.identity != asked or self._is_joining:
                return  # it speaks of a generation that is over
            self._engine.hear(error, self._to)
            if isinstance(error, BrokerError) and self._react(error) is Reaction.REJOIN:
                self._heard_at_ms = self._engine.now_ms()
            else:
                await self._back_off(1)
        else:
            self._heard_at_ms = self._engine.now_ms()
            self._engine.metrics.count("heartbeat-total")

    async def _leave_late(self) -> None:
        late = self._complain_about_polls()
        is_static = self._config.group_instance_id is not None
        self._is_lost, self._rejoin_reason = True, "polls again"
        self._give_up_turn(late)
        request = self._member.leave("no poll for max.poll.interval.ms")
        self._member.left()
        if not is_static:
            await self._say_goodbye(request, LeaveGroupResponse, self._to)
