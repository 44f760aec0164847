"""A broker in this process, from its options until somebody stops it.

Settings come from a file, then from `-X`, then from options, and the last word counts.  The first
SIGTERM or Ctrl-C stops in good order: logs are closed, and the next start need not look into them.
A second one stops at once, which loses nothing that was acknowledged.

What is imported here is imported before the first record is acknowledged; so nothing is that can
wait for its first use.
"""

import errno
import gc
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from ottla import __version__
from ottla.cli.saying import InUseError, Output
from ottla.cli.settings import parse_pairs
from ottla.errors import ConfigError, OttlaError
from ottla.runtime.lean import import_asyncio, load_put_off
from ottla.values import dataclass

if TYPE_CHECKING:
    from ottla.broker.config import BrokerConfig
    from ottla.broker.server import Server
    from ottla.broker.storage import Opened

DEFAULT_HOST: Final = "localhost"
DEFAULT_PORT: Final = 9092
DEFAULT_CONSOLE_PORT: Final = 8080
FLUSHES: Final = ("commit", "os")
_LEFT_ALONE_S: Final = 0.5
"""How long the first clients have the broker for themselves, before it loads the rest; and how soon
that is tried again."""
EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")


class BrokerFailedError(OttlaError):
    """The machine did not give the broker what it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of `ottla serve`, which says what they mean."""

    host: str | None = None
    port: int | None = None
    advertise: str | None = None
    data_dir: str | None = None
    flush: str | None = None
    config_file: str | None = None
    settings: tuple[str, ...] = ()
    metrics_port: int | None = None
    console: bool = False
    console_port: int = DEFAULT_CONSOLE_PORT
    ephemeral: bool = False
    insecure: bool = False


def serve(output: Output, options: ServeOptions) -> None:
    """Run a broker; return when it was stopped."""
    import_asyncio()
    if options.console:
        from ottla.cli.console import check_installed

        check_installed()
    if not __debug__:
        raise ConfigError("a broker checks itself with assertions, so it does not run with -O")
    if options.ephemeral and options.data_dir is not None:
        import click

        raise click.UsageError("--ephemeral has a folder of its own; leave out --data-dir")
    given = _file_settings(options.config_file) | parse_pairs("-X", options.settings)
    with _folder(options.data_dir, options.ephemeral) as folder, _garbage_kept():
        given |= settings_from_options(options, given, folder)
        if options.console and is_for_itself(given):
            given["ottla.metrics.port"] = 0  # the console shows what is told there
        config = checked_config(given)
        _start_logging(output.verbose)
        console_port = options.console_port if options.console else None
        _run(_serve(config, output, console_port), config.idle_poll_us)


def _file_settings(path: str | None) -> dict[str, object]:
    if path is None:
        return {}
    from ottla.cli.server_file import read_settings

    return read_settings(path)


def settings_from_options(
    options: ServeOptions, given: Mapping[str, object], folder: str | None
) -> dict[str, object]:
    """What options say, as settings, beside those that were `given` in another way."""
    settings: dict[str, object] = {}
    if options.host is not None or options.port is not None or "listeners" not in given:
        host = DEFAULT_HOST if options.host is None else options.host
        port = DEFAULT_PORT if options.port is None else options.port
        settings["listeners"] = f"PLAINTEXT://{written(host, port)}"
    if options.advertise is not None:
        settings["advertised.listeners"] = f"PLAINTEXT://{options.advertise}"
    if folder is not None:
        settings["log.dirs"] = folder
    if options.flush is not None or options.ephemeral:
        settings["ottla.flush"] = options.flush or "os"
    if options.metrics_port is not None:
        settings["ottla.metrics.port"] = options.metrics_port
    if options.insecure:
        settings["ottla.insecure"] = True
    return settings


def is_for_itself(given: Mapping[str, object]) -> bool:
    """Whether nobody else can connect, and no port was chosen for metrics."""
    from ottla.broker.config import BrokerConfig, ExposedError

    try:
        config = BrokerConfig.of({**given, "ottla.insecure": False})
    except ExposedError:
        return False
    return config.metrics_port < 0


def checked_config(given: Mapping[str, object]) -> "BrokerConfig":
    """The settings as a whole.

    Listening for other machines needs a word as long as whoever connects may do anything.
    """
    from ottla.broker.config import BrokerConfig, ExposedError

    try:
        config = BrokerConfig.of(given)
    except ExposedError:
        raise _exposure(BrokerConfig.of({**given, "ottla.insecure": True})) from None
    listener = config.listener
    if listener.host in EVERY_INTERFACE and listener.port and config.advertised is None:
        # Nobody can connect to "every interface"; Kafka tells clients this machine's name, too.
        name = f"PLAINTEXT://{socket.gethostname()}:{listener.port}"
        return BrokerConfig.of({**given, "advertised.listeners": name})
    return config


def _exposure(config: "BrokerConfig") -> Exception:
    import click

    refusal = click.UsageError(
        f"{config.listener.host or 'every interface'} can be reached from other machines, and "
        "there is no TLS and no SASL yet: whoever connects could read and delete everything"
    )
    refusal.add_note("--insecure listens there all the same; --host localhost does not")
    return refusal


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Collect no garbage before the start is over: it makes much, and throws away little."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _folder(data_dir: str | None, ephemeral: bool) -> Iterator[str | None]:
    """The data directory that options ask for, removed in the end if it is a temporary one."""
    if not ephemeral:
        yield data_dir
        return
    import shutil
    import tempfile

    temporary = tempfile.mkdtemp(prefix="ottla-")
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary)


def _start_logging(verbose: bool) -> None:
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)-7s %(name)s %(message)s",
    )


def _run(serving: Coroutine[Any, Any, None], idle_poll_us: int) -> None:
    import asyncio

    from ottla.runtime.attention import attentive_loop

    # Like the usual one, but our own, for asyncio would replace that: when its own is replaced in
    # turn, Python writes down what it is, and loads much for that.
    signal.signal(signal.SIGINT, lambda number, frame: signal.default_int_handler(number, frame))
    with asyncio.Runner(loop_factory=lambda: attentive_loop(idle_poll_us)) as runner:
        runner.run(serving)


async def _serve(config: "BrokerConfig", output: Output, console_port: int | None) -> None:
    """Start, say so, wait for the end, stop."""
    import asyncio

    from ottla.runtime.supervisor import Supervisor

    started = time.monotonic()
    async with Supervisor() as supervisor:
        supervisor.stop_on_signals()
        server, opened = await _start(config)
        gc.freeze()  # what is there now stays, and need not be looked at again and again
        gc.enable()
        try:
            _banner(output, config, server, opened, time.monotonic() - started)
            supervisor.start("loading", load_the_rest(lambda: server.request_count))
            with _console(server, output, console_port):
                stopping = asyncio.ensure_future(supervisor.stopping())
                await asyncio.wait({stopping, server.failure}, return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
        finally:
            output.say(f"Stopping: {supervisor.stop_reason or 'the broker cannot go on'}.")
            await server.stop()
    if server.failure.done():
        raise BrokerFailedError(f"the broker cannot go on: {server.failure.exception()}")
    output.say("Stopped cleanly.")


async def load_the_rest(request_count: Callable[[], int]) -> None:
    """Import what the start left out, before somebody has to wait for it.

    A module has to be opened for that.  Where connections have all descriptors, as after a start
    that many clients have waited for, it comes later: that is no reason to stop.
    """
    import asyncio

    from ottla.ports import TOO_MANY_OPEN

    while True:
        await asyncio.sleep(_LEFT_ALONE_S)
        try:
            from ottla.broker.loading import left_out, load

            load_put_off()
            await load(left_out(), request_count)
            break
        except OSError as error:
            if error.errno not in TOO_MANY_OPEN:
                raise
    gc.freeze()


def _console(server: "Server", output: Output, port: int | None) -> AbstractContextManager[object]:
    if port is None:
        return nullcontext()
    from ottla.cli.console_child import console_beside

    told = server.metrics_address
    return console_beside(
        reached(*server.address),
        port,
        metrics_url=None if told is None else f"http://{reached(*told)}/metrics/traffic",
        is_json=output.is_json,
    )


def written(host: str, port: int) -> str:
    """An address as clients read it: an IPv6 address has brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reached(host: str, port: int) -> str:
    """Where this machine itself finds who listens at an address; nobody can connect to "all"."""
    return written(DEFAULT_HOST if host in EVERY_INTERFACE else host, port)


async def _start(config: "BrokerConfig") -> tuple["Server", "Opened"]:
    from ottla.broker.embedded import open_server
    from ottla.runtime.disk import RealDisk

    try:
        # The metadata store is opened before the folder is claimed, and would say less about who
        # has it.
        folder = RealDisk(config.data_dir)
        folder.lock()
        folder.close()
        server = open_server(config)
        return server, await server.start()
    except OSError as error:
        raise _unable(error, config) from error


def _unable(error: OSError, config: "BrokerConfig") -> OttlaError:
    """An error of the operating system, with what to do about it."""
    from socket import gaierror

    where = f"{config.listener.host}:{config.listener.port}"
    if isinstance(error, gaierror) or error.errno == errno.EADDRNOTAVAIL:
        failure: OttlaError = BrokerFailedError(f"{error.filename or where}: {error.strerror}")
        failure.add_note("--host takes a name or an address of this machine")
        return failure
    match error.errno:
        case errno.EADDRINUSE:
            failure = InUseError(f"another program listens on {error.filename or where}")
            option = "--metrics-port" if error.filename else "--port"
            failure.add_note(f"{option} takes another port, and 0 any that is free")
        case errno.EWOULDBLOCK:
            failure = InUseError(f"{config.data_dir}: {error.strerror}")
            failure.add_note("stop the other broker, or give this one another --data-dir")
        case errno.EACCES | errno.EPERM | errno.ENOENT | errno.ENOTDIR | errno.EROFS:
            failure = BrokerFailedError(f"{error.filename or where}: {error.strerror}")
            failure.add_note("--data-dir names another folder, --port another port")
        case _:
            failure = BrokerFailedError(str(error))
    return failure


def _banner(
    output: Output, config: "BrokerConfig", server: "Server", opened: "Opened", seconds: float
) -> None:
    address = written(*server.address)
    folder = os.path.abspath(config.data_dir)
    shown = server.metrics_address
    metrics = None if shown is None else f"http://{written(*shown)}/metrics"
    if output.is_json:
        output.json_line(
            {
                "event": "ready",
                "version": __version__,
                "node_id": config.node_id,
                "bootstrap_servers": address,
                "metrics": metrics,
                "data_dir": folder,
                "flush": config.flush,
                "topics": opened.topic_count,
                "partitions": opened.partition_count,
                "was_clean": opened.was_clean,
                "offline": list(opened.offline),
                "seconds": round(seconds, 3),
            }
        )
        return
    output.line(f"Ottla {__version__} · node {config.node_id} · flush={config.flush}")
    output.line(f"  kafka  {address}   bootstrap servers for any Kafka client")
    output.line(f"  data   {folder}   {_recovery(opened)}")
    if metrics is not None:
        output.line(f"  http   {metrics}   for Prometheus; /healthz, /readyz")
    for partition in opened.offline:
        output.say(f"warning: {partition} cannot be opened and is offline; the log says why")
    for name, reason in sorted(config.ignored.items()):
        output.say(f"note: {name} has no effect: {reason}")
    output.line(f"Ready in {seconds:.2f} s. Ctrl-C stops cleanly; Ctrl-C twice stops now.")


def _recovery(opened: "Opened") -> str:
    if not opened.partition_count:
        return "(empty)"
    from ottla.quantities import counted

    found = (
        f"{counted(opened.topic_count, 'topic')}, {counted(opened.partition_count, 'partition')}"
    )
    return f"({found}{'' if opened.was_clean else ', recovered after a crash'})"
