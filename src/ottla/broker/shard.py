"""The shell around one coordinator machine: the only code that waits on its behalf.

A shard owns one partition of an internal topic and the machine whose records are in it.  It asks
one question at a time and performs what the machine decides: records are appended and applied at
once, alarms set, and answers leave when everything appended before them is durable.

At the start, and until its partition is read to the end, a shard answers
COORDINATOR_LOAD_IN_PROGRESS.  A shard that cannot write its log breaks: its machine has decided and
cannot go back, so it is given up, and another one is loaded from what the log holds.

A batch is no larger than `max.message.bytes` of the topic.  What the machine wants to write at once
and cannot be parted is then not written at all: nothing of it is applied, and whoever would have
been told of it is told UNKNOWN_SERVER_ERROR, as in Kafka.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from ottla.broker.cold_reads import without_blocking
from ottla.broker.flusher import AfterSync, Flusher
from ottla.broker.partition import Partition
from ottla.coordinator.effects import (
    Alarm,
    AlarmName,
    Answer,
    Effect,
    Persist,
    StoredRecord,
    Ticket,
    WriteMarkers,
)
from ottla.errors import ErrorCode, StorageError
from ottla.log.segment import LogRead
from ottla.ports import Clock, Disk
from ottla.records.batch import NO_PRODUCER_ID, Batch, batches
from ottla.records.builder import BatchOptions, build
from ottla.records.control import read_marker

log = logging.getLogger(__name__)

_PLAIN: Final = BatchOptions()

_LOAD_BYTES: Final = 1024 * 1024
"""How much is read between two turns of the loop while a shard loads."""

CLOCK_SET_MS: Final = 1_000
"""By how much the clock must differ from the time that has passed to have been set."""


class UnansweredError(StorageError):
    """A question that the machine cannot answer, and what the client is told instead."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Machine(Protocol):
    """What a shard needs of a coordinator."""

    def apply(self, record: StoredRecord, producer_id: int = NO_PRODUCER_ID) -> None: ...

    def apply_marker(self, producer_id: int, *, committed: bool) -> None: ...

    def on_loaded(self, now_ms: int) -> list[Effect]: ...

    def on_alarm(self, name: AlarmName, now_ms: int) -> list[Effect]: ...

    def on_clock_set(self, by_ms: int) -> None:
        """The clock was set forward, or back: what was to last for some time still does."""
        ...


R = TypeVar("R")
Reply: TypeAlias = R | AfterSync[R] | Awaitable[R]
"""What a handler may return: a response, one that is held back until a sync, or the promise of one.
"""

Decision = Callable[[Ticket, int], list[Effect]]
"""A method of the machine with its request filled in: takes ticket and time, gives effects."""


class Shard:
    """One machine, its log, its alarms, and those who wait for it."""

    def __init__(
        self,
        machine: Machine,
        partition: Partition,
        clock: Clock,
        disk: Disk,
        flusher: Flusher | None,
    ) -> None:
        self._machine = machine
        self.partition = partition
        self._clock = clock
        self._disk = disk
        self._flusher = flusher
        self._alarms: dict[AlarmName, asyncio.TimerHandle] = {}
        self._waiting: dict[Ticket, asyncio.Future[Any]] = {}
        self._tickets = count(1)
        self._asking: Ticket = 0
        """Who asks just now and can be told at once; 0 if nobody does."""
        self._told_at_once: Any = None
        self._loop = asyncio.get_running_loop()
        self._lead_ms = self._clock_lead_ms(clock.now_ms())
        self.is_loaded = False
        self.is_broken = False
        self.when_broken: Callable[[], None] = lambda: None
        """Called when the shard is given up: somebody has to load another one."""

    async def load(self) -> None:
        """Feed the machine everything that its partition holds, unless that is given up."""
        offset = self.partition.log.start_offset
        while offset < self.partition.next_offset and not self.is_broken:
            found = await without_blocking(self._disk, partial(self._read, offset))
            for batch in batches(found.data, partial_tail=False):
                self._replay(batch)
            offset = max(found.next_offset, offset + 1)
            await asyncio.sleep(0)
        if not self.is_broken:
            self.is_loaded = True
            self._perform(self._machine.on_loaded(self._now_ms()))

    def _read(self, offset: int) -> LogRead:
        if self.is_broken:
            return LogRead(b"", offset)  # the log may be closed
        found = self.partition.log.read(offset, _LOAD_BYTES)
        assert isinstance(found, LogRead), found
        return found

    def ask(self, decide: Decision) -> "asyncio.Future[Any]":
        """Let the machine decide; the future of its answer to us."""
        ticket = next(self._tickets)
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting[ticket] = answer
        self._perform(decide(ticket, self._now_ms()))
        return answer

    def ask_at_once(self, decide: Decision, refuse: Callable[[ErrorCode], R]) -> Reply[R]:
        """As `ask`, without a future where the machine answers at once, as it mostly does.

        Gives what a handler may return.  `refuse` makes the response if there is no answer.
        """
        ticket = self._asking = next(self._tickets)
        self._perform(decide(ticket, self._now_ms()))
        answer, self._told_at_once = self._told_at_once, None
        if self._asking:
            self._asking = 0
            if self.is_broken:
                return refuse(ErrorCode.NOT_COORDINATOR)
            waiting = self._waiting[ticket] = self._loop.create_future()
            return _answered(waiting, refuse)
        if isinstance(answer, UnansweredError):
            return refuse(answer.code)
        response: R = answer
        if self._flusher is None or self._flusher.is_at_rest:
            return response
        return self._flusher.after_sync(response, lambda _: refuse(ErrorCode.NOT_COORDINATOR))

    def tell(self, effects: list[Effect]) -> None:
        """Perform what the machine decided without being asked by a client."""
        self._perform(effects)

    def close(self) -> None:
        """Ring no more, decide no more; who waits is let go."""
        self.is_loaded = False
        for timer in self._alarms.values():
            timer.cancel()
        self._alarms.clear()
        for answer in self._waiting.values():
            answer.cancel()
        self._waiting.clear()

    def give_up(self, error: StorageError) -> None:
        """Better no coordinator than a wrong one: decide nothing more, and let everybody know."""
        log.error("coordinator given up: topic=%s %s", self.partition.topic, error)
        self.is_loaded, self.is_broken = False, True
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(UnansweredError(ErrorCode.NOT_COORDINATOR, str(error)))
        self.close()
        self.when_broken()

    def _replay(self, batch: Batch) -> None:
        if batch.is_control:
            marker = read_marker(batch)
            if marker is not None:
                self._machine.apply_marker(marker.producer_id, committed=marker.is_commit)
            return
        producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
        for _offset, _timestamp_ms, key, value, _headers in batch.records():
            if key is not None:
                self._machine.apply(StoredRecord(key, value), producer_id)

    def _perform(self, effects: list[Effect]) -> None:
        refusal: UnansweredError | None = None
        try:
            for effect in effects:
                match effect:
                    case Alarm(name, at_ms):
                        if refusal is None or at_ms is not None:
                            self._set_alarm(name, at_ms)
                    case Answer(ticket, _) if refusal is not None:
                        self._refuse(ticket, refusal)
                    case _ if refusal is not None:
                        pass  # it would build on what was not written
                    case Persist():
                        refusal = self._persist(effect)
                    case Answer(ticket, response):
                        self._answer(ticket, response)
                    case WriteMarkers():
                        self._write_markers(effect)
        except StorageError as error:
            self.give_up(error)

    def _refuse(self, ticket: Ticket, refusal: UnansweredError) -> None:
        if ticket == self._asking:
            self._asking, self._told_at_once = 0, refusal
            return
        waiting = self._waiting.pop(ticket, None)
        if waiting is not None and not waiting.done():
            waiting.set_exception(refusal)

    def _write_markers(self, order: WriteMarkers) -> None:
        raise AssertionError(f"{self._machine} ends no transactions")

    def _persist(self, what: Persist) -> UnansweredError | None:
        """Append and apply; where it is too large, do neither, and say so."""
        now_ms = self._clock.now_ms()
        records = [(now_ms, record.key, record.value, ()) for record in what.records]
        batch = Batch.parse(build(records, _options(what)))
        limit_bytes = self.partition.config.max_message_bytes
        if batch.size_bytes > limit_bytes:
            reason = f"a batch of {batch.size_bytes} bytes, max.message.bytes = {limit_bytes}"
            log.error("coordinator refuses: topic=%s %s", self.partition.topic, reason)
            return UnansweredError(ErrorCode.UNKNOWN_SERVER_ERROR, reason)
        appended = self.partition.append_own(batch, now_ms=now_ms, can_wait=what.can_wait)
        if appended.error is not ErrorCode.NONE:
            raise StorageError(f"a coordinator cannot write its log: {appended.message}")
        for record in what.records:
            self._machine.apply(record, what.producer_id)
        return None

    async def _durable(self) -> None:
        """Wait until everything that was appended so far, by anyone, is durable."""
        if self._flusher is not None:
            await self._flusher.flush()

    def _answer(self, ticket: Ticket, response: Any) -> None:
        if ticket == self._asking:
            self._asking, self._told_at_once = 0, response
            return
        waiting = self._waiting.pop(ticket, None)
        if waiting is None or waiting.done():
            return  # the client is gone
        if self._flusher is None:
            waiting.set_result(response)
            return
        durable = self._flusher.when_durable(response)
        if durable.done() and durable.exception() is None:
            waiting.set_result(response)
            return

        def settle(durable: "asyncio.Future[Any]") -> None:
            if waiting.done() or durable.cancelled():
                return
            if (error := durable.exception()) is not None:
                waiting.set_exception(UnansweredError(ErrorCode.NOT_COORDINATOR, str(error)))
            else:
                waiting.set_result(durable.result())

        durable.add_done_callback(settle)

    def _set_alarm(self, name: AlarmName, at_ms: int | None) -> None:
        if (timer := self._alarms.pop(name, None)) is not None:
            timer.cancel()
        if at_ms is not None:
            wait_ms = max(0, at_ms - self._clock.now_ms())
            self._alarms[name] = self._loop.call_later(wait_ms / 1000, self._ring, name)

    def _ring(self, name: AlarmName) -> None:
        self._alarms.pop(name, None)
        self._perform(self._machine.on_alarm(name, self._now_ms()))

    def _now_ms(self) -> int:
        """The time, for the machine, which hears first if the clock was set since it last asked.

        What it writes down is by the clock, which has to be right across restarts; what it waits
        for is time that passes.
        """
        now_ms = self._clock.now_ms()
        by_ms = self._clock_lead_ms(now_ms) - self._lead_ms
        if abs(by_ms) >= CLOCK_SET_MS:
            self._lead_ms += by_ms
            log.info("clock set: topic=%s by_ms=%d", self.partition.topic, by_ms)
            self._machine.on_clock_set(by_ms)
        return now_ms

    def _clock_lead_ms(self, now_ms: int) -> int:
        """How far the clock is ahead of the time of the loop, which nobody sets."""
        return now_ms - int(self._loop.time() * 1000)


def _options(what: Persist) -> BatchOptions:
    if what.producer_id == NO_PRODUCER_ID:
        return _PLAIN
    return BatchOptions(
        producer_id=what.producer_id, producer_epoch=what.producer_epoch, is_transactional=True
    )


async def _answered(waiting: "asyncio.Future[R]", refuse: Callable[[ErrorCode], R]) -> R:
    try:
        return await waiting
    except UnansweredError as error:
        return refuse(error.code)
