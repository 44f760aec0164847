"""The half of a consumer that lives in its caller's thread, or in his event loop.

Written once for both, in terms of a `Caller`.  Here records are handed out (`Taking` gets them),
turns of a rebalance are taken (`Turns`), and positions are moved.

One caller at a time: a second one that comes while the first is inside gets `MisuseError`.  Only
`stop` may be called from anywhere.
"""

import os
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from ottla.client.consumer.callers import Caller
from ottla.client.consumer.core import Core
from ottla.client.consumer.gate import Gate
from ottla.client.consumer.partition import Need
from ottla.client.consumer.plugs import RebalanceListener
from ottla.client.consumer.progress import Cursor, Progress
from ottla.client.consumer.shelf import rewound
from ottla.client.consumer.subscription import Subscription
from ottla.client.consumer.taking import Held, Taking, nothing
from ottla.client.consumer.turns import Turns
from ottla.client.records import (
    Batch,
    OffsetAndMetadata,
    Offsets,
    Serdes,
    Source,
    as_partitions,
    offsets_of,
)
from ottla.errors import DeadlineError, MisuseError, OttlaError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Place = int | datetime | timedelta | Literal["beginning", "end", "committed"]

ARROW_RECORDS: Final = 100_000
"""How many records an Arrow poll returns, if nobody says otherwise."""
_WAKE_INTERVAL_MS: Final = 1_000
_MAX_WAIT_S: Final = 3_600.0
_ALIVE: Final["weakref.WeakSet[Reading]"] = weakref.WeakSet()


class Reading:
    """What `Consumer` and `AsyncConsumer` are thin faces of."""

    def __init__(
        self, core: Core, caller: Caller, progress: Progress, serdes: Serdes, source: Source
    ) -> None:
        self.core = core
        self.caller = caller
        self.progress = progress
        self.turns = Turns(core, caller, progress, source)
        self._taking = Taking(core, caller, self.turns, lambda: self.is_stopped)
        self._serdes = serdes
        self._source = source
        self._shelf = core.shelf
        self._gate = Gate(caller.who)
        self._woke_at_ms = 0
        self._wake: Callable[[], None] = nothing
        self.is_stopped = False
        _ALIVE.add(self)

    def bind(
        self,
        *,
        wake: Callable[[], None],
        refill: Callable[[], None],
        check_home: Callable[[], None],
    ) -> None:
        """`wake` has the I/O thread look at what changed, `refill` only at what has room.

        `check_home` raises in a forked process, which has no such thread.
        """
        self._wake = self.turns.wake = self._taking.wake = wake
        self._taking.refill = refill
        self._gate.check_home = check_home

    # Reading.

    async def poll(self, timeout_s: float, max_records: int | None) -> Batch[Any, Any]:
        """Records, as soon as there are some; an empty batch if there are none in time."""
        limit = _limit(max_records, self.core.config.max_poll_records)
        held: Held = {}
        try:
            with self.entered():
                await self._begin()
                batch = await self._next_batch(self._deadline(timeout_s), limit, held)
        except BaseException:
            self._taking.give_back(held)
            raise
        return Batch() if batch is None else batch

    async def poll_arrow(
        self, timeout_s: float, max_records: int | None, schema: "pa.Schema | None"
    ) -> "pa.RecordBatch | None":
        """As `poll`, as Arrow; None if there are no records in time."""
        limit = _limit(max_records, ARROW_RECORDS)
        held: Held = {}
        try:
            with self.entered():
                await self._begin()
                return await self._taking.rows(self._deadline(timeout_s), limit, held, schema)
        except BaseException:
            self._taking.give_back(held)
            raise

    async def next_cursor(self) -> Cursor | None:
        """What a loop over records goes on with; None when the consumer was stopped."""
        cursor = self.progress.cursor
        if cursor is not None and not (cursor.is_over or self.is_stopped):
            return cursor
        held: Held = {}
        try:
            with self.entered():
                await self._begin()
                limit = self.core.config.max_poll_records
                while not self.is_stopped:
                    batch = await self._next_batch(self._deadline(_MAX_WAIT_S), limit, held)
                    if batch is not None:
                        self.progress.cursor = cursor = Cursor(batch)
                        held.clear()  # from now on the cursor has it, whatever becomes of this call
                        return cursor
        except BaseException:
            self._taking.give_back(held)
            raise
        return None

    def stop(self) -> None:
        """End all loops, now and for good; from any thread, and from signal handlers."""
        self.is_stopped = True
        self.caller.ring()

    async def _begin(self) -> None:
        if not self.core.is_started:
            await self.caller.run(self.core.start())
        if self.progress.cursor is not None and not self.progress.cursor.is_over:
            self.put_back(lambda tp: True)
        self.progress.asked_for_more()
        self._be_seen()

    def _be_seen(self) -> None:
        presence, now_ms = self.core.presence, self.core.engine.now_ms()
        is_first, presence.polled_at_ms = presence.polled_at_ms is None, now_ms
        if is_first or now_ms - self._woke_at_ms >= _WAKE_INTERVAL_MS:
            self._woke_at_ms = now_ms
            self._wake()

    async def _next_batch(
        self, deadline_s: float, limit: int, held: Held
    ) -> Batch[Any, Any] | None:
        return await self._taking.batch(
            deadline_s, limit, held, serdes=self._serdes, source=self._source
        )

    def _deadline(self, timeout_s: float) -> float:
        return self.caller.time_s() + min(max(timeout_s, 0.0), _MAX_WAIT_S)

    def entered(self) -> AbstractContextManager[None]:
        """Nobody else is inside meanwhile; see `Gate`."""
        return self._gate

    # What to read.

    async def subscribe(
        self, subscription: Subscription, listener: RebalanceListener | None
    ) -> None:
        """Want topics; see `Consumer.subscribe`."""
        with self.entered():
            if self.turns.is_manual:
                raise MisuseError("partitions were chosen with assign(); unsubscribe() first")
            if listener is not None:
                self.turns.listener = listener
            self.put_back(lambda tp: True)
            await self.caller.run(self.core.subscribe(subscription))

    async def unsubscribe(self) -> None:
        """Read nothing any more."""
        with self.entered():
            self.put_back(lambda tp: True)
            await self.turns.give_up_all()
            await self.caller.run(self.core.unsubscribe("unsubscribed"))
            self.turns.is_manual = False

    async def assign(self, places: dict[TopicPartition, int | None]) -> None:
        """Read exactly these partitions, from an offset or from where the group left off."""
        with self.entered():
            stored = self.turns.stored_offsets(tp for tp, at in places.items() if at is None)
            self.put_back(lambda tp: True)
            if not self.turns.is_manual:
                await self.turns.give_up_all()
            self.turns.is_manual = True
            self._shelf.assign(places)
            self.progress.keep(self._shelf.assigned)
            with self._shelf.lock:
                for tp, offset in places.items():
                    if offset is not None:
                        self._shelf.require(tp).seek(offset)
            self.turns.begin_at(stored)
            await self.caller.run(self.core.unsubscribe("chose partitions itself", list(places)))

    # Where to read.

    def seek(self, places: dict[TopicPartition, Place]) -> None:
        """Go elsewhere; where that is may be found out later."""
        for tp, place in places.items():
            _check_place(place)
            self._shelf.require(tp)
        with self.entered():
            self.put_back(lambda tp: tp in places)
            with self._shelf.lock:
                for tp, place in places.items():
                    partition = self._shelf.require(tp)
                    if isinstance(place, int):
                        partition.seek(place)
                    elif place == "committed":
                        partition.ask(Need.COMMITTED)
                    else:
                        partition.ask(Need.RESET, place)
                    self.progress.moved(tp)
            self._wake()

    def rewind(self, batch: Batch[Any, Any]) -> None:
        """Go back to where a batch began, in partitions that are still ours."""
        assigned = self._shelf.assigned
        back = rewound(batch.spans)
        self.seek({tp: at.offset for tp, at in back.items() if tp in assigned})

    def pause(self, partitions: Iterable[TopicPartition], *, is_paused: bool) -> None:
        """Hand out nothing of these for a while, or again."""
        chosen = list(partitions)
        with self.entered():
            found = [self._shelf.require(tp) for tp in chosen]
            if is_paused:
                self.put_back(lambda tp: tp in chosen)
            with self._shelf.lock:
                for partition in found:
                    partition.is_paused = is_paused
            self._wake()

    async def position(self, tp: TopicPartition, timeout_s: float) -> int:
        """The offset of the next record that is handed out."""
        with self.entered():
            if not self.core.is_started:
                await self.caller.run(self.core.start())
            deadline_s = self._deadline(timeout_s)
            self._wake()
            while True:
                self.core.engine.check_open()
                partition = self._shelf.require(tp)
                cursor = self.progress.cursor
                if cursor is not None and (waiting := cursor.next_offset(tp)) is not None:
                    return waiting
                if partition.position is not None:
                    return partition.position
                if partition.trouble is not None and partition.trouble.error is not None:
                    raise partition.trouble.error
                if (left_s := deadline_s - self.caller.time_s()) <= 0:
                    raise DeadlineError(f"the position of {tp} is not known in {timeout_s:g} s")
                await self.caller.listen(left_s)

    def put_back(self, concerns: Callable[[TopicPartition], bool]) -> None:
        """Records that a loop has not come to yet: have them read again later."""
        cursor = self.progress.cursor
        if cursor is None:
            return
        for tp, offset in cursor.drop_rest(concerns).items():
            if (partition := self._shelf.find(tp)) is not None:
                with self._shelf.lock:
                    partition.seek(offset)
                self._wake()

    # Commits.

    async def commit(
        self, offsets: dict[TopicPartition, OffsetAndMetadata] | None, timeout_s: float | None
    ) -> None:
        """Commit what was handed out, or `offsets`, and wait for it."""
        with self.entered():
            chosen = self.progress.handed_out() if offsets is None else offsets
            timeout_ms = None if timeout_s is None else int(timeout_s * 1000)
            await self.caller.run(self.core.commit(chosen, timeout_ms))
            self.turns.tell_committed(chosen)

    # The end.

    async def last_words(self, *, is_clean: bool, timeout_s: float) -> OttlaError | None:
        """Commit what is processed, and give up the partitions; returns what went wrong.

        With `is_clean` what was handed out last is processed, too: the program went on without an
        error.
        """
        trouble: OttlaError | None = None
        with self.entered():
            self.progress.is_interrupted = not is_clean  # a listener may commit, too
            offsets = self.progress.handed_out()
            try:
                await self.turns.commit_for(self._shelf.assigned, offsets, timeout_s)
            except OttlaError as error:
                trouble = error
            await self.turns.give_up_all(commits=False)
        return trouble


def _limit(max_records: int | None, default: int) -> int:
    if max_records is not None and max_records < 1:
        raise ValueError(f"max_records = {max_records} must be at least 1")
    return default if max_records is None else max_records


def places_of(
    partitions: Collection[TopicPartition] | Offsets,
) -> dict[TopicPartition, int | None]:
    """Which partitions to read, and from where; None: from where the group left off."""
    if isinstance(partitions, Mapping):
        return {tp: at.offset for tp, at in offsets_of(partitions).items()}
    return dict.fromkeys(as_partitions(partitions))


def _check_place(place: object) -> None:
    if isinstance(place, datetime) and place.tzinfo is None:
        raise ValueError(f"{place!r} has no time zone")
    if isinstance(place, bool) or not isinstance(place, int | datetime | timedelta | str):
        raise TypeError(f"cannot seek to {place!r}")
    if isinstance(place, int) and place < 0:
        raise ValueError(f"offset {place} must not be negative")
    if isinstance(place, str) and place not in ("beginning", "end", "committed"):
        raise ValueError(f"{place!r} is not beginning, end or committed")


def _forget_cursors() -> None:
    """In a child process: what a loop has not come to yet is the parent's to read."""
    for reading in list(_ALIVE):
        reading._gate.was_forked = True
        if reading.progress.cursor is not None:
            reading.progress.cursor.drop_rest(lambda tp: True)


os.register_at_fork(after_in_child=_forget_cursors)
