"""Keeps metadata fresh, and lets others wait for it.

A shell around `Metadata`, which decides when to ask and what to believe.  Whoever waits is woken by
each answer and each failure, and looks for himself.  Troubles that time does not mend (credentials,
certificates) are told to those who wait, at once.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from ottla.client.cluster_view import ClusterView, TopicView
from ottla.client.durations import seconds
from ottla.client.metadata import MIN_VERSION, Metadata
from ottla.client.retries import within
from ottla.errors import (
    ConnectError,
    DeadlineError,
    ErrorCode,
    OttlaError,
    exception_for,
    raise_for_code,
)
from ottla.ports import Entropy
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

log = logging.getLogger(__name__)

Ask = Callable[[MetadataRequest, int], Awaitable[MetadataResponse]]
"""(request, least version) -> the answer of any broker."""


class MetadataKeeper:
    """Made in the loop that uses it."""

    def __init__(
        self,
        metadata: Metadata,
        entropy: Entropy,
        *,
        ask: Ask,
        on_update: Callable[[ClusterView], None],
        on_bootstrap: Callable[[], None],
        check_open: Callable[[], None],
    ) -> None:
        self._metadata = metadata
        self._entropy = entropy
        self._ask = ask
        self._on_update = on_update
        self._on_bootstrap = on_bootstrap
        self._check_open = check_open
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._news: asyncio.Future[None] = self._loop.create_future()
        self._trouble: OttlaError | None = None

    def wake(self) -> None:
        """Look again when to ask."""
        self._wake.set()

    async def run(self) -> None:
        """Ask whenever it is time to, for ever."""
        while True:
            now_ms = self._now_ms()
            wait_ms = self._metadata.due_ms(now_ms) - now_ms
            if wait_ms > 0:
                await self._sleep(wait_ms)
            else:
                await self._refresh()

    async def news(self) -> None:
        """Wait for the next answer, or failure."""
        self._check_open()
        await asyncio.shield(self._news)
        self._check_open()

    def tell(self) -> None:
        """Wake everybody who waits."""
        news, self._news = self._news, self._loop.create_future()
        news.set_result(None)

    async def connected(self, timeout_ms: int, *, once: bool = False) -> ClusterView:
        """Wait until the cluster is known; see `Engine.connect`."""
        try:
            async with within(timeout_ms, "connecting"):
                while not self._metadata.cluster.is_known:
                    self._raise_hopeless(is_patient=not once)
                    await self.news()
        except DeadlineError as late:
            if self._trouble is None:
                raise
            raise ConnectError(f"{self._trouble} (for {seconds(timeout_ms)})") from late
        return self._metadata.cluster

    async def refreshed(self, timeout_ms: int) -> ClusterView:
        """Ask now, and wait for an answer."""
        before = self._metadata.cluster.version
        self._metadata.refresh(is_new=True)
        self.wake()
        async with self._patience(timeout_ms, "metadata"):
            while self._metadata.cluster.version == before:
                await self.news()
                self._raise_hopeless()
        return self._metadata.cluster

    async def topic(self, name: str, timeout_ms: int) -> TopicView:
        """Wait until a topic is known; see `Engine.topic`."""
        code: ErrorCode | None = None
        self._metadata.want([name], self._now_ms())
        self.wake()
        before = self._metadata.cluster.version
        try:
            async with self._patience(timeout_ms, f"metadata of topic {name!r}"):
                while (found := self._metadata.cluster.topics.get(name)) is None:
                    if self._metadata.cluster.version > before:
                        code = self._metadata.cluster.errors.get(name)
                        self._raise_final(name, code)
                    await self.news()
                    self._raise_hopeless()
        except DeadlineError as late:
            if code is None:
                raise
            raise exception_for(code, f"topic {name!r} (for {seconds(timeout_ms)})") from late
        return found

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    @asynccontextmanager
    async def _patience(self, timeout_ms: int, what: str) -> AsyncIterator[None]:
        """`within`, whose error tells of the last trouble."""
        try:
            async with within(timeout_ms, what):
                yield
        except DeadlineError:
            if self._trouble is None:
                raise
            raise DeadlineError(
                f"{what}: not known within {seconds(timeout_ms)}; {self._trouble}"
            ) from self._trouble

    async def _sleep(self, wait_ms: int) -> None:
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            return  # it is time to ask
        self._wake.clear()

    async def _refresh(self) -> None:
        asked = self._metadata.question(self._now_ms())
        try:
            answer = await self._ask(asked.request, MIN_VERSION)
            raise_for_code(answer.error_code, "metadata")
            if not answer.brokers:
                raise ConnectError("a broker answered, and knows of no broker")
        except OttlaError as error:
            self._failed(error)
        else:
            self._trouble = None
            luck = self._entropy.random()
            self._on_update(self._metadata.update(asked, answer, self._now_ms(), luck))
        self.tell()

    def _failed(self, error: OttlaError) -> None:
        self._check_open()
        if self._trouble is None:
            log.warning("no metadata: %s", error)
        self._trouble = error
        now_ms = self._now_ms()
        self._metadata.failed(now_ms, self._entropy.random())
        is_told = getattr(error, "code", None) is ErrorCode.REBOOTSTRAP_REQUIRED
        if is_told or self._metadata.needs_bootstrap(now_ms):
            log.warning("beginning again with bootstrap.servers")
            self._metadata.forget_brokers()
            self._on_bootstrap()

    def _raise_hopeless(self, *, is_patient: bool = True) -> None:
        """Raise a trouble that waiting does not mend, or any."""
        if self._trouble is not None and not (is_patient and self._trouble.retriable):
            raise self._trouble.with_traceback(None)

    def _raise_final(self, name: str, code: ErrorCode | None) -> None:
        if code is not None:
            error = exception_for(code, f"topic {name!r}")
            if not error.retriable:
                raise error
