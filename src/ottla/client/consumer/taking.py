"""How a call comes to records: it waits for them, and takes them off the shelf.

What a call has taken is noted as `Held` until it returns: if an error or an interrupt ends it
before, it gives back what it held, and the next call finds it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.client.consumer.callers import Caller
from ottla.client.consumer.core import Core
from ottla.client.consumer.shelf import Taken, TakenBatches
from ottla.client.consumer.turns import Turns
from ottla.client.records import Batch, Serdes, Source, Span
from ottla.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Held = dict[TopicPartition, Span]
AnyTaken = TypeVar("AnyTaken", Taken, TakenBatches)

_CONSUMED: Final = "records-consumed-total"


def nothing() -> None:
    """There is no I/O thread yet that could be woken."""


class Taking:
    """Works in the caller's thread, or in his event loop, for one call at a time."""

    def __init__(
        self, core: Core, caller: Caller, turns: Turns, is_stopped: Callable[[], bool]
    ) -> None:
        self._core = core
        self._caller = caller
        self._turns = turns
        self._is_stopped = is_stopped
        self._shelf = core.shelf
        self.wake: Callable[[], None] = nothing
        """Has the I/O thread look at what changed."""
        self.refill: Callable[[], None] = nothing
        """Has it look only at what has room."""

    async def batch(
        self, deadline_s: float, limit: int, held: Held, *, serdes: Serdes, source: Source
    ) -> Batch[Any, Any] | None:
        """The next records; None when time is up, or the consumer stops."""
        taken = await self._next(self._shelf.take, deadline_s, limit, held)
        if taken is None:
            return None
        self._core.engine.metrics.count(_CONSUMED, len(taken.records))
        batch: Batch[Any, Any] = Batch(taken.records, taken.spans, serdes=serdes, source=source)
        return self._turns.intercepted(batch)

    async def rows(
        self, deadline_s: float, limit: int, held: Held, schema: "pa.Schema | None"
    ) -> "pa.RecordBatch | None":
        """As `batch`, as Arrow."""
        from ottla.client.consumer.arrow import arrow_batch

        taken = await self._next(self._shelf.take_batches, deadline_s, limit, held)
        if taken is None:
            return None
        rows = arrow_batch(taken, schema)
        self._core.engine.metrics.count(_CONSUMED, rows.num_rows)
        return self._turns.intercepted_arrow(rows)

    def give_back(self, held: Held) -> None:
        """An error, or an interrupt: what was taken from the shelf will not be seen."""
        if held:
            self._shelf.give_back(held)
            self.wake()

    async def _next(
        self, take: Callable[[int], AnyTaken], deadline_s: float, limit: int, held: Held
    ) -> AnyTaken | None:
        while await self._something(deadline_s):
            try:
                taken = take(limit)
                held.update(taken.spans)
                if self._shelf.has_room:
                    self._shelf.has_room = False
                    self.refill()
            except BaseException:
                self.wake()  # what stood in the way is gone, or was put back; or there is room
                raise
            if taken.spans:
                return taken
        return None

    async def _something(self, deadline_s: float) -> bool:
        """Wait for records, and take our turns meanwhile; False when time is up, or we stop."""
        core, presence = self._core, self._core.presence
        presence.is_polling = True
        try:
            while True:
                if core.mailbox.has_letters:
                    core.engine.check_open()
                    await self._turns.take_all()
                core.check()
                if self._is_stopped():
                    return False
                if self._shelf.has_something:
                    return True
                left_s = deadline_s - self._caller.time_s()
                if left_s <= 0:
                    return False
                await self._caller.listen(left_s)
        finally:
            try:
                presence.polled_at_ms = core.engine.now_ms()
            finally:  # an interrupt may strike in there
                presence.is_polling = False
