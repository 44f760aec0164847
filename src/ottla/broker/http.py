"""A little HTTP/1.1, for `/metrics` and health checks: GET and HEAD, one answer a connection.

It reads a request's head, of bounded size and within a bounded time, and nothing else; there is
room for a few connections.  It is no way into the broker: what can be asked is a fixed table.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

from ottla.values import dataclass

log = logging.getLogger(__name__)

MAX_HEAD_BYTES: Final = 8 * 1024
MAX_CONNECTIONS: Final = 16
PATIENCE_S: Final = 10.0
"""How long a connection may take, from its beginning to its end."""

TEXT: Final = "text/plain; charset=utf-8"
_END_OF_HEAD: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is answered."""

    body: str
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = TEXT


Pages = Mapping[str, Callable[[], Awaitable[Page]]]


class HttpServer:
    """Makes the protocol of each connection, and bounds their number."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._open: dict[HttpConnection, None] = {}

    def accept(self) -> "HttpConnection":
        """The protocol of one connection."""
        return HttpConnection(self._pages, self._open)

    def close(self) -> None:
        """End all connections at once."""
        for connection in list(self._open):
            connection.abort()


class HttpConnection(asyncio.Protocol):
    """One connection: a head comes in, an answer goes out."""

    def __init__(self, pages: Pages, others: "dict[HttpConnection, None]") -> None:
        self._pages = pages
        self._others = others
        self._head = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if len(self._others) >= MAX_CONNECTIONS:
            transport.abort()
            return
        self._others[self] = None
        self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._others.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._task is not None:
            return  # one answer a connection: what else it says is not heard
        self._head += data
        if _END_OF_HEAD in self._head:
            method, path = _request_line(bytes(self._head))
            self._task = asyncio.get_running_loop().create_task(self._answer(method, path))
            self._task.add_done_callback(self._on_answered)
        elif len(self._head) > MAX_HEAD_BYTES:
            self._send(_refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()

    async def _answer(self, method: str, path: str) -> None:
        page = self._pages.get(path)
        if not method:
            told = _refusal(HTTPStatus.BAD_REQUEST)
        elif method not in ("GET", "HEAD"):
            told = _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
        elif page is None:
            told = _refusal(HTTPStatus.NOT_FOUND)
        else:
            told = await page()
        self._send(told, has_body=method != "HEAD")

    def _on_answered(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("page failed", exc_info=error)
            self.abort()

    def _send(self, page: Page, *, has_body: bool = True) -> None:
        if self._transport is None:
            return
        body = page.body.encode()
        head = (
            f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\n"
            f"Content-Type: {page.content_type}\r\n"
            f"Content-Length: {len(body)}\r\n"
            "Cache-Control: no-store\r\n"
            "Connection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + (body if has_body else b""))
        self._transport.close()


def _request_line(head: bytes) -> tuple[str, str]:
    """Method and path, without what is behind `?`; both empty if that is no request."""
    line = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    if len(line) != 3 or not line[2].startswith("HTTP/1."):
        return "", ""
    return line[0], line[1].partition("?")[0]


def _refusal(status: HTTPStatus) -> Page:
    return Page(body=f"{status.phrase}\n", status=status)
