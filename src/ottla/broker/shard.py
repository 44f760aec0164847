"""The shell around one coordinator machine: the only code that waits on its behalf.

A shard owns one partition of an internal topic and the machine whose records are in it.  It asks
one question at a time and performs what the machine decides: records are appended and applied at
once, alarms set, and answers leave when everything appended before them is durable.

At the start, and until its partition is read to the end, a shard answers
COORDINATOR_LOAD_IN_PROGRESS.  A shard that cannot write its log breaks: its machine has decided and
cannot go back, so it is given up, and another one is loaded from what the log holds.
"""

import asyncio
import logging
from collections.abc import Callable
from itertools import count
from typing import Any, Final, Protocol

from ottla.broker.flusher import Flusher
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
from ottla.ports import Clock
from ottla.records.batch import NO_PRODUCER_ID, Batch, batches
from ottla.records.builder import build
from ottla.records.control import read_marker

log = logging.getLogger(__name__)

_LOAD_BYTES: Final = 1024 * 1024
"""How much is read between two turns of the loop while a shard loads."""


class Machine(Protocol):
    """What a shard needs of a coordinator."""

    def apply(self, record: StoredRecord, producer_id: int = NO_PRODUCER_ID) -> None: ...

    def apply_marker(self, producer_id: int, *, committed: bool) -> None: ...

    def on_loaded(self, now_ms: int) -> list[Effect]: ...

    def on_alarm(self, name: AlarmName, now_ms: int) -> list[Effect]: ...


Decision = Callable[[Ticket, int], list[Effect]]
"""A method of the machine with its request filled in: takes ticket and time, gives effects."""


class Shard:
    """One machine, its log, its alarms, and those who wait for it."""

    def __init__(
        self, machine: Machine, partition: Partition, clock: Clock, flusher: Flusher | None
    ) -> None:
        self._machine = machine
        self._partition = partition
        self._clock = clock
        self._flusher = flusher
        self._alarms: dict[AlarmName, asyncio.TimerHandle] = {}
        self._waiting: dict[Ticket, asyncio.Future[Any]] = {}
        self._tickets = count(1)
        self._loop = asyncio.get_running_loop()
        self.is_loaded = False
        self.is_broken = False

    async def load(self) -> None:
        """Feed the machine everything that its partition holds."""
        offset = self._partition.log.start_offset
        while offset < self._partition.next_offset:
            found = self._partition.log.read(offset, _LOAD_BYTES)
            assert isinstance(found, LogRead), found
            for batch in batches(found.data, partial_tail=False):
                self._replay(batch)
            offset = max(found.next_offset, offset + 1)
            await asyncio.sleep(0)
        self.is_loaded = True
        self._perform(self._machine.on_loaded(self._clock.now_ms()))

    def ask(self, decide: Decision) -> "asyncio.Future[Any]":
        """Let the machine decide; the future of its answer to us."""
        ticket = next(self._tickets)
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting[ticket] = answer
        self._perform(decide(ticket, self._clock.now_ms()))
        return answer

    def tell(self, effects: list[Effect]) -> None:
        """Perform what the machine decided without being asked by a client."""
        self._perform(effects)

    def close(self) -> None:
        """Ring no more; who waits is let go."""
        for timer in self._alarms.values():
            timer.cancel()
        self._alarms.clear()
        for answer in self._waiting.values():
            answer.cancel()
        self._waiting.clear()

    def give_up(self, error: StorageError) -> None:
        """Better no coordinator than a wrong one: decide nothing more, and let everybody know."""
        log.error("coordinator given up: topic=%s %s", self._partition.topic, error)
        self.is_loaded, self.is_broken = False, True
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(error)
        self.close()

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
        try:
            for effect in effects:
                match effect:
                    case Persist(records):
                        self._persist(records)
                    case Answer(ticket, response):
                        self._answer(ticket, response)
                    case Alarm(name, at_ms):
                        self._set_alarm(name, at_ms)
                    case WriteMarkers():
                        raise AssertionError("a group ends no transactions")
        except StorageError as error:
            self.give_up(error)

    def _persist(self, records: tuple[StoredRecord, ...]) -> None:
        now_ms = self._clock.now_ms()
        batch = Batch.parse(build([(now_ms, record.key, record.value, ()) for record in records]))
        appended = self._partition.append_own(batch, now_ms=now_ms)
        if appended.error is not ErrorCode.NONE:
            raise StorageError(f"a coordinator cannot write its log: {appended.message}")
        for record in records:
            self._machine.apply(record)

    def _answer(self, ticket: Ticket, response: Any) -> None:
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
                waiting.set_exception(error)
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
        self._perform(self._machine.on_alarm(name, self._clock.now_ms()))
