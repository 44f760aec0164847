"""Sending requests: at once, once, or until it works.

`Asker` is the half of the `Engine` that other parts of a client call; the other half gives it a
router and a life.  A request and its answer are the classes of one API, and a mismatch is a bug.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ottla.client.backoff import Backoff
from ottla.client.config import ClientConfig
from ottla.client.connection import After, Connection
from ottla.client.links import MAIN
from ottla.client.ports import ClientPorts
from ottla.client.retries import repeat
from ottla.client.router import Router
from ottla.client.targets import ANY, Target
from ottla.errors import ErrorCode, OttlaError, TransportError, exception_for
from ottla.wire.registry import Api, api_for

A = TypeVar("A")
T = TypeVar("T")


def error_code_of(answer: Any) -> int:
    """The error of an answer as a whole, if it has such a field."""
    return int(getattr(answer, "error_code", ErrorCode.NONE))


class Asker:
    """Asks brokers, whoever they are."""

    def __init__(self, config: ClientConfig, ports: ClientPorts) -> None:
        self.config = config
        self.ports = ports
        self.backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        """Pauses between attempts of anything that is repeated."""
        self._router: Router | None = None
        self._answers: set[asyncio.Future[Any]] = set()
        self._failure: OttlaError | None = None

    @property
    def is_closed(self) -> bool:
        return self._failure is not None

    def check_open(self) -> None:
        """Raise `ClosedError`, or whatever made the client fail."""
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    def is_ready(self, node_id: int, *, lane: str = MAIN) -> bool:
        """Whether `post` may send to a node at once; if there is no connection, begin to make one.

        Those who `subscribe` hear when that has changed.
        """
        if self._router is None or (node := self._router.node(node_id)) is None:
            return False
        link = self._router.links.to(node, lane)
        if link.is_ready:
            return True
        link.start()
        return False

    def delay_ms(self, node_id: int, *, lane: str = MAIN) -> int:
        """How long a node wants to be left alone: back-off after a failure, or throttling."""
        link = None if self._router is None else self._router.links.known(node_id, lane)
        return 0 if link is None else link.load.delay_ms

    def post(
        self,
        request: Any,
        answer: type[A],
        *,
        to: int,
        timeout_ms: int | None = None,
        max_version: int | None = None,
        lane: str = MAIN,
    ) -> "asyncio.Future[A]":
        """Send now, without waiting, to a node that `is_ready`: what is posted first goes first.

        The future gets the answer, or `TransportError`.  Raises `UnsupportedError`, and
        `TransportError` if the node is not ready any more.
        """
        connection = self._ready(to, lane)
        version = connection.pick(_api(request, answer), None, max_version)
        return self._sent(connection, request, version, timeout_ms)

    def hand(
        self,
        request: Any,
        answer: type[A],
        then: Callable[[A | OttlaError], After | None],
        *,
        to: int,
        timeout_ms: int | None = None,
        max_version: int | None = None,
        lane: str = MAIN,
    ) -> bool:
        """Like `post`, and `then` is called with the answer, or the error, as soon as it is there.

        That is at once, in the middle of reading: it saves two turns of the loop for each request
        of those who send many.  What it returns is called when the reading is over.  Raises what
        `post` raises, and then does not call `then`.  That the node is ready is not looked at
        again: nothing has happened since the caller did.  Returns whether it is still ready.
        """
        connection = self._connected(to, lane)
        version = connection.pick(_api(request, answer), None, max_version)
        limit_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        connection.ask(request, version, then, timeout_ms=limit_ms)
        return connection.has_room

    def tell(self, request: Any, *, to: int, max_version: int | None = None) -> None:
        """Like `post`, for a request that is never answered: a Produce with acks=0."""
        connection = self._ready(to, MAIN)
        connection.tell(request, connection.pick(_api(request), None, max_version))

    async def ask(
        self,
        request: Any,
        answer: type[A],
        *,
        to: Target = ANY,
        timeout_ms: int | None = None,
        min_version: int | None = None,
        max_version: int | None = None,
        lane: str | None = None,
    ) -> A:
        """Ask once: connect if need be, wait for room, send, and wait for the answer.

        Args:
            request: The request, as for its newest version.
            answer: The class of its answer.
            to: Whom to ask.
            timeout_ms: How long the answer may take once the request was sent.
            min_version: The oldest version that can say what the request says.
            max_version: The newest version to use.
            lane: Which connection to the node; by default, groups have one of their own.

        Raises:
            ConnectError: No connection could be made.
            TransportError: It broke, or the answer is late; the request may be carried out.
            UnsupportedError: The broker speaks no version that would do.
            RefreshError: Nobody knows yet who is to be asked; metadata is being refreshed.
            ClosedError: The client was closed.
        """
        self.check_open()
        connection = await self._routed.connection(to, lane)
        await connection.room()
        version = connection.pick(_api(request, answer), min_version, max_version)
        got: A = await self._sent(connection, request, version, timeout_ms)
        return got

    async def call(
        self,
        request: Any,
        answer: type[A],
        *,
        to: Target = ANY,
        timeout_ms: int | None = None,
        failure: Callable[[A], int] = error_code_of,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> A:
        """Ask until it works: again after a pause where that may help, within `timeout_ms`.

        `failure` is the error code of an answer; while it is a retriable one, we ask again.  Any
        other answer is returned, for the caller to raise its errors in its own words.

        Raises:
            DeadlineError: It did not work in time; its cause is the last trouble.
            OttlaError: What `ask` raises, if asking again would not help.
        """
        what = f"{_api(request).name} to {to}"

        async def attempt() -> A:
            got = await self.ask(
                request, answer, to=to, min_version=min_version, max_version=max_version
            )
            if (code := failure(got)) != ErrorCode.NONE:
                trouble = exception_for(code, what)
                if trouble.retriable:
                    raise trouble
            return got

        return await self.repeat(attempt, what=what, to=to, timeout_ms=timeout_ms)

    async def repeat(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        what: str,
        to: Target = ANY,
        timeout_ms: int | None = None,
        max_retries: int | None = None,
    ) -> T:
        """Run `attempt` until it raises nothing that is retriable; see `call`."""
        return await repeat(
            attempt,
            what=what,
            timeout_ms=self._limit_ms(timeout_ms),
            backoff=self.backoff,
            entropy=self.ports.entropy,
            hear=lambda error: self.hear(error, to),
            max_retries=max_retries,
        )

    def hear(self, error: OttlaError, to: Target = ANY) -> None:
        """An answer, or none, says that what we know may be wrong: find it out anew."""
        self._routed.hear(error, to)

    @property
    def _routed(self) -> Router:
        self.check_open()
        assert self._router is not None, "the engine is not started"
        return self._router

    def _limit_ms(self, timeout_ms: int | None) -> int:
        return self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms

    def _ready(self, node_id: int, lane: str) -> Connection:
        connection = self._connected(node_id, lane)
        if not connection.has_room:
            raise TransportError(f"broker {node_id} is not ready")
        return connection

    def _connected(self, node_id: int, lane: str) -> Connection:
        link = self._routed.links.known(node_id, lane)
        connection = None if link is None else link.connection
        if connection is None:
            raise TransportError(f"broker {node_id} is not ready")
        return connection

    def _sent(
        self, connection: Connection, request: Any, version: int, timeout_ms: int | None
    ) -> "asyncio.Future[Any]":
        limit_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        answer = connection.request(request, version, timeout_ms=limit_ms)
        self._answers.add(answer)
        answer.add_done_callback(self._answers.discard)
        return answer


def _api(request: Any, answer: type[Any] | None = None) -> Api:
    of = api_for(type(request))
    assert answer is None or answer is of.response, f"{answer} does not answer {of.name}"
    return of
