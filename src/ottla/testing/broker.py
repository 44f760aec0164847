"""`TestBroker`: a broker for tests, with faults, a clock that can be moved, and short ways in.

    with TestBroker() as broker:
        broker.produce("orders", "espresso", "lungo")
        broker.faults.drop_reply("Produce")
        ...
        assert [record.value for record in broker.records("orders")] == [...]

Every wait in the broker, be it a long poll, a timeout or a pause between rounds of housekeeping,
and every look at the clock goes by its own time.  `advance` moves that time; nothing sleeps.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any, Final, Self, TypeVar

from ottla.broker.config import BrokerConfig
from ottla.broker.embedded import Broker, open_server
from ottla.broker.server import Server
from ottla.errors import ClosedError
from ottla.runtime.network import RealNetwork
from ottla.runtime.thread import LoopThread
from ottla.testing.adjustable import AdjustableClock, AdjustableLoop
from ottla.testing.faults import PROBE_CLIENT_ID, Faults
from ottla.testing.probe import PlainRecord, Probe

T = TypeVar("T")

Text = bytes | str | None
"""A key or a value: text travels as UTF-8, None is null."""

_SELDOM_MS: Final = 365 * 24 * 3_600_000

DEFAULTS: Final[Mapping[str, str | int | float | bool]] = {
    "group.initial.rebalance.delay.ms": 0,
    "connections.max.idle.ms": -1,
    "log.retention.check.interval.ms": _SELDOM_MS,
    "log.cleaner.backoff.ms": _SELDOM_MS,
}
"""Nobody waits for more members of a group, and `advance` leaves connections alone.

Records are deleted and compacted when a test says so (`advance`, `run_housekeeping`), and at no
other time: else a test whose records are of long ago would lose them now and then, in the middle.
"""

_TURNS: Final = 8
"""How often the loop goes round before timers that came due count as done."""


class Probed:
    """The short ways into a cluster; who inherits it says where the probe is."""

    def _probe(self) -> Probe:
        raise NotImplementedError

    def create_topic(
        self, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; `config` has Kafka's names, e.g. `{"cleanup.policy": "compact"}`."""
        self._probe().create_topic(topic, partitions, config or {})

    def produce(
        self, topic: str, *values: Text, key: Text = None, partition: int | None = None
    ) -> None:
        """Write records, and return when they are acknowledged; creates the topic if need be.

        They have the broker's time as timestamp, also after `advance`.
        """
        encoded = [_bytes_of(value) for value in values]
        self._probe().produce(topic, encoded, _bytes_of(key), partition)

    def records(self, topic: str, *, committed: bool = True) -> list[PlainRecord]:
        """All records of a topic, sorted by partition and offset; [] if there is no such topic.

        Args:
            topic: Its name.
            committed: Leave out what transactions have not committed.
        """
        return self._probe().records(topic, committed=committed)

    def wait_for(
        self, topic: str, count: int, timeout: float = 60.0, *, committed: bool = True
    ) -> list[PlainRecord]:
        """What `records` gives, as soon as it is `count` records or more.

        A test that passes does not wait; a test on a busy machine needs its time.

        Raises:
            DeadlineError: It is not after `timeout` seconds; a `TimeoutError`.
        """
        return self._probe().wait_for(topic, count, timeout_s=timeout, committed=committed)

    def end_offsets(self, topic: str, *, committed: bool = True) -> dict[int, int]:
        """Partition -> the offset that comes next; {} if there is no such topic."""
        return self._probe().end_offsets(topic, committed=committed)


class TestBroker(Probed, Broker):
    """A broker inside this process, for tests.  Use it with `with` or `async with`."""

    __test__ = False

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        port: int = 0,
        config: Mapping[str, str | int | float | bool] | None = None,
    ) -> None:
        """As `ottla.Broker`; see `DEFAULTS` for what it does differently."""
        super().__init__(data_dir, port=port, config={**DEFAULTS, **(config or {})})
        self._clock = AdjustableClock()
        self._loop: AdjustableLoop | None = None
        self._the_probe: Probe | None = None
        self._has_crashed = False
        self._claim: socket.socket | None = None
        self.faults: Faults = Faults(self._perform, self._crash)

    def start(self) -> Self:
        """Start it; return when it answers."""
        if not self._port and (claim := _claimed_port()) is not None:
            self._claim, self._port = claim, claim.getsockname()[1]
        super().start()
        try:
            self._the_probe = Probe(
                self.bootstrap_servers, client_id=PROBE_CLIENT_ID, now_ms=self._clock.now_ms
            )
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop it cleanly, if it has not crashed.  Stopping twice is no error."""
        self._close_probe()
        if self._has_crashed:
            self._server, self._has_crashed = None, False
            self._let_go()
        else:
            super().stop()

    def crash(self) -> None:
        """Let it end as `kill -9` would; `restart` brings it back, with all it had acknowledged."""
        self._running()
        self._perform(self._crash)

    def restart(self) -> None:
        """Start it again, at the same address with the same data; stop it first if it runs.

        Faults do not survive it.
        """
        server = self._server
        if server is None or self._thread is None:
            raise ClosedError("the broker was not started")
        self.faults.clear()
        self._close_probe()
        try:
            if not self._has_crashed:
                self._thread.call(server.stop())
        finally:
            self._server, self._has_crashed = None, False
            self._end_thread()
        configured, self._port = self._port, server.address[1]
        try:
            self.start()
        finally:
            self._port = configured

    def reset(self) -> None:
        """Make it fit for another test: end all faults, set the clock right, undo a crash.

        Topics stay.
        """
        self.faults.clear()
        self._clock.offset_ms = 0
        if self._has_crashed:
            self.restart()

    def advance(self, by: timedelta | float) -> None:
        """Let time pass for the broker: by a `timedelta`, or seconds.

        When it returns, timers that came due have fired, and housekeeping has run once (as by
        `run_housekeeping`).  Clients keep their own time: what they stamp on records is the real
        one, unless the topic has `message.timestamp.type=LogAppendTime`.
        """
        seconds = by.total_seconds() if isinstance(by, timedelta) else float(by)
        if seconds < 0:
            raise ValueError(f"time cannot go back by {-seconds:g} s")
        self._call(self._advance(self._running(), seconds))

    def run_housekeeping(self) -> None:
        """Do at once what a broker does every so often: retention, compaction, checkpoints."""
        self._call(self._running().housekeep())

    def _probe(self) -> Probe:
        self._running()
        assert self._the_probe is not None
        return self._the_probe

    def _running(self) -> Server:
        if self._has_crashed:
            raise ClosedError("the broker has crashed, as it was told to; use restart()")
        if self._server is None:
            raise ClosedError("the broker is not running; use `with TestBroker() as broker:`")
        return self._server

    def _close_probe(self) -> None:
        probe, self._the_probe = self._the_probe, None
        if probe is not None:
            probe.close()

    def _let_go(self) -> None:
        super()._let_go()
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.close()
            self._port = 0

    def _new_thread(self) -> LoopThread:
        self._loop = AdjustableLoop()
        return LoopThread("ottla-test-broker", self._loop)

    def _new_server(self, config: BrokerConfig) -> Server:
        return open_server(
            config,
            clock=self._clock,
            network=self.faults.network(RealNetwork()),
            serve=self.faults.serve,
            is_temporary=self._temporary is not None,
        )

    async def _advance(self, server: Server, seconds: float) -> None:
        assert self._loop is not None
        self._clock.offset_ms += round(seconds * 1000)
        self._loop.offset_s += seconds
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        await server.housekeep()

    def _crash(self) -> None:
        if not self._has_crashed:
            assert self._server is not None
            self._has_crashed = True
            self._server.abandon()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._thread is not None
        return self._thread.call(work)

    def _perform(self, act: Callable[[], T]) -> T:
        """Run `act` where nothing else happens meanwhile: in the loop, if there is one."""
        if self._thread is None:
            return act()

        async def run() -> T:
            return act()

        return self._call(run())


def _claimed_port() -> socket.socket | None:
    """A free port that stays ours while its broker is down; None where systems know no such thing.

    Otherwise the system might give it to one of the clients that try to reach the broker meanwhile,
    for its own end of the connection: most brokers of tests have ports from that same range.
    """
    if sys.platform != "linux":
        return None  # elsewhere nobody could listen at a port that is bound already
    claim = socket.socket()
    claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    claim.bind(("127.0.0.1", 0))
    return claim


def _bytes_of(text: Text) -> bytes | None:
    if isinstance(text, str):
        return text.encode()
    if text is None or isinstance(text, bytes):
        return text
    raise TypeError(f"a key or value is bytes, str or None, not {type(text).__name__}")
