"""Faults that a test puts into a running broker: errors, delays, lost replies, lost connections.

    broker.faults.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
    with broker.faults.stall("Fetch") as stalled:
        ...
    assert stalled.hit_count > 0

A fault is there when the method returns, and stays until it was hit `times` times or is ended.  Of
several that fit a request one is hit: first those with a number of times, in the order in which
they were asked for, then the newest without.  What the broker is asked through `TestBroker` itself
(`produce`, `records`, ...) is never hit.

Everything here but the public methods of `Faults` and `Fault` happens in the broker's loop.
"""

import asyncio
import dataclasses
import difflib
import inspect
import ssl
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from ottla.broker.context import Context
from ottla.broker.dispatch import Route, routes
from ottla.broker.session import Session
from ottla.errors import ErrorCode
from ottla.ports import Listener, Network
from ottla.testing.refusals import refuse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse
from ottla.wire.registry import ApiKey

T = TypeVar("T")

PROBE_CLIENT_ID: Final = "ottla-testing-probe"
"""Who asks with this id is spared."""

_NO_RESPONSE: Final = ProduceResponse(responses=())
"""For a Produce with acks=0: it is never sent."""


class Call(NamedTuple):
    """A request that meets a fault."""

    route: Route
    request: Any
    context: Context

    def handle(self) -> Any:
        return self.route.handler(self.request, self.context)

    @property
    def wants_answer(self) -> bool:
        return not (isinstance(self.request, ProduceRequest) and self.request.acks == 0)


class Fault:
    """Something that goes wrong.  Leaving a `with` block ends it."""

    def __init__(self, end: Callable[["Fault"], None], times: int | None = None) -> None:
        if times is not None and times < 1:
            raise ValueError(f"times = {times} is not a positive number")
        self._end = end
        self._times = times
        self.hit_count = 0
        """How often it was hit so far."""

    @property
    def is_counted(self) -> bool:
        return self._times is not None

    @property
    def is_used_up(self) -> bool:
        return self._times is not None and self.hit_count >= self._times

    def end(self) -> None:
        """End it.  Ending twice is no error."""
        self._end(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()


class _RequestFault(Fault):
    """A fault that hits requests of one API, or all if `key` is None."""

    def __init__(
        self,
        end: Callable[[Fault], None],
        *,
        key: ApiKey | None,
        times: int | None,
        act: Callable[[Call], Any],
    ) -> None:
        super().__init__(end, times)
        self._key = key
        self._act = act
        self.stalled: WeakSet[Session] = WeakSet()

    def fits(self, key: ApiKey) -> bool:
        return self._key is None or self._key == key

    def hit(self, call: Call) -> Any:
        self.hit_count += 1
        return self._act(call)


class Faults:
    """The faults of one broker."""

    def __init__(
        self, perform: Callable[[Callable[[], Any]], Any], crash: Callable[[], None]
    ) -> None:
        """`perform` runs a function in the broker's loop, `crash` crashes the broker from there."""
        self._perform = perform
        self._crash = crash
        self._faults: list[_RequestFault] = []
        self._refusals: list[Fault] = []
        self._sessions: WeakKeyDictionary[Session, str | None] = WeakKeyDictionary()
        """Every connection, and the client id that it used last."""

    def fail(self, api: str | ApiKey, error: ErrorCode, *, times: int | None = 1) -> Fault:
        """Answer `error` to the next requests, and do nothing of what they ask for.

        The code stands where that API has it: at each partition, topic or group that the request
        names, or in the response as a whole.

        Args:
            api: Its name, like "Produce" or "CreateTopics".
            error: Any code, also one that this API never answers in reality.
            times: How often; None is until it is ended.
        """
        code = ErrorCode(error)

        def act(call: Call) -> Any:
            if not call.wants_answer:
                call.context.session.close()  # what a broker does that cannot say it
                return _NO_RESPONSE
            return refuse(call.route, call.request, call.context, code)

        return self._add(key_of(api), times, act)

    def delay(self, api: str | ApiKey, seconds: float, *, times: int | None = None) -> Fault:
        """Do what requests ask for, and answer `seconds` later.

        They are seconds of the broker's time: `TestBroker.advance` makes them pass at once.
        """
        if seconds < 0:
            raise ValueError(f"{seconds} s is not a time to wait")

        async def later(result: Any) -> Any:
            response = await result if inspect.isawaitable(result) else result
            await asyncio.sleep(seconds)
            return response

        def act(call: Call) -> Any:
            result = call.handle()
            return later(result) if call.wants_answer else result

        return self._add(key_of(api), times, act)

    def drop_reply(self, api: str | ApiKey, *, times: int | None = 1) -> Fault:
        """Do what requests ask for, then close the connection in place of an answer."""

        async def lose(result: Any, session: Session) -> Any:
            if inspect.isawaitable(result):
                await result
            session.abort()
            await _never()

        def act(call: Call) -> Any:
            result, session = call.handle(), call.context.session
            if call.wants_answer:
                return lose(result, session)
            session.abort()
            return result

        return self._add(key_of(api), times, act)

    def stall(self, api: str | ApiKey | None = None, *, times: int | None = None) -> Fault:
        """Take requests of one API, or all, do nothing and never answer.

        When the fault ends, the connections that hang are closed.
        """

        def act(call: Call) -> Any:
            fault.stalled.add(call.context.session)
            return _never() if call.wants_answer else _NO_RESPONSE

        fault = self._add(None if api is None else key_of(api), times, act)
        return fault

    def crash_before(self, api: str | ApiKey) -> Fault:
        """Crash the broker as soon as it is asked for `api`; `TestBroker.restart` brings it back.

        It is the crash of a process: what it had acknowledged is kept, everything else may be gone.
        """

        def act(call: Call) -> Any:
            self._crash()
            return _never() if call.wants_answer else _NO_RESPONSE

        return self._add(key_of(api), 1, act)

    def refuse_connections(self) -> Fault:
        """Close new connections as soon as they are made, until it is ended; others live on."""
        fault = Fault(self._end)
        self._perform(lambda: self._refusals.append(fault))
        return fault

    def drop_connections(self, client_id: str | None = None) -> int:
        """Close the connections of one client, or all, at once; return how many there were."""

        def drop() -> int:
            dropped = [
                session
                for session, known_id in self._sessions.items()
                if session.is_open and known_id != PROBE_CLIENT_ID and client_id in (None, known_id)
            ]
            for session in dropped:
                session.abort()
            return len(dropped)

        count: int = self._perform(drop)
        return count

    def clear(self) -> None:
        """End all faults."""
        for fault in [*self._faults, *self._refusals]:
            fault.end()

    def serve(self, plain: Mapping[int, Route]) -> Mapping[int, Route]:
        """The routes of a broker with the faults in front of them."""
        return {key: self._guarded(route) for key, route in plain.items()}

    def network(self, network: Network) -> Network:
        """A network with the faults of connections in front of it."""
        return _FaultyNetwork(network, self._accepted)

    def _add(
        self, key: ApiKey | None, times: int | None, act: Callable[[Call], Any]
    ) -> _RequestFault:
        fault = _RequestFault(self._end, key=key, times=times, act=act)
        self._perform(lambda: self._faults.append(fault))
        return fault

    def _end(self, fault: Fault) -> None:
        def end() -> None:
            if fault in self._refusals:
                self._refusals.remove(fault)
            if isinstance(fault, _RequestFault):
                if fault in self._faults:
                    self._faults.remove(fault)
                for session in list(fault.stalled):
                    session.abort()

        self._perform(end)

    def _guarded(self, route: Route) -> Route:
        def handle(request: Any, context: Context) -> Any:
            self._sessions[context.session] = context.client_id
            if context.client_id != PROBE_CLIENT_ID and (fault := self._fault_for(route.api.key)):
                return fault.hit(Call(route, request, context))
            return route.handler(request, context)

        return dataclasses.replace(route, handler=handle)

    def _fault_for(self, key: ApiKey) -> _RequestFault | None:
        """The fault that is hit next.  One that is used up stays, so that `end` can find it."""
        fitting = [fault for fault in self._faults if fault.fits(key) and not fault.is_used_up]
        counted = [fault for fault in fitting if fault.is_counted]
        if counted:
            return counted[0]
        return fitting[-1] if fitting else None

    def _accepted(self, accept: Callable[[], asyncio.BaseProtocol]) -> asyncio.BaseProtocol:
        if self._refusals:
            self._refusals[-1].hit_count += 1
            return _Refused()
        protocol = accept()
        assert isinstance(protocol, Session), protocol
        self._sessions[protocol] = None
        return protocol


class _Refused(asyncio.Protocol):
    """A connection that ends as soon as it is made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


class _FaultyNetwork:
    """See `ottla.ports.Network`."""

    def __init__(
        self,
        network: Network,
        accepted: Callable[[Callable[[], asyncio.BaseProtocol]], asyncio.BaseProtocol],
    ) -> None:
        self._network = network
        self._accepted = accepted

    async def listen(
        self, host: str, port: int, accept: Callable[[], asyncio.BaseProtocol]
    ) -> Listener:
        return await self._network.listen(host, port, lambda: self._accepted(accept))

    async def connect(
        self,
        host: str,
        port: int,
        protocol: Callable[[], asyncio.BaseProtocol],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> asyncio.BaseProtocol:
        return await self._network.connect(host, port, protocol, tls=tls)

    def expect_much(self) -> None:
        self._network.expect_much()


def key_of(api: str | ApiKey) -> ApiKey:
    """The key of an API by its name: "CreateTopics", "create_topics" and CREATE_TOPICS are one.

    `ValueError` for one that the broker does not serve: a fault there would never be hit.
    """
    served = {_plain(route.api.name): route.api for route in routes().values()}
    wanted = _plain(api.name if isinstance(api, ApiKey) else api)
    if wanted in served:
        return served[wanted].key
    close = difflib.get_close_matches(wanted, served, n=1)
    hint = f"; did you mean {served[close[0]].name!r}?" if close else ""
    raise ValueError(f"the broker serves no API called {api!r}{hint}")


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _never() -> "asyncio.Future[Any]":
    """Done only by being canceled, when the connection goes."""
    return asyncio.get_running_loop().create_future()
