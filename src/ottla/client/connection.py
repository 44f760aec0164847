"""One connection to a broker: requests out, answers in, in the order in which they were asked.

A connection that broke, or whose peer is late or talks nonsense, is never used again: it is closed,
and everybody who waits for an answer gets the reason.  At most `max_in_flight` requests wait for
answers; `room` waits until there is room for one more, and whoever comes first goes first.

Records in an answer are views of its frame, which belongs to the answer alone.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from ottla.client.buffers import ViewedBuffers
from ottla.client.metrics import Metrics
from ottla.client.tls import refusal
from ottla.client.versions import BrokerVersions
from ottla.errors import OttlaError, TransportError, WireError
from ottla.values import dataclass
from ottla.wire.frame import FrameReader, Part
from ottla.wire.header import client_words, decode_response, encode_framed_request
from ottla.wire.registry import Api, api_for

_HIGH_WATER_BYTES: Final = 1024 * 1024
"""Beyond this, what was written waits in the process: the peer is slower than we are."""

_MAX_PARTS: Final = 1024
"""How many the system takes at once."""

_CORRELATION_MASK: Final = 0x7FFF_FFFF

After = Callable[[], None]
Then = Callable[[Any], After | None]
"""What is called with the body of an answer, or with the `OttlaError` that tells why none came.  If
it returns something, that is called when all answers that came together are told, and once if
several return the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """What all connections of a client have in common."""

    client_id: str
    max_in_flight: int
    max_answer_bytes: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    scratch: memoryview
    """Where bytes arrive; shared by the connections of one loop, see `ottla.wire.frame`."""
    buffers: ViewedBuffers
    """For what does not fit there."""
    metrics: Metrics
    on_room: Callable[[], None]
    """Called when there is room for a request again, and nobody waits for it."""


class _Waiting(NamedTuple):
    """A request that has no answer yet."""

    correlation_id: int
    api: Api
    version: int
    then: Then
    sent_s: float
    timeout_ms: int
    deadline_s: float


class Connection(asyncio.BufferedProtocol):
    """Speaks the protocol over one transport.  Make it with a `Network`'s `connect`."""

    def __init__(
        self, name: str, options: ConnectionOptions, on_lost: Callable[[OttlaError], None]
    ) -> None:
        """`name` is what error messages call it; `on_lost` is called once, when it is over."""
        self.name = name
        self.versions = BrokerVersions()
        """What the broker speaks; nothing until it was asked."""
        self.is_held = False
        """Whether nothing but authentication may be sent now."""
        self.last_used_s = 0.0
        self._options = options
        self._client = client_words(options.client_id)
        self._picked: dict[tuple[type[Any], int | None, int | None], int] = {}
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._frames = FrameReader(options.scratch, options.max_answer_bytes, options.buffers)
        self._waiting: deque[_Waiting] = deque()
        self._queue: deque[asyncio.Future[None]] = deque()
        """Who waits for room, first come first."""
        self._admitted_count = 0
        """Who was told that there is room, and has not sent anything yet."""
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1
        """Of the socket, where bytes may be written to it as they are."""
        self._failure: OttlaError | None = None
        self._is_paused = False
        self._throttled_until_s = 0.0
        self._last_correlation_id = 0
        self._alarm: asyncio.TimerHandle | None = None
        """Set as long as there are requests, for the time when one of them may be late."""
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done when the transport is closed."""

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._failure is None

    @property
    def in_flight_count(self) -> int:
        return len(self._waiting)

    @property
    def throttle_ms(self) -> int:
        """How much longer the broker wants to be left alone."""
        return max(0, round((self._throttled_until_s - self._loop.time()) * 1000))

    @property
    def has_room(self) -> bool:
        """Whether a request may be sent now."""
        return (
            self._transport is not None
            and self._failure is None
            and not self.is_held
            and not self._is_paused
            and len(self._waiting) + self._admitted_count < self._options.max_in_flight
            and not (self._throttled_until_s and self._throttled_until_s > self._loop.time())
        )

    async def room(self) -> None:
        """Wait until a request may be sent; it may be sent then, and at once.

        Raises what became of the connection, if it broke meanwhile.
        """
        if self.has_room and not self._queue:
            return
        self._check_open()
        while not await self._turn():
            self._check_open()

    async def _turn(self) -> bool:
        """Wait in the queue; whether there is still room when it is our turn."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._admitted_count -= 1
                self._admit()  # our turn came, and we do not take it
            raise
        finally:
            if turn in self._queue:
                self._queue.remove(turn)
        self._admitted_count -= 1
        return self.has_room

    def request(self, body: Any, version: int, *, timeout_ms: int) -> "asyncio.Future[Any]":
        """Send `body`; the future gets the body of the answer, or the reason why none came."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        self.ask(body, version, lambda told: _tell(answer, told), timeout_ms=timeout_ms)
        return answer

    def ask(self, body: Any, version: int, then: Then, *, timeout_ms: int) -> None:
        """Send `body`, and have `then` called with what becomes of it.

        An answer is told while it is taken in, without another turn of the loop.  None within
        `timeout_ms` is the end of the connection: what comes after it would not be answered either.
        """
        of = api_for(type(body))
        correlation_id = self._send(body, version)
        sent_s = self.last_used_s
        deadline_s = sent_s + timeout_ms / 1000
        self._waiting.append(
            _Waiting(correlation_id, of, version, then, sent_s, timeout_ms, deadline_s)
        )
        if self._alarm is None or self._alarm.when() > deadline_s:
            self._watch(deadline_s)

    def tell(self, body: Any, version: int) -> None:
        """Send a request that is never answered: a Produce with acks=0."""
        self._send(body, version)

    def pick(self, of: Api, low: int | None = None, high: int | None = None) -> int:
        """The version in which to ask; see `BrokerVersions.pick`.

        It is the same each time: a broker says once what it speaks.
        """
        asked = (of.request, low, high)
        version = self._picked.get(asked)
        if version is None:
            version = self.versions.pick(of, min_version=low, max_version=high, broker=self.name)
            self._picked[asked] = version
        return version

    def hold(self) -> None:
        """Let nobody send before `release`."""
        self.is_held = True

    def release(self) -> None:
        self.is_held = False
        self._admit()

    def close(self, reason: OttlaError | None = None, *, in_peace: bool = False) -> None:
        """Close it; whoever waits for an answer, or for room, gets `reason`.

        In peace, what nobody waits for an answer to is still sent: records with acks=0.
        """
        is_owed = in_peace and not self._waiting and self.unsent_bytes > 0
        self._fail(reason or TransportError(f"{self.name}: the connection was closed"))
        if self._transport is None:
            return
        if is_owed:
            self._transport.close()
        else:
            self._transport.abort()

    @property
    def unsent_bytes(self) -> int:
        """What the system has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.last_used_s = self._loop.time()
        transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        socket = transport.get_extra_info("socket")
        _size_buffers(socket, self._options)
        if socket is not None and transport.get_extra_info("sslcontext") is None:
            self._descriptor = socket.fileno()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._admit()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        options = self._options
        options.metrics.count("incoming-byte-total", nbytes)
        was_full = len(self._waiting) + self._admitted_count >= options.max_in_flight
        shared = options.scratch.obj
        rest: dict[After, None] = {}
        try:
            for frame in self._frames.buffer_updated(nbytes):
                # The scratch buffer is filled again by the next bytes: what lies there is copied.
                after = self._take(bytes(frame) if frame.obj is shared else frame)
                if after is not None:
                    rest[after] = None
            if self._frames.fault is not None:
                raise self._frames.fault
        except WireError as error:
            self.close(WireError(f"{self.name}: {error}"))
        for after in rest:
            after()
        if was_full and self.has_room:
            # Told last: those who go on by themselves have taken the room, and it would be in vain.
            options.on_room()

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f": {exc}" if exc else ""
        self._fail(
            refusal(self.name, exc)
            or TransportError(f"{self.name}: the broker closed the connection{reason}")
        )
        if not self.ended.done():
            self.ended.set_result(None)

    def _send(self, body: Any, version: int) -> int:
        self._check_open()
        assert self._transport is not None
        self._last_correlation_id = (self._last_correlation_id + 1) & _CORRELATION_MASK
        frame, size_bytes = encode_framed_request(
            body, version, self._last_correlation_id, self._client
        )
        self.last_used_s = self._loop.time()
        self._options.metrics.asked(size_bytes)
        _write(self._transport, self._descriptor, frame, size_bytes)
        return self._last_correlation_id

    def _take(self, frame: bytes | memoryview) -> After | None:
        if not self._waiting:
            raise WireError("an answer to no question")
        waiting = self._waiting[0]
        correlation_id, body = decode_response(waiting.api, waiting.version, frame)
        if correlation_id != waiting.correlation_id:
            raise WireError(
                f"an answer to question {correlation_id}, where {waiting.correlation_id} is next"
            )
        self._waiting.popleft()
        self.last_used_s = self._loop.time()
        self._options.metrics.answered((self.last_used_s - waiting.sent_s) * 1000)
        if throttle_time_ms := getattr(body, "throttle_time_ms", 0):
            self._throttle(throttle_time_ms)
        after = waiting.then(body)
        if self._queue:
            self._admit()
        return after

    def _throttle(self, throttle_time_ms: int) -> None:
        if throttle_time_ms > 0:
            self._options.metrics.count("throttle-time-ms-total", throttle_time_ms)
            until_s = self._loop.time() + throttle_time_ms / 1000
            self._throttled_until_s = max(self._throttled_until_s, until_s)
            self._loop.call_at(self._throttled_until_s, self._admit)

    def _admit(self) -> None:
        """Let in who waits, as far as there is room."""
        while self._queue and self.has_room:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                self._admitted_count += 1
        if self.has_room:
            self._options.on_room()

    def _watch(self, deadline_s: float) -> None:
        """Look then for answers that are late, and not later."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._loop.call_at(deadline_s, self._look)

    def _look(self) -> None:
        """One alarm for all requests: most are answered long before, and leave it as it is."""
        assert self._alarm is not None
        now_s, self._alarm = self._alarm.when(), None
        if not self._waiting:
            return
        first = min(self._waiting, key=lambda waiting: waiting.deadline_s)
        if first.deadline_s > now_s:
            self._watch(first.deadline_s)
            return
        late = f"no answer to {first.api.name} within {first.timeout_ms} ms"
        self.close(TransportError(f"{self.name}: {late}"))

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if self._transport is None or self._transport.is_closing():
            raise TransportError(f"{self.name}: the connection is closed")

    def _fail(self, reason: OttlaError) -> None:
        if self._failure is not None:
            return
        self._failure = reason
        self._frames.abandon()
        if self._alarm is not None:
            self._alarm.cancel()
        while self._waiting:
            # Later: whoever is told may ask again, and this is no moment for it.
            self._loop.call_soon(self._waiting.popleft().then, reason)
        while self._queue:
            _refuse(self._queue.popleft(), reason)
        self._on_lost(reason)


def _size_buffers(socket: Any, options: ConnectionOptions) -> None:
    """Set the sizes that were asked for, where there is a real socket."""
    if socket is None:
        return
    from socket import SO_RCVBUF, SO_SNDBUF, SOL_SOCKET

    if options.send_buffer_bytes >= 0:
        socket.setsockopt(SOL_SOCKET, SO_SNDBUF, options.send_buffer_bytes)
    if options.receive_buffer_bytes >= 0:
        socket.setsockopt(SOL_SOCKET, SO_RCVBUF, options.receive_buffer_bytes)


def _write(
    transport: asyncio.Transport, descriptor: int, frame: Sequence[Part], size_bytes: int
) -> None:
    """Send a frame, in one call where the system takes all of it.

    `descriptor` is that of the socket, or -1 where bytes may not be written to it as they are.
    """
    sent_bytes = 0
    is_first = descriptor >= 0 and not transport.get_write_buffer_size()
    if is_first and len(frame) <= _MAX_PARTS:
        # The transport would copy the parts, or the broker read each of them by itself.  What
        # keeps the system from taking them, the transport finds out for itself.
        try:
            sent_bytes = os.writev(descriptor, frame)
        except OSError:
            sent_bytes = 0
    if sent_bytes == size_bytes:
        return
    rest = _without(frame, sent_bytes)
    if descriptor < 0:
        transport.writelines(rest)
        return
    for part in rest:
        # One by one, and as views: Python 3.11 would join them, and copy what is left twice.
        transport.write(memoryview(part))


def _without(frame: Sequence[Part], sent_bytes: int) -> list[Part]:
    """The parts of a frame behind its first bytes."""
    rest: list[Part] = []
    for part in frame:
        if sent_bytes < len(part):
            rest.append(memoryview(part)[sent_bytes:] if sent_bytes else part)
        sent_bytes = max(0, sent_bytes - len(part))
    return rest


def _tell(future: "asyncio.Future[Any]", told: Any) -> None:
    if isinstance(told, OttlaError):
        _refuse(future, told)
    elif not future.done():
        future.set_result(told)


def _refuse(future: "asyncio.Future[Any]", reason: OttlaError) -> None:
    if not future.done():
        future.set_exception(reason)
        future.exception()  # several may wait; one of them tells the user, which is enough
