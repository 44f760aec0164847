"""Finding brokers and asking them, from blocking code.

A `BasicClient` has an event loop of its own that runs only while one of its methods does.  So
nothing happens behind the caller's back, and an interrupt (Ctrl-C) ends the call that waits.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from ottla import __version__
from ottla.client.basic.connection import Connection
from ottla.client.basic.interrupts import CallLoop
from ottla.errors import (
    ConfigError,
    ConnectError,
    DeadlineError,
    ErrorCode,
    OttlaError,
    UnsupportedError,
    raise_for_code,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.registry import ApiKey, api

T = TypeVar("T")

DEFAULT_PORT: Final = 9092
DEFAULT_TIMEOUT_S: Final = 30.0
CLIENT_SOFTWARE: Final = "ottla-cli"


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(text: str) -> list[Address]:
    """The addresses in a list like `localhost:9092,[::1]:9093`; the port may be left out."""
    addresses = [_parse_address(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ConfigError(f"{text!r} names no broker, like localhost:{DEFAULT_PORT}")
    return addresses


def _parse_address(text: str) -> Address:
    host, port = text, str(DEFAULT_PORT)
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        port = rest.removeprefix(":") or port
        if not bracket or (rest and not rest.startswith(":")):
            raise ConfigError(f"{text!r} is not an address like [::1]:{DEFAULT_PORT}")
    elif text.count(":") == 1:
        host, port = text.split(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ConfigError(f"{text!r} is not an address like localhost:{DEFAULT_PORT}")
    return Address(host, int(port))


class BasicClient:
    """Connections to the brokers of one cluster.  Use it with `with`; see the package's words."""

    def __init__(
        self,
        bootstrap: str,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        client_id: str = CLIENT_SOFTWARE,
    ) -> None:
        self._bootstrap = parse_bootstrap(bootstrap)
        self._timeout_s = timeout_s
        self._client_id = client_id
        self._calls = CallLoop()
        self._connections: dict[Address, Connection] = {}
        self._brokers: dict[int, Address] = {}
        self._controller_id = -1

    @property
    def timeout_ms(self) -> int:
        """How long a call may take; brokers are told, too."""
        return int(self._timeout_s * 1000)

    @property
    def broker_ids(self) -> Sequence[int]:
        """The brokers of the newest metadata."""
        return sorted(self._brokers)

    def close(self) -> None:
        """Close all connections.  Closing twice is no error."""
        if self._connections:
            connections, self._connections = self._connections, {}
            self._calls.run(lambda: _close_all(connections.values()))
        self._calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def metadata(
        self, topics: Iterable[str] | None = None, *, create: bool = False
    ) -> MetadataResponse:
        """Brokers, and the given topics or all; with `create`, the broker may create them."""
        asked = None if topics is None else tuple(MetadataRequestTopic(name=t) for t in topics)
        answer: MetadataResponse = self.ask(
            MetadataRequest(topics=asked, allow_auto_topic_creation=create)
        )
        raise_for_code(answer.error_code, "metadata")
        self._brokers = {b.node_id: Address(b.host, b.port) for b in answer.brokers}
        self._controller_id = answer.controller_id
        return answer

    def ask(self, body: Any, *, node_id: int | None = None, max_version: int | None = None) -> Any:
        """Send one request and wait for its answer.

        Args:
            body: The request, of any version.
            node_id: Whom to ask; None is any broker.
            max_version: The newest version to use, where newer ones need more than the caller has.

        Raises:
            ConnectError: No connection could be made.
            TransportError: The connection broke; whether the request was carried out is unknown.
            DeadlineError: No answer came in time.
            UnsupportedError: The broker speaks no version of it that we do.
        """
        (answer,) = self.ask_each([(node_id, body)], max_version=max_version)
        return answer

    def ask_each(
        self, questions: Sequence[tuple[int | None, Any]], *, max_version: int | None = None
    ) -> list[Any]:
        """Ask several brokers at a time; the first failure is raised."""
        return self._calls.run(lambda: self._ask_each(questions, max_version))

    def ask_controller(self, body: Any) -> Any:
        """Ask the broker that may change topics."""
        if not self._brokers:
            self.metadata(())
        known = self._controller_id in self._brokers
        return self.ask(body, node_id=self._controller_id if known else None)

    def send(
        self, body: Any, node_id: int | None, *, max_version: int | None = None
    ) -> "asyncio.Future[Any]":
        """Send one request and return at once; `wait` for the future to get the answer."""
        return self._calls.run(lambda: self._send(body, node_id, max_version))

    def tell(self, body: Any, node_id: int | None, *, max_version: int | None = None) -> None:
        """Send a request that has no answer, and wait until the system has taken it."""
        self._calls.run(lambda: self._tell(body, node_id, max_version))

    def wait(self, answer: "asyncio.Future[Any]", what: str) -> Any:
        """The answer to a request that was sent before; raises what `ask` raises."""
        return self._calls.run(lambda: self._within(f"no answer to {what}", answer))

    async def _ask_each(
        self, questions: Sequence[tuple[int | None, Any]], max_version: int | None
    ) -> list[Any]:
        answers = [await self._send(body, node_id, max_version) for node_id, body in questions]
        return [await self._within(_name(q[1]), a) for q, a in zip(questions, answers, strict=True)]

    async def _send(
        self, body: Any, node_id: int | None, max_version: int | None
    ) -> "asyncio.Future[Any]":
        connection = await self._connection_to(node_id)
        return connection.request(body, version_for(connection, body, max_version))

    async def _tell(self, body: Any, node_id: int | None, max_version: int | None) -> None:
        connection = await self._connection_to(node_id)
        connection.tell(body, version_for(connection, body, max_version))
        await self._within(_name(body), connection.drained())

    async def _connection_to(self, node_id: int | None) -> Connection:
        if node_id is not None:
            if node_id not in self._brokers:
                raise ConnectError(f"broker {node_id} is not in the cluster's metadata")
            return await self._connect(self._brokers[node_id])
        for connection in self._connections.values():
            if connection.is_open:
                return connection
        failures: list[ConnectError] = []
        for address in self._bootstrap:
            try:
                return await self._connect(address)
            except ConnectError as error:
                failures.append(error)
        raise failures[0] if len(failures) == 1 else ConnectError("; ".join(map(str, failures)))

    async def _connect(self, address: Address) -> Connection:
        known = self._connections.get(address)
        if known is not None and known.is_open:
            return known
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                _, made = await loop.create_connection(
                    lambda: Connection(str(address), self._client_id), *address
                )
        except TimeoutError:
            raise ConnectError(f"{address}: no connection within {self._timeout_s:g} s") from None
        except OSError as error:
            raise ConnectError(f"{address}: {_reason(error)}") from None
        self._connections[address] = made
        made.versions = await self._negotiate(made)
        return made

    async def _negotiate(self, connection: Connection) -> dict[int, range]:
        """Ask what the broker speaks; one that is older than our question says so in version 0."""
        highest = api(ApiKey.API_VERSIONS).versions.high
        for version in (highest, 0):
            answer: ApiVersionsResponse = await self._within(
                f"{connection.address}: no answer to a first question (is it a Kafka port?)",
                connection.request(_introduction(), version),
            )
            if answer.error_code != ErrorCode.UNSUPPORTED_VERSION:
                break
        raise_for_code(answer.error_code, connection.address)
        return {k.api_key: range(k.min_version, k.max_version + 1) for k in answer.api_keys}

    async def _within(self, what: str, answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await answer
        except OttlaError:
            raise
        except TimeoutError:
            late = DeadlineError(f"{what} within {self._timeout_s:g} s")
            await _close_all(self._connections.values())
            raise late from None


def version_for(connection: Connection, body: Any, max_version: int | None = None) -> int:
    """The newest version of a request that both sides speak."""
    of = api(ApiKey(body.__api__.key))
    theirs = connection.versions.get(of.key, range(0))
    highest = min(of.versions.high, theirs.stop - 1)
    if max_version is not None:
        highest = min(highest, max_version)
    if highest < max(of.versions.low, theirs.start) or not theirs:
        raise UnsupportedError(
            ErrorCode.UNSUPPORTED_VERSION, f"{connection.address} does not speak {of.name}"
        )
    return highest


def _introduction() -> ApiVersionsRequest:
    # The protocol allows letters, digits, dots and dashes here.
    return ApiVersionsRequest(
        client_software_name=CLIENT_SOFTWARE, client_software_version=__version__
    )


def _reason(error: OSError) -> str:
    """What the system said, without asyncio's words around it."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno)


def _name(body: Any) -> str:
    return f"no answer to {api(ApiKey(body.__api__.key)).name}"


async def _close_all(connections: Iterable[Connection]) -> None:
    for connection in list(connections):
        connection.close()
    await asyncio.sleep(0)  # transports close their sockets in the next turn of the loop
