"""One end of a simulated connection.

Bytes that are written wait in the transport while the window is full, then travel in segments of
random length, and arrive in order; the window opens as the other end's protocol takes them in.  So
a protocol that stops reading makes the other one pause, as over TCP.

Nothing here relies on the order of callbacks: there is one timer for the segments on their way and
one callback for those that arrived, each set again when it has run.
"""

import asyncio
import contextvars
import random
from collections import deque
from typing import Any, Final, Protocol

from ottla.testing.process import Process

WINDOW_BYTES: Final = 64 * 1024
"""What may be on its way, or wait at the receiver, before a sender's own buffer fills."""
HIGH_WATER_BYTES: Final = 64 * 1024
"""asyncio's default: beyond it a transport pauses the protocol that writes."""
_WHOLE_CHANCE: Final = 0.7

_END: Final = b""
"""The segment that says that no more will come."""


class Wire(Protocol):
    """What a transport asks of the network between it and its peer."""

    rng: random.Random
    context: contextvars.Context
    """The network's own: what is on its way arrives even if its sender dies."""
    retransmit_ms: float
    give_up_ms: float

    def arrival_s(self, source: Process, target: Process) -> float:
        """When a segment that is sent now will arrive, at the soonest."""
        ...

    def is_blocked(self, source: Process, target: Process) -> bool: ...

    def delivered(self, source: Process, target: Process, size_bytes: int) -> None: ...

    def reset_soon(self, transport: "SimTransport") -> None: ...


class SimTransport(asyncio.Transport):
    """See `asyncio.Transport`; `process` is whose end this is."""

    def __init__(
        self,
        wire: Wire,
        loop: asyncio.AbstractEventLoop,
        process: Process,
        context: contextvars.Context,
        extra: dict[str, Any],
    ) -> None:
        super().__init__(extra)
        self.process = process
        self._wire = wire
        self._loop = loop
        self.context = context
        self.peer = self
        """The other end; the network sets it."""
        self._protocol: asyncio.BaseProtocol = asyncio.BaseProtocol()
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._window_bytes = WINDOW_BYTES
        self._under_way: deque[tuple[float, bytes]] = deque()
        self._has_timer = False
        self._blocked_since_s: float | None = None
        self._inbox: deque[bytes] = deque()
        self._has_feed = False
        self._is_made = False
        self._is_reading = True
        self._is_write_paused = False
        self._is_ending = False
        self._is_ended = False
        self._is_closing = False
        self._is_lost = False
        self._is_loss_untold = False
        self._loss: OSError | None = None
        self._low_bytes, self._high_bytes = HIGH_WATER_BYTES // 4, HIGH_WATER_BYTES

    def make(self, protocol: asyncio.BaseProtocol) -> None:
        """Begin: called in the context of the process, once `peer` is set."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._is_made = True
        self._tell_loss()
        self._pump()

    # What protocols call.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data is {type(data).__name__}, not bytes-like")
        if self._is_ending and not self._is_closing:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self.is_closing() or not len(data):
            return
        self._unsent.append(memoryview(bytes(data)))
        self._unsent_bytes += len(self._unsent[-1])
        self._send()
        if self._unsent_bytes > self._high_bytes and not self._is_write_paused:
            self._is_write_paused = True
            self._protocol.pause_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self.is_closing():
            self._is_ending = True
            self._send()

    def close(self) -> None:
        """Send what is buffered, then end; from now on nothing is received."""
        if not self.is_closing():
            self._is_closing = self._is_ending = True
            # Nobody will read it, but it must not keep the other end from reading and ending.
            self._release(sum(map(len, self._inbox)))
            self._inbox.clear()
            self._send()

    def abort(self) -> None:
        if not self._is_lost and self.process.is_alive:
            self._wire.reset_soon(self.peer)
            self.lose(None)

    def is_closing(self) -> bool:
        return self._is_closing or self._is_lost or not self.process.is_alive

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._pump()

    def is_reading(self) -> bool:
        return self._is_reading and not self.is_closing()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._low_bytes, self._high_bytes = low, high
        self._resume_writing()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    # What the network and the other end call.

    @property
    def is_lost(self) -> bool:
        """No more will be sent or received here."""
        return self._is_lost

    def lose(self, error: OSError | None) -> None:
        """Drop everything, and tell the protocol that the connection is lost."""
        if not self._is_lost:
            self._unsent.clear()
            self._unsent_bytes = 0
            self._under_way.clear()
            self._finish(error)

    def end_process(self, *, is_silent: bool) -> None:
        """The process is gone, and cannot be told.  The machine says so, if it still can."""
        self._unsent.clear()
        self._inbox.clear()
        self._is_lost = True
        if not is_silent and not self._is_ended:
            self._dispatch(_END)

    def _send(self) -> None:
        """Put on the wire what the window allows."""
        while self._unsent:
            data = self._unsent[0]
            # A small opening of the window is not worth a segment.
            if self._window_bytes < min(len(data), WINDOW_BYTES // 4):
                break
            size_bytes = min(len(data), self._window_bytes)
            if self._wire.rng.random() > _WHOLE_CHANCE:
                size_bytes = self._wire.rng.randint(1, size_bytes)
            if size_bytes == len(data):
                self._unsent.popleft()
            else:
                self._unsent[0] = data[size_bytes:]
            self._unsent_bytes -= size_bytes
            self._window_bytes -= size_bytes
            self._dispatch(bytes(data[:size_bytes]))
        if self._is_ending and not self._unsent:
            if not self._is_ended:
                self._is_ended = True
                self._dispatch(_END)
            if self._is_closing and not self._is_lost:
                self._finish(None)

    def _dispatch(self, segment: bytes) -> None:
        arrival_s = self._wire.arrival_s(self.process, self.peer.process)
        if self._under_way:
            arrival_s = max(arrival_s, self._under_way[-1][0])
        self._under_way.append((arrival_s, segment))
        self._set_timer(self._under_way[0][0])

    def _set_timer(self, when_s: float) -> None:
        if not self._has_timer:
            self._has_timer = True
            self._loop.call_at(when_s, self._arrive, context=self._wire.context)

    def _arrive(self) -> None:
        """The first segment on its way is there, unless something is in between."""
        self._has_timer = False
        if not self._under_way:
            return
        now_s = self._loop.time()
        if self._wire.is_blocked(self.process, self.peer.process):
            self._retransmit(now_s)
            return
        self._blocked_since_s = None
        _, segment = self._under_way.popleft()
        if not self.peer.is_lost:
            self._wire.delivered(self.process, self.peer.process, len(segment))
            self.peer._receive(segment)
        elif segment and not self._is_lost:
            # Nobody is there any more: the answer to data is a reset.
            self._wire.reset_soon(self)
        if self._under_way:
            self._set_timer(max(now_s, self._under_way[0][0]))

    def _retransmit(self, now_s: float) -> None:
        if self._blocked_since_s is None:
            self._blocked_since_s = now_s
        if now_s - self._blocked_since_s >= self._wire.give_up_ms / 1000:
            self.lose(TimeoutError("the other end did not acknowledge for too long"))
        else:
            self._set_timer(now_s + self._wire.retransmit_ms / 1000)

    def _receive(self, segment: bytes) -> None:
        if self._is_closing:
            # Still sending, but deaf.
            self._release(len(segment))
        else:
            self._inbox.append(segment)
            self._pump()

    def _pump(self) -> None:
        if self._may_feed() and not self._has_feed:
            self._has_feed = True
            self._loop.call_soon(self._feed, context=self.context)

    def _may_feed(self) -> bool:
        return bool(self._inbox) and self._is_made and self.is_reading()

    def _feed(self) -> None:
        self._has_feed = False
        if not self._may_feed():
            return
        is_well = False
        try:
            self._hand_over(self._inbox.popleft())
            is_well = True
        finally:
            # A protocol that raises loses its connection; the loop gets the exception.
            if not is_well:
                self.abort()
        self._pump()

    def _hand_over(self, segment: bytes) -> None:
        protocol = self._protocol
        if not segment:
            assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
            if not protocol.eof_received():
                self.close()
        elif isinstance(protocol, asyncio.BufferedProtocol):
            buffer = memoryview(protocol.get_buffer(len(segment)))
            count = min(len(buffer), len(segment))
            if not count:
                raise RuntimeError("get_buffer() returned an empty buffer")
            buffer[:count] = segment[:count]
            if segment[count:]:
                self._inbox.appendleft(segment[count:])
            self._release(count)
            protocol.buffer_updated(count)
        else:
            assert isinstance(protocol, asyncio.Protocol)
            self._release(len(segment))
            protocol.data_received(segment)

    def _release(self, size_bytes: int) -> None:
        """Open the other end's window again."""
        peer = self.peer
        self._loop.call_soon(peer._widen, size_bytes, context=peer.context)

    def _widen(self, size_bytes: int) -> None:
        self._window_bytes += size_bytes
        if not self._is_lost:
            self._send()
            self._resume_writing()

    def _resume_writing(self) -> None:
        if self._is_write_paused and self._unsent_bytes <= self._low_bytes:
            self._is_write_paused = False
            self._protocol.resume_writing()

    def _finish(self, error: OSError | None) -> None:
        self._is_lost = self._is_loss_untold = True
        self._loss = error
        self._inbox.clear()
        self._loop.call_soon(self._tell_loss, context=self.context)

    def _tell_loss(self) -> None:
        # A connection may be lost before it is made, but the protocol hears it in this order.
        if self._is_loss_untold and self._is_made:
            self._is_loss_untold = False
            self._protocol.connection_lost(self._loss)
