"""The responses of one connection, in the order of their requests.

Every request has its place here from the moment it was handled.  What is at the head and may leave
is written together: a write costs more than many a response.  Nothing here waits: whoever fills a
place, or learns that a sync is over, asks for the next `write_to`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Final

from ottla.broker.flusher import AfterSync, Sync
from ottla.wire.header import RequestHeader, encode_framed_response

Part = bytes | bytearray | memoryview

COALESCED_BYTES: Final = 64 * 1024
"""Parts below this size are joined before they are written; larger ones are written as they are.
Answers do not wait for company once so many bytes of them are there."""


Outcome = Any
"""A response, or the exception that came instead."""


class Pending(ABC):
    """A response that will be told by a call, as soon as it is known.

    A future tells in the next turn of the loop, and what it sets off is written in the one after
    that.  Who waits for records to come would wait for both.  Everybody else awaits it.
    """

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, Any]:
        told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.when_known(partial(_pass_on, told))
        try:
            return (yield from told)
        finally:
            self.cancel()  # who gives up, gives up for all

    @abstractmethod
    def when_known(self, tell: Callable[[Outcome], None]) -> None:
        """Call `tell` with the response, from wherever it becomes known, and never now."""

    @abstractmethod
    def cancel(self) -> None:
        """Tell nobody any more."""


def _pass_on(told: "asyncio.Future[Any]", outcome: Outcome) -> None:
    if told.done():
        return
    if isinstance(outcome, Exception):
        told.set_exception(outcome)
    else:
        told.set_result(outcome)


class Promised(Pending):
    """What a future or a coroutine gives; a canceled one gives nothing."""

    __slots__ = ("_future",)

    def __init__(self, promise: Awaitable[Any]) -> None:
        self._future = asyncio.ensure_future(promise)

    def when_known(self, tell: Callable[[Outcome], None]) -> None:
        def done(future: "asyncio.Future[Any]") -> None:
            if not future.cancelled():
                tell(future.exception() or future.result())

        self._future.add_done_callback(done)

    def cancel(self) -> None:
        self._future.cancel()


class Slot:
    """The place of one response, or of several in a row that leave together."""

    __slots__ = ("count", "held", "parts", "size_bytes", "sync")

    def __init__(self, sync: Sync | None = None) -> None:
        self.count = 0
        self.sync = sync
        """What the responses wait for, although they are known."""
        self.held: list[tuple[RequestHeader, AfterSync[Any]]] = []
        """Those that wait for it: if it fails, they become other ones."""
        self.parts: list[Part] = []
        """Frames with their sizes; none as long as nothing is there to be sent."""
        self.size_bytes = 0

    def take_over(self, other: "Slot") -> None:
        """Take the frames of the slot behind this one."""
        self.parts += other.parts
        self.count += other.count
        self.size_bytes += other.size_bytes


class Answers:
    """Responses on their way to one client."""

    __slots__ = ("_ready", "_slots", "count", "size_bytes")

    def __init__(self) -> None:
        self._ready = Slot()
        """What waits for nothing: most responses are never anywhere else."""
        self._slots: deque[Slot] = deque()
        """From the first one on that does."""
        self.count = 0
        """Of all that are owed to the client and were not written yet."""
        self.size_bytes = 0
        """What those weigh that are there to be sent."""

    def reserve(self) -> Slot:
        """A place for the next response, to be filled when it is known."""
        return self._place(Slot())

    def add(self, header: RequestHeader, response: Any) -> None:
        """The next response."""
        slots = self._slots
        if not slots:
            slot = self._ready
        elif slots[-1].parts:
            slot = slots[-1]
        else:
            self.fill(self._place(Slot()), header, response)
            return
        slot.count += 1
        self.count += 1
        self.fill(slot, header, response)

    def add_after(self, header: RequestHeader, result: AfterSync[Any]) -> None:
        """The next response, to be kept back until `settle` is told of its sync."""
        slot = self._slots[-1] if self._slots else None
        if slot is None or slot.sync is not result.sync:
            slot = self._place(Slot(result.sync))
        else:
            slot.count += 1
            self.count += 1
        slot.held.append((header, result))

    def _place(self, slot: Slot) -> Slot:
        self._slots.append(slot)
        slot.count = 1
        self.count += 1
        return slot

    def fill(self, slot: Slot, header: RequestHeader, response: Any) -> None:
        """Put a response where it belongs."""
        parts, frame_bytes = encode_framed_response(
            response, header.request_api_version, header.correlation_id
        )
        slot.parts += parts
        slot.size_bytes += frame_bytes
        self.size_bytes += frame_bytes

    def settle(self, sync: Sync) -> None:
        """`sync` is over, well or not: what waited for it may leave, as it is or as it became."""
        for slot in self._slots:
            if slot.sync is sync:
                slot.sync = None
                for header, result in slot.held:
                    self.fill(slot, header, result.outcome)
                slot.held.clear()

    def write_to(self, transport: asyncio.Transport) -> None:
        """Write the responses at the head that are there to be sent."""
        ready, slots = self._ready, self._slots
        while slots and slots[0].parts:
            ready.take_over(slots.popleft())
        parts, size_bytes = ready.parts, ready.size_bytes
        if not parts:
            return
        self.count -= ready.count
        self.size_bytes -= size_bytes
        ready.parts, ready.count, ready.size_bytes = [], 0, 0
        if size_bytes >= COALESCED_BYTES:
            parts = _write_large(transport, parts)
        if parts:
            transport.write(b"".join(parts))

    def clear(self) -> None:
        """Forget them all: nobody is there to read them."""
        self._ready = Slot()
        self._slots.clear()
        self.count = self.size_bytes = 0


def _write_large(transport: asyncio.Transport, parts: list[Part]) -> list[Part]:
    """Write `parts` up to the last large one; return what is left to write."""
    small: list[Part] = []
    for part in parts:
        if len(part) < COALESCED_BYTES:
            small.append(part)
            continue
        transport.write(b"".join(small))
        # As a view: of what the socket does not take at once, Python 3.11 makes a slice, and then a
        # copy to send from.  The slice of a view is free.
        transport.write(memoryview(part))
        small = []
    return small
