"""Where callers put records into batches: under the lock, waiting for memory where there is none.

The I/O thread is woken when a batch begins, unless it looks by itself before that batch is due.  A
caller waits without the lock, and looks again when memory was freed; meanwhile nothing lingers.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from ottla.client.producer.batch import PendingBatch
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.lines import Line
from ottla.client.producer.pump import Pump, Stock
from ottla.client.producer.routes import Route
from ottla.errors import ClosedError, DeadlineError, MisuseError, OttlaError
from ottla.records.shapes import BATCH_HEADER_BYTES, Unwritten


class Intake:
    """Safe from any thread."""

    def __init__(
        self,
        config: ProducerConfig,
        stock: Stock,
        pump: Pump,
        *,
        now_ms: Callable[[], float],
        check_usable: Callable[[], None],
    ) -> None:
        """`now_ms` is the time of the I/O thread's loop."""
        self._config = config
        self._lock = stock.lock
        self._room = stock.room
        self._lines = stock.lines
        self._sender = stock.sender
        self._pump = pump
        self._now_ms = now_ms
        self._check_usable = check_usable
        self._is_closed = False

    def close(self) -> None:
        """Take nothing more in."""
        self._is_closed = True

    def deadline_s(self) -> float:
        """Until when a call that begins now may block, in the time of threads."""
        return time.monotonic() + self._config.max_block_ms / 1000

    def put(
        self,
        route: Route,
        record: Unwritten,
        size_bytes: int,
        partition: int | None,
        deadline_s: float | None = None,
    ) -> tuple[PendingBatch, int]:
        """Put a record into a batch: which, and where in it.  Waits for memory.

        `deadline_s` is that of a caller who has waited for something else before.

        Raises:
            RequestError: No request can be so large.
            DeadlineError: There was no memory for max.block.ms.
        """
        placed = self.try_put(route, record, size_bytes, partition)
        if placed is None:
            deadline_s = deadline_s or self.deadline_s()
            while placed is None:
                self._wait_for_room(size_bytes, deadline_s)
                placed = self.try_put(route, record, size_bytes, partition)
        return placed

    def try_put(
        self,
        route: Route,
        record: Unwritten,
        size_bytes: int,
        partition: int | None,
        *,
        is_awaited: bool = False,
    ) -> tuple[PendingBatch, int] | None:
        """As `put`, but None where that would wait; `is_awaited`: the batch shall not linger."""
        _, key, value, _ = record
        due_ms: float | None = None
        line: Line | None = None
        if partition is not None:
            line = route.line_at(partition)
        elif route.sticky is None:
            line = route.line_for(key, value, size_bytes)  # type: ignore[arg-type]
        lines = self._lines
        try:
            with self._lock:
                if not lines.has_room(size_bytes):
                    lines.check_size(size_bytes)
                    return None
                if line is None:
                    line = route.line_for(key, value, size_bytes)  # type: ignore[arg-type]
                index = lines.append(line, record, size_bytes)
                if index is None:
                    lines.check_size(size_bytes)
                    self._check_admitted()
                    begun = lines.begin(line, [record], size_bytes, self._now_ms())
                    due_ms = self._sender.due_of(line, begun.created_ms)
                    index = 0
                batch = line.open
                assert batch is not None
                if is_awaited and not batch.is_awaited:
                    batch.is_awaited = True
                    due_ms = 0
            if due_ms is not None:
                self._pump.expect(due_ms)
        except BaseException as error:
            self._wake_after(error)
            raise
        return batch, index

    def put_many(
        self, line: Line | None, route: Route, records: list[Unwritten], size_bytes: int
    ) -> None:
        """Put records into one batch together; waits for memory.  They fit, by their size."""
        deadline_s: float | None = None
        try:
            while True:
                with self._lock:
                    if self._lines.has_room(size_bytes):
                        self._put_together(line, route, records, size_bytes)
                        break
                deadline_s = deadline_s or self.deadline_s()
                self._wait_for_room(size_bytes, deadline_s)
            self._pump.wake()
        except BaseException as error:
            self._wake_after(error)
            raise

    def put_built(
        self, line: Line, data: bytearray, record_count: int, body_crc: int
    ) -> PendingBatch:
        """Put a batch that is built already at the end of a line; waits for memory.

        Raises:
            RequestError: It is one record, and no request can be so large.
            DeadlineError: There was no memory for max.block.ms.
        """
        deadline_s: float | None = None
        self._check_built(data, record_count)
        # What compression has added keeps no batch out of a buffer that is empty.
        size_bytes = min(len(data), self._config.buffer_memory) - BATCH_HEADER_BYTES
        try:
            while True:
                with self._lock:
                    if self._lines.has_room(size_bytes):
                        # Behind one that only waits for its turn, nobody need be woken.
                        is_news = not line.queue or line.open is not None
                        batch = self._append_built(line, data, record_count, body_crc)
                        break
                deadline_s = deadline_s or self.deadline_s()
                self._wait_for_room(size_bytes, deadline_s)
            if is_news:
                self._pump.wake()
        except BaseException as error:
            self._wake_after(error)
            raise
        return batch

    def add_built(
        self, line: Line, data: bytearray, record_count: int, body_crc: int
    ) -> PendingBatch:
        """As `put_built`, on the I/O thread, which has reserved the room, and sends it next."""
        self._check_built(data, record_count)
        with self._lock:
            return self._append_built(line, data, record_count, body_crc)

    def _check_built(self, data: bytearray, record_count: int) -> None:
        if record_count == 1:
            # Several fit, or are above the limit by what compression adds to what it cannot shrink.
            self._lines.check_size(len(data) - BATCH_HEADER_BYTES)

    def _append_built(
        self, line: Line, data: bytearray, record_count: int, body_crc: int
    ) -> PendingBatch:
        self._check_admitted()
        return self._lines.append_built(line, data, record_count, self._now_ms(), body_crc)

    async def room(self, size_bytes: int, deadline_s: float) -> None:
        """Wait until there may be room, in any loop; `deadline_s` is of its time."""
        loop = asyncio.get_running_loop()
        freed: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not freed.done():
                freed.set_result(None)

        def tell() -> None:
            with suppress(RuntimeError):  # the loop was closed, and nobody waits there
                loop.call_soon_threadsafe(wake)

        with self._lock:
            if self._lines.has_room(size_bytes):
                return  # it was freed meanwhile, and nobody will say so again
            self._pump.memory_waiters.append(tell)
            self._sender.hurry_count += 1
        try:
            self._pump.wake()
            async with asyncio.timeout_at(deadline_s):
                await freed
        except TimeoutError:
            raise self._no_room() from None
        finally:
            with self._lock:
                self._sender.hurry_count -= 1
                if tell in self._pump.memory_waiters:
                    self._pump.memory_waiters.remove(tell)
        self._check_usable()

    def _put_together(
        self, line: Line | None, route: Route, records: list[Unwritten], size_bytes: int
    ) -> None:
        if line is None:
            assert route.sticky is not None
            line = route.sticky.line_for(size_bytes)
        if not self._lines.extend(line, records, size_bytes):
            self._check_admitted()
            self._lines.begin(line, records, size_bytes, self._now_ms())

    def _wake_after(self, error: BaseException) -> None:
        """An interrupt may come when a batch has begun and the I/O thread was not told of it."""
        if not isinstance(error, OttlaError):
            self._pump.wake()

    def _check_admitted(self) -> None:
        """A batch begins: look once more whether it may, now that nobody can interfere."""
        if self._is_closed:
            raise ClosedError("the producer is closed")
        self._check_usable()

    def _wait_for_room(self, size_bytes: int, deadline_s: float) -> None:
        if self._pump.is_running_here:
            raise MisuseError("the buffer is full, and a callback on the I/O thread cannot wait")
        with self._room:
            if self._lines.has_room(size_bytes):
                return
            self._sender.hurry_count += 1
            try:
                self._pump.wake()
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or not self._room.wait(left_s):
                    raise self._no_room()
            finally:
                self._sender.hurry_count -= 1
        self._check_usable()

    def _no_room(self) -> DeadlineError:
        return DeadlineError(
            f"buffer.memory = {self._config.buffer_memory} was full for max.block.ms = "
            f"{self._config.max_block_ms}"
        )
