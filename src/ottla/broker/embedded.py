"""`ottla.Broker`: a broker inside this process, on a thread of its own.

    with ottla.Broker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

Without a data directory it lives in a temporary one that goes with it, and leaves durability to
the operating system: it is meant for tests and notebooks.  With one it is the same broker as
`ottla serve`, and keeps what it acknowledged.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ottla.broker.config import BrokerConfig
from ottla.broker.control import ControlSocket
from ottla.broker.dispatch import Route
from ottla.broker.server import Server
from ottla.cluster.store.sqlite import METADATA_FILE, SqliteStore
from ottla.errors import ClosedError, OttlaError
from ottla.ports import Clock, Network, Ports
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import RealDisk
from ottla.runtime.entropy import SystemEntropy
from ottla.runtime.network import RealNetwork
from ottla.runtime.reserve import RESERVE_FILE, Reserve

if TYPE_CHECKING:
    from ottla.broker.freezing import Frozen
    from ottla.runtime.thread import LoopThread


def open_server(
    config: BrokerConfig,
    *,
    clock: Clock | None = None,
    network: Network | None = None,
    serve: Callable[[Mapping[int, Route]], Mapping[int, Route]] | None = None,
    is_temporary: bool = False,
) -> Server:
    """A broker on the real machine, not started yet.  Call it inside the loop that will run it.

    The data directory is claimed first: that error says who has it.  Tests bring a clock and a
    network of their own; for `serve` see `Server`.  Where the directory `is_temporary`, metadata
    need not survive power loss.
    """
    disk = RealDisk(config.data_dir)
    try:
        disk.lock()
        path = os.path.join(disk.root, METADATA_FILE)
        reserve = Reserve(os.path.join(disk.root, RESERVE_FILE))
        store = SqliteStore(
            path, is_temporary=is_temporary, reserve=None if is_temporary else reserve
        )
    except (OSError, OttlaError):
        disk.close()
        raise
    ports = Ports(
        clock=clock or SystemClock(),
        disk=disk,
        network=network or RealNetwork(),
        entropy=SystemEntropy(),
    )
    return Server(
        config,
        ports,
        store,
        serve=serve,
        back_up=lambda folder: store.back_up(os.path.join(disk.root, folder, METADATA_FILE)),
        control=None if is_temporary else ControlSocket(disk.root),
    )


class Broker:
    """A broker inside this process.  Use it with `with` or `async with`."""

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        port: int = 0,
        config: Mapping[str, str | int | float | bool] | None = None,
    ) -> None:
        """Prepare a broker; nothing happens before it is started.

        Args:
            data_dir: Where it keeps its data; a temporary directory if it is None.
            port: Where it listens, on localhost; 0 takes a free port.
            config: Settings under Kafka's own names, e.g. `{"num.partitions": 3}`.
        """
        self._data_dir = None if data_dir is None else os.fspath(data_dir)
        self._temporary: str | None = None
        self._port = port
        self._config = dict(config or {})
        self._thread: LoopThread | None = None
        self._server: Server | None = None

    @property
    def bootstrap_servers(self) -> str:
        """What clients take as `bootstrap.servers`."""
        if self._server is None:
            raise ClosedError("the broker is not running; use `with ottla.Broker() as broker:`")
        return f"127.0.0.1:{self._server.address[1]}"

    def start(self) -> Self:
        """Start it; return when it answers."""
        assert self._thread is None, "the broker is running already"
        try:
            config = BrokerConfig.of(self._settings())
            self._thread = self._new_thread()
            self._server = self._thread.call(self._start(config))
        except BaseException:
            self._let_go()
            raise
        return self

    def stop(self) -> None:
        """Stop it cleanly.  Stopping twice is no error."""
        server, self._server = self._server, None
        if self._thread is not None and server is not None:
            try:
                self._thread.call(server.stop())
            finally:
                self._let_go()

    def snapshot(self, file: str | os.PathLike[str]) -> None:
        """Write a snapshot of it, while it runs, for `ottla restore` to make a broker of.

        It is what a crash at this moment would leave behind: everything that was acknowledged is
        in it.  A `file` that exists is replaced.

        Raises:
            OSError: There is no room, or no such folder.  Then nothing is left behind.
            StorageError: Another one is being taken.
        """
        from ottla.snapshot.taking import write_frozen

        server, thread = self._server, self._thread
        if server is None or thread is None:
            raise ClosedError("the broker is not running; use `with ottla.Broker() as broker:`")
        folder = self._data_dir or self._temporary
        assert folder is not None

        async def freeze() -> "Frozen":
            return await server.freezer().freeze()  # in its own thread: it has one freezer

        frozen = thread.call(freeze())
        try:
            write_frozen(folder, frozen.ends, file)
        finally:
            thread.call(server.freezer().thaw())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _new_thread(self) -> "LoopThread":
        from ottla.runtime.thread import LoopThread

        return LoopThread("ottla-broker")

    def _new_server(self, config: BrokerConfig) -> Server:
        """A server that is not started; called in the loop that will run it."""
        return open_server(config, is_temporary=self._temporary is not None)

    async def _start(self, config: BrokerConfig) -> Server:
        server = self._new_server(config)
        await server.start()
        return server

    def _settings(self) -> dict[str, str | int | float | bool]:
        if self._data_dir is None and self._temporary is None:
            import tempfile  # here, as below, because `ottla serve` starts without it

            self._temporary = tempfile.mkdtemp(prefix="ottla-")
        directory = self._data_dir or self._temporary
        assert directory is not None
        settings: dict[str, str | int | float | bool] = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "log.dirs": directory,
        }
        if self._temporary is not None:
            settings["ottla.flush"] = "os"
        return settings | self._config

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()

    def _let_go(self) -> None:
        self._end_thread()
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            import shutil

            shutil.rmtree(temporary)
