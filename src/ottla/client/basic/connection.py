"""One connection to a broker: requests out, answers in, in the order in which they were asked.

A connection that broke, or whose peer is late or talks nonsense, is never used again: it is closed,
and everybody who waits for an answer gets the reason.
"""

import asyncio
from collections import deque
from typing import Any, Final, NamedTuple

from ottla.errors import OttlaError, TransportError, WireError
from ottla.wire.frame import FrameReader, scratch_buffer, with_size
from ottla.wire.header import decode_response, encode_request
from ottla.wire.registry import Api, ApiKey, api

MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
"""A fetch brings at most what it asked for, and one batch above it; this is far beyond both."""


class _Waiting(NamedTuple):
    """A request that has no answer yet."""

    correlation_id: int
    api: Api
    version: int
    answer: "asyncio.Future[Any]"


class Connection(asyncio.BufferedProtocol):
    """Speaks the protocol over one transport.  Make it with a loop's `create_connection`."""

    def __init__(self, address: str, client_id: str) -> None:
        self._address = address
        self._client_id = client_id
        self._frames = FrameReader(scratch_buffer(), MAX_ANSWER_BYTES)
        self._waiting: deque[_Waiting] = deque()
        self._transport: asyncio.Transport | None = None
        self._drain: asyncio.Future[None] | None = None
        self._last_correlation_id = 0
        self.versions: dict[int, range] = {}
        """API key -> the versions that the broker speaks; empty until it was asked."""

    @property
    def address(self) -> str:
        return self._address

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def request(self, body: Any, version: int) -> "asyncio.Future[Any]":
        """Send `body`; the future gets the body of the answer, or the reason why none came."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        of = api(ApiKey(body.__api__.key))
        correlation_id = self._send(body, version)
        self._waiting.append(_Waiting(correlation_id, of, version, answer))
        return answer

    def tell(self, body: Any, version: int) -> None:
        """Send a request that is never answered: a Produce with acks=0."""
        self._send(body, version)

    async def drained(self) -> None:
        """Wait until the operating system has taken everything that was sent."""
        while self._drain is not None:
            await self._drain

    def close(self, reason: OttlaError | None = None) -> None:
        """Close it; whoever waits for an answer gets `reason`."""
        if self._transport is not None:
            self._transport.abort()
        self._fail(reason or TransportError(f"{self._address}: the connection was closed"))

    def _send(self, body: Any, version: int) -> int:
        if self._transport is None or self._transport.is_closing():
            raise TransportError(f"{self._address}: the connection is closed")
        self._last_correlation_id = (self._last_correlation_id + 1) & 0x7FFF_FFFF
        parts = encode_request(
            body, version, correlation_id=self._last_correlation_id, client_id=self._client_id
        )
        self._transport.writelines(with_size(parts))
        return self._last_correlation_id

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=0)  # so that `drained` means everything

    def pause_writing(self) -> None:
        self._drain = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        drain, self._drain = self._drain, None
        if drain is not None and not drain.done():
            drain.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.buffer_updated(nbytes):
                # Records are views of the frame, which is overwritten by the next one.
                self._take(bytes(frame))
            if self._frames.fault is not None:
                raise self._frames.fault
        except WireError as error:
            self.close(WireError(f"{self._address}: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f": {exc}" if exc else ""
        self._fail(TransportError(f"{self._address}: the broker closed the connection{reason}"))

    def _take(self, frame: bytes) -> None:
        if not self._waiting:
            raise WireError("an answer to no question")
        waiting = self._waiting[0]
        correlation_id, body = decode_response(waiting.api, waiting.version, frame)
        if correlation_id != waiting.correlation_id:
            raise WireError(
                f"an answer to question {correlation_id}, where {waiting.correlation_id} is next"
            )
        self._waiting.popleft()
        if not waiting.answer.done():
            waiting.answer.set_result(body)

    def _fail(self, reason: OttlaError) -> None:
        drain, self._drain = self._drain, None
        if drain is not None and not drain.done():
            drain.set_exception(reason)
        while self._waiting:
            answer = self._waiting.popleft().answer
            if not answer.done():
                answer.set_exception(reason)
                answer.exception()  # several may wait; one of them tells the user, which is enough
