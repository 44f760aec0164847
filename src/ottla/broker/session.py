"""One client's connection: bytes -> frames -> requests -> handlers -> responses, in order.

A request is decoded and handled as soon as it is whole.  What can be answered at once costs no
task and no future; what has to wait keeps its place in the queue, so that responses leave in the
order of their requests whatever the handlers do.  Serving and reading stop while too many requests
wait, or the peer does not read its answers: a slow client holds up nobody but itself.  A fetch that
waits lets nothing be served either: a greedy client has one large answer in memory, not a hundred.
Most clients send nothing before they have its answer, so reading goes on until one does.

A large request lets small ones of others go first (`precedence`): it waits with those that found no
room (`backlog`), until its turn comes, or this session has anything else to do.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ottla.broker.answers import COALESCED_BYTES, Outcome, Pending, Promised, Slot
from ottla.broker.backlog import Backlog, Frame, Kept
from ottla.broker.complaints import Complaints
from ottla.broker.connection import Connection
from ottla.broker.context import Context
from ottla.broker.dispatch import Route
from ottla.broker.flusher import AfterSync, Sync
from ottla.broker.meters import Meters
from ottla.broker.precedence import LARGE_REQUEST_BYTES, Precedence, call_behind_others
from ottla.broker.read_budget import ReadBudget
from ottla.errors import ErrorCode, WireError
from ottla.wire.frame import FrameReader
from ottla.wire.header import (
    Request,
    RequestHeader,
    UnsupportedRequestError,
    decode_request,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.registry import ApiKey
from ottla.wire.schema import replace

log = logging.getLogger(__name__)

LARGE_READ_BYTES: Final = 32 * 1024
"""If so much comes in one read, and a request is not whole, the rest is on its way."""


class Session(Connection):
    """Serves one connection."""

    def __init__(
        self,
        *,
        routes: Mapping[int, Route],
        reader: FrameReader,
        max_in_flight: int,
        max_queued_bytes: int,
        budget: ReadBudget,
        complaints: Complaints,
        meters: Meters,
        precedence: Precedence,
        expect_much: Callable[[], None],
        make_context: Callable[["Session", int, str | None], Context],
        on_open: Callable[["Session"], bool],
        on_closed: Callable[["Session"], None],
    ) -> None:
        super().__init__()
        self._routes = routes
        self._reader = reader
        self._max_in_flight = max_in_flight
        self._max_queued_bytes = max_queued_bytes
        self._much_bytes = min(COALESCED_BYTES, max_queued_bytes)
        self._budget = budget
        self._held_bytes = 0  # what was last reported to the budget
        self._lacks_memory = False
        self._complaints = complaints
        self._meters = meters
        self._untimed_counts = meters.untimed_counts
        self._precedence = precedence
        self._expect_much = expect_much
        self._make_context = make_context
        self._context: Context | None = None
        """Of the last request: most clients speak one version of an API and have one name."""
        self._on_open = on_open
        self._on_closed = on_closed
        self._backlog = Backlog()
        self._is_held = False  # whether a fetch waits: nothing is served meanwhile
        self._is_frame_fresh = False  # whether what is served lies where it was read just now
        self._will_catch_up = False
        self._sync: Sync | None = None  # the last one that we are told of
        self._is_reading = True
        self._is_writable = True
        self._waiting: dict[Pending, None] = {}  # in order: a simulation shall be repeatable

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._on_open(self):
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._serve_backlog(is_gone=True)  # it was not we who closed it
        self._transport = None
        for each in self._waiting:
            each.cancel()
        self._waiting.clear()
        self._answers.clear()
        self._backlog.clear()
        self._reader.abandon()
        self._report_held()
        self._context = None  # it holds us, and nobody shall wait for the garbage collector
        self._on_closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        reader = self._reader
        try:
            frames = reader.buffer_updated(nbytes)
            if reader.held_bytes != self._held_bytes:
                self._report_held()
            if nbytes >= LARGE_READ_BYTES and reader.is_amid_frame:
                self._expect_much()
            if not frames or (self._backlog and not reader.fault and not self._serve_backlog()):
                return
            self.last_active = self._loop.time()
            if self._steps_back(frames):
                return
            self._is_frame_fresh = True
            for frame in frames:
                if self._backlog or self._is_held or not self._makes_room():
                    self._backlog.append(Kept(bytearray(frame)))  # it is gone with the next read
                elif self.is_open:
                    self._serve(frame)
        except WireError as error:
            if self._serve_backlog():  # it came before what is wrong
                self._refuse(error)
            return
        finally:
            self._is_frame_fresh = False
        self._catch_up()

    def _steps_back(self, frames: list[memoryview]) -> bool:
        """Whether a large request waits until small ones were served that are there already."""
        frame, now_s = frames[0], self.last_active
        if len(frame) < LARGE_REQUEST_BYTES:
            self._precedence.note_small(self, now_s)
            return False
        is_alone = len(frames) == 1 and not self._backlog and not self._is_held
        if not is_alone or not self._precedence.lets_others_first(self, len(frame), now_s):
            return False
        self._backlog.append(Kept(*self._reader.kept(frame), has_stepped_back=True))
        self._precedence.waiting_count += 1
        call_behind_others(self._loop, self._serve_in_turn)
        return True

    def _serve_in_turn(self) -> None:
        self._precedence.waiting_count -= 1
        if self._serve_backlog():
            call_behind_others(self._loop, self._catch_up)

    def eof_received(self) -> None:
        self._serve_backlog(is_gone=True)
        self._catch_up()

    def wait_for_memory(self) -> None:
        """Read no more until the budget has room; see `read_budget`."""
        self._lacks_memory = True
        self._adjust_reading()

    def go_on(self) -> None:
        """There is room again."""
        self._lacks_memory = False
        self._adjust_reading()

    def _report_held(self) -> None:
        self._held_bytes = self._reader.held_bytes
        self._budget.report(self, self._held_bytes)

    def pause_writing(self) -> None:
        self._is_writable = False
        self._adjust_reading()

    def resume_writing(self) -> None:
        self._is_writable = True
        self.last_active = self._loop.time()
        self._catch_up()

    def hold_frame(self) -> Callable[[], None] | None:
        """Keep the bytes of the request that is served until the function is called, if we can."""
        return self._reader.hold() if self._is_frame_fresh else self._backlog.hold()

    def _makes_room(self) -> bool:
        """Write what is ready, if it is much; return whether there is room for more answers."""
        if not self._is_writable:
            return False  # and write nothing: it may be a write that has told us to stop
        answers = self._answers
        if answers.count < self._max_in_flight and answers.size_bytes < self._much_bytes:
            return True  # nearly always
        self._write_ready()
        has_few = answers.count < self._max_in_flight
        return has_few and answers.size_bytes < self._max_queued_bytes and self._is_writable

    def _catch_up(self) -> None:
        """There may be room again: serve what waits for it, then read on."""
        self._will_catch_up = False
        if self._serve_backlog():
            self._write_ready()
            self._adjust_reading()

    def _serve_backlog(self, *, is_gone: bool = False) -> bool:
        """Serve what waits, as far as there is room; False if the client must go.

        If it `is_gone`, room or not, also what waits for others: it may have wanted no answer.
        """
        backlog = self._backlog
        try:
            if is_gone and backlog.is_polite:
                backlog.serve_next(self._serve)
            while backlog and self.is_open and not self._is_held and self._makes_room():
                backlog.serve_next(self._serve)
            if self._reader.fault is not None and not backlog and self.is_open:
                raise self._reader.fault  # in the frame after all those that are served
        except WireError as error:
            self._refuse(error)
            return False
        return True

    def _serve(self, frame: Frame) -> None:
        try:
            request = decode_request(frame)
            api, header, body = request
            version = header.request_api_version
            route = self._routes.get(header.request_api_key)
            if route is None or not route.versions.low <= version <= route.versions.high:
                raise _unsupported(request)
        except UnsupportedRequestError as error:
            first = self._make_context(self, 0, None)
            self._answers.add(*_with_what_we_speak(error, self._routes, first))
            return
        context = self._context
        if context is None or context.version != version or context.client_id != header.client_id:
            context = self._context = self._make_context(self, version, header.client_id)
        try:
            result = route.handler(body, context)
            key = header.request_api_key
            left_count = self._untimed_counts[key] - 1
            self._untimed_counts[key] = left_count
            if not left_count:
                self._meters.sample(key, result, self.last_active)
            is_there = type(result) is api.response
            if type(body) is ProduceRequest and body.acks == 0:
                assert is_there, "a produce request without acks has nothing to wait for"
            elif is_there:
                self._answers.add(header, result)
            elif type(result) is AfterSync:
                self._hold_back(header, result)
            else:
                self._expect(result, request)
        except Exception as error:
            self._fail(request, error)

    def _hold_back(self, header: RequestHeader, result: AfterSync[Any]) -> None:
        self._answers.add_after(header, result)
        sync = result.sync
        if sync.is_over:
            self._answers.settle(sync)
        elif sync is not self._sync:  # we are told once, whatever number of answers wait
            self._sync = sync
            sync.when_over(self._on_synced)

    def _on_synced(self, sync: Sync) -> None:
        self._answers.settle(sync)
        self._catch_up()

    def _expect(self, result: Pending | Awaitable[Any], request: Request) -> None:
        """Keep a place for what `result` will give.

        An answer that others wait behind is written when it is told, which may be in the middle of
        another client's request; so what this one has sent since is served later.
        """
        pending = result if isinstance(result, Pending) else Promised(result)
        slot, since_s = self._answers.reserve(), self.last_active
        self._waiting[pending] = None
        holds = request.header.request_api_key == ApiKey.FETCH
        self._is_held = self._is_held or holds

        def tell(outcome: Outcome) -> None:
            self._waiting.pop(pending, None)
            self._settle(slot, request, outcome, since_s)
            if holds:
                self._is_held = False
                self._write_ready()
            if not holds or self._backlog or not self._is_reading:
                self._catch_up_soon()

        pending.when_known(tell)

    def _settle(self, slot: Slot, request: Request, outcome: Outcome, since_s: float) -> None:
        """What a request has waited for is known, and its faults are not those of who tells us."""
        if self._transport is None and not isinstance(outcome, Exception):
            return  # nobody is there any more; a fault of ours is told all the same
        try:
            if isinstance(outcome, Exception):
                raise outcome
            self._answers.fill(slot, request.header, outcome)
        except Exception as error:
            self._fail(request, error)
        else:
            self._meters.finish(request.header.request_api_key, since_s)

    def _catch_up_soon(self) -> None:
        """Write in the next turn of the loop, once for all answers of this one."""
        if not self._will_catch_up:
            self._will_catch_up = True
            self._loop.call_soon(self._catch_up)

    def _adjust_reading(self) -> None:
        wanted = not self._backlog and not self._lacks_memory and self._makes_room()
        if self._transport is None or wanted == self._is_reading:
            return
        self._is_reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _refuse(self, error: WireError) -> None:
        self._complaints.add("connection closed", self.peer, error)
        self._backlog.clear()
        self.close()

    def _fail(self, request: Request, error: BaseException) -> None:
        """A handler raised: that is a bug or a broken disk, and this client must not wait."""
        log.error("request failed: api=%s peer=%s:%s", request.api.name, *self.peer, exc_info=error)
        self.abort()


def _with_what_we_speak(
    error: UnsupportedRequestError, routes: Mapping[int, Route], context: Context
) -> tuple[RequestHeader, Any]:
    """ApiVersions in a version we do not know: error 35 and our ranges, in v0 (KIP-511).

    Any other request that we do not know is an error.
    """
    if not error.is_api_versions:
        raise error
    header = RequestHeader(
        request_api_key=error.key,
        request_api_version=0,
        correlation_id=error.correlation_id,
        client_id=None,
    )
    response = routes[error.key].handler(ApiVersionsRequest(), context)
    return header, replace(response, error_code=ErrorCode.UNSUPPORTED_VERSION)


def _unsupported(request: Request) -> UnsupportedRequestError:
    header = request.header
    return UnsupportedRequestError(
        header.request_api_key, header.request_api_version, header.correlation_id
    )
