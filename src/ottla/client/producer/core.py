"""The producer behind its two faces: what callers do in their own threads, put together.

A caller finds a route, and puts its record into a batch there (`intake`).  `routes` is the fast way
in, and empty whenever callers have to stop for a reason: the producer is closed, failed, forked, or
between two transactions.  Then `route` says so.
"""

import asyncio
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final

from ottla.client.durations import milliseconds
from ottla.client.engine import Engine
from ottla.client.faces import Driver, Host, next_client_id
from ottla.client.ports import ClientPorts, real_ports
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.coordination import Coordination
from ottla.client.producer.delivery import Failures
from ottla.client.producer.intake import Intake
from ottla.client.producer.kernel import kernel
from ottla.client.producer.lines import Accumulator
from ottla.client.producer.outgoing import Outgoing
from ottla.client.producer.pump import Pump, Stock
from ottla.client.producer.routes import Route, Routes
from ottla.client.producer.sender import Sender
from ottla.client.producer.transactions import PreparedToken
from ottla.client.producer.workshop import Workshop
from ottla.errors import ClosedError, DeadlineError, MisuseError, OttlaError

log = logging.getLogger(__name__)

_ALIVE: Final["weakref.WeakSet[Core]"] = weakref.WeakSet()


class Core:
    """One producer.  Safe from any thread, but for what is said to run on the I/O thread."""

    def __init__(
        self,
        config: ProducerConfig,
        *,
        ports: ClientPorts | None = None,
        host: Callable[[Engine], Host] | None = None,
    ) -> None:
        """`ports` and `host` are for simulations; see `ottla.client.faces`."""
        self.config = config
        self.engine = Engine(
            config,
            ports or real_ports(),
            client_id=next_client_id("producer"),
            creates_topics=config.allow_auto_create_topics,
            topic_idle_ms=config.metadata_max_idle_ms,
        )
        self.driver = Driver(self.engine, None if host is None else host(self.engine))
        self.clock = self.engine.ports.clock
        self.lock = threading.Lock()
        self.lines = Accumulator(
            batch_bytes=config.batch_size,
            buffer_bytes=config.buffer_memory,
            max_record_bytes=config.max_request_size,
            hasten=lambda batch: self.pump.hasten(batch),
        )
        self.sender = Sender(config, self.lines)
        self.failures = Failures()
        self.workshop = Workshop(self.lock, self.lines)
        stock = Stock(
            lock=self.lock,
            room=threading.Condition(self.lock),
            lines=self.lines,
            sender=self.sender,
            workshop=self.workshop,
            failures=self.failures,
        )
        self.pump = Pump(
            self.engine,
            config,
            stock,
            call_soon=self.driver.call_soon,
            max_version=lambda: self.coordination.max_produce_version,
        )
        self.coordination = Coordination(self.engine, config, stock, self.pump)
        self.intake = Intake(
            config,
            stock,
            self.pump,
            now_ms=self.now_ms,
            check_usable=self.check_usable,
        )
        self._routes = Routes(config, self.lines, self.engine.ports.entropy.random, self.now_ms)
        self.door = kernel.Door(self.lock, self.clock, self.engine.metadata)
        self._time: Callable[[], float] = time.monotonic
        self._is_begun = False
        self.is_closed = False
        self._pid = os.getpid()
        self.is_foreign = False
        """Whether this process was forked from the one that uses it."""
        _ALIVE.add(self)

    @property
    def routes(self) -> dict[str, Route]:
        """Topics that may be sent to right now; see the module's words."""
        return self.door.routes

    def outgoing(self, key_serde: Any, value_serde: Any) -> Outgoing:
        """What happens to records before they get here."""
        return Outgoing(key_serde, value_serde, self.config.interceptors, self.clock.now_ms)

    def now_ms(self) -> float:
        """The time of the I/O thread's loop."""
        return self._time() * 1000

    # Its life.  On the I/O thread.

    async def begin(self) -> None:
        """Start to send, if it is not started."""
        if not self._is_begun:
            self._is_begun = True
            self._time = asyncio.get_running_loop().time
            self.engine.spawn("sender", self.pump.run())

    async def open(self, timeout_s: float | None = None, *, once: bool = False) -> None:
        """Start, and wait until a broker answers; see `Engine.connect`."""
        await self.begin()
        await self.engine.connect(milliseconds(timeout_s), once=once)

    async def flush(self) -> None:
        """Wait until everything that was sent is settled."""
        await self.begin()
        await self.pump.flush()

    async def partitions_for(self, topic: str, timeout_s: float | None) -> list[int]:
        """The partitions of a topic; waits for it up to max.block.ms, if nobody says otherwise."""
        await self.begin()
        limit_ms = milliseconds(timeout_s)
        view = await self.engine.topic(
            topic, self.config.max_block_ms if limit_ms is None else limit_ms
        )
        return [partition.partition for partition in view.partitions]

    async def begin_transaction(self, owner: object) -> None:
        """Open a transaction, which `owner` will end."""
        await self.begin()
        await self.coordination.begin(owner)

    async def end_prepared(self, prepared: str, *, commits: bool) -> bool:
        """End a transaction that somebody prepared; `prepared` is its token."""
        token = PreparedToken.of(prepared)
        await self.begin()
        return await self.coordination.end_prepared(token, commits=commits)

    async def _last(self) -> None:
        """What a producer does before it is closed: end its transaction, deliver its records."""
        await self.begin()
        if self.coordination.is_open:
            await self.coordination.abort()
        else:
            await self.pump.flush()

    # In the caller's thread.

    def close_blocking(self, timeout_s: float | None) -> None:
        """Deliver what was sent, for up to `timeout_s`; then fail the rest, and end."""
        if self._is_begun:
            self.driver.close_blocking(self._last_within(timeout_s))

    async def close_async(self, timeout_s: float | None) -> None:
        """As `close_blocking`, from an event loop."""
        if self._is_begun:
            await self.driver.close_async(self._last_within(timeout_s))

    async def _last_within(self, timeout_s: float | None) -> None:
        begun_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(timeout_s):
                await self._last()
        except TimeoutError as late:
            if isinstance(late, OttlaError):
                raise
            log.warning("closed before everything was delivered")
        finally:
            self.pump.abandon(ClosedError("the producer was closed before it was delivered"))
            if timeout_s is not None:  # that is for records that nobody acknowledges, too
                passed_s = asyncio.get_running_loop().time() - begun_s
                self.engine.send_timeout_s = max(0.0, timeout_s - passed_s)

    def metrics(self) -> dict[str, float]:
        """What is counted, and how full it is."""
        with self.lock:
            now = {
                "buffer-available-bytes": float(self.lines.buffer_bytes - self.lines.used_bytes),
                "buffer-total-bytes": float(self.lines.buffer_bytes),
                "batches-incomplete": float(len(self.lines.incomplete)),
            }
        return dict(sorted({**self.engine.metrics.snapshot(), **now}.items()))

    def shut(self, is_closed: bool = False) -> None:
        """Let nobody in without asking why."""
        self.door.shut()
        if is_closed:
            self.is_closed = True
            self.intake.close()

    def check_usable(self) -> None:
        """Raise why nothing can be sent now, if so."""
        if self.is_closed:
            raise ClosedError("the producer is closed")
        if self.is_foreign:
            raise MisuseError(
                f"this producer belongs to process {self._pid}, which forked process "
                f"{os.getpid()}; make a new producer there"
            )
        self.engine.check_open()
        if self.sender.failure is not None:
            raise self.sender.failure.with_traceback(None)
        self.coordination.check_sendable()

    def route(self, topic: str, partition: int | None = None) -> Route:
        """The way to a topic; waits for metadata up to max.block.ms.

        If it has no such partition as far as we know, it may have grown: the cluster is asked.

        Raises:
            ClosedError: The producer is closed.
            MisuseError: There is no transaction, in a forked process, or in a callback.
            UnknownTopicError: There is no such topic, and it is not created.
            DeadlineError: No broker told in time.
        """
        self.check_usable()
        if (found := self._found(topic)) is None:
            self.driver.run_blocking(self._known(topic))
            found = self._found(topic)
        if _lacks(found, partition):
            self.driver.run_blocking(self.engine.refresh(self.config.max_block_ms))
            found = self._found(topic)
        return _must(found, topic)

    async def route_async(self, topic: str, partition: int | None = None) -> Route:
        """As `route`, for who must not block."""
        self.check_usable()
        if (found := self._found(topic)) is None:
            await self.driver.run_async(self._known(topic))
            found = self._found(topic)
        if _lacks(found, partition):
            await self.driver.run_async(self.engine.refresh(self.config.max_block_ms))
            found = self._found(topic)
        return _must(found, topic)

    def _found(self, topic: str) -> Route | None:
        if not self._is_begun:
            return None
        with self.lock:
            found = self._routes.route(topic, self.engine.cluster)
            if found is not None:
                self.routes[topic] = found
        return found

    async def _known(self, topic: str) -> None:
        await self.begin()
        await self.engine.topic(topic, self.config.max_block_ms)


def _lacks(found: Route | None, partition: int | None) -> bool:
    return found is not None and partition is not None and partition >= found.partition_count


def _must(found: Route | None, topic: str) -> Route:
    if found is None:
        raise DeadlineError(f"metadata of topic {topic!r} was lost; try again")
    return found


def _forget_routes() -> None:
    """In a child process: nobody may go on with what belongs to the parent."""
    for core in list(_ALIVE):
        core.door.shut()
        core.is_foreign = core._is_begun


os.register_at_fork(after_in_child=_forget_routes)
