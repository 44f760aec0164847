"""A real Apache Kafka in a process of its own: to test our clients with, to measure ourselves with.

    with ApacheKafka(NEWEST) as kafka:
        print(kafka.bootstrap_servers)

One node in KRaft mode, from the published jars, with Kafka's own defaults for everything that one
node allows: so acknowledged records are in the page cache.  Its data goes with it.  On a machine
without Java, Maven or the network, `UnavailableError` says which.

`python -m tools.apache_kafka [VERSION]` runs one until Ctrl-C.
"""

import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ottla.client.admin.admin import Admin
from ottla.errors import DeadlineError, TransportError
from tools.maven import UnavailableError, jars, program

NEWEST: Final = "4.3.1"
OLDEST: Final = "3.9.2"
"""The oldest one that our clients are tested with."""

START_TIMEOUT_S: Final = 90.0
STOP_TIMEOUT_S: Final = 30.0
_PAUSE_S: Final = 0.05
_HOST: Final = "127.0.0.1"
_PORTS: Final = range(20_000, 30_000)
"""Below those that the kernel gives to clients: a restarted broker finds its port free."""
_CLUSTER_ID: Final = "b3R0bGEtY29tcGF0LWthZg"
_PLAIN: Final = "PLAINTEXT"
_CONTROLLER: Final = "CONTROLLER"

_LOGGING: Final = ("org.slf4j:slf4j-simple:1.7.36", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
"""Kafka's jars have no logger of their own; this one writes to standard error."""

JVM_OPTIONS: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
"""What Kafka's own start script gives."""

ONE_NODE: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": _CONTROLLER,
    "inter.broker.listener.name": _PLAIN,
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a Kafka is started."""

    settings: Mapping[str, object] = field(default_factory=dict)
    """Of `server.properties`."""
    listeners: Mapping[str, str] = field(default_factory=dict)
    """Name -> security protocol, beside the plain one; see `ApacheKafka.address`."""
    features: Mapping[str, int] = field(default_factory=dict)
    """Name -> level, where it is not the version's own."""
    heap: str = "1g"
    """As Kafka's own script has it."""
    java_options: tuple[str, ...] = ()
    start_timeout_s: float = START_TIMEOUT_S
    stop_timeout_s: float = STOP_TIMEOUT_S
    """Both are long enough for a few topics; a node with very many partitions needs minutes."""


class ApacheKafka:
    """One node.  Use it with `with`."""

    def __init__(self, version: str = NEWEST, setup: Setup | None = None) -> None:
        self.version = version
        self._setup = setup or Setup()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path()
        self._ports: dict[str, int] = {}
        self._class_path = ""

    @property
    def bootstrap_servers(self) -> str:
        return self.address(_PLAIN)

    @property
    def pid(self) -> int:
        """Of the process, for those who ask the kernel what it costs."""
        assert self._process is not None, "it does not run"
        return self._process.pid

    def address(self, listener: str) -> str:
        """Where a listener is."""
        return f"{_HOST}:{self._ports[listener]}"

    def __enter__(self) -> Self:
        folder = jars(
            f"kafka-{self.version}", f"org.apache.kafka:kafka_2.13:{self.version}", _LOGGING[0]
        )
        self._class_path = f"{folder}/*"
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-kafka-"))
        try:
            self._ports = _free_ports([_PLAIN, _CONTROLLER, *self._setup.listeners])
            self._write_settings()
            self._format()
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Start the process; return when it answers."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start the process, and do not wait for it."""
        assert self._process is None, "it runs already"
        options = (f"-Xmx{self._setup.heap}", *JVM_OPTIONS, *self._setup.java_options)
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [*self._java(*options), "kafka.Kafka", str(self._properties)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # a Ctrl-C at the terminal is for us, not for it
            )

    def wait(self) -> None:
        """Return when it answers."""
        assert self._process is not None, "it does not run"
        deadline_s = time.monotonic() + self._setup.start_timeout_s
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"Kafka {self.version} did not start: {self.log_tail()}")
            time.sleep(_PAUSE_S)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without warning; its data stays until the end of the block."""
        self._end(signal.SIGKILL)

    def log_tail(self) -> str:
        """What it said last."""
        return "\n".join(self._log.read_text("utf-8", "replace").splitlines()[-20:])

    @property
    def _log(self) -> Path:
        return self._folder / "kafka.log"

    @property
    def _properties(self) -> Path:
        return self._folder / "server.properties"

    def _java(self, *options: str) -> list[str]:
        return [program("java"), *options, _LOGGING[1], "-cp", self._class_path]

    def _write_settings(self) -> None:
        protocols = {_PLAIN: _PLAIN, _CONTROLLER: _PLAIN, **self._setup.listeners}
        listeners = ",".join(f"{name}://{self.address(name)}" for name in protocols)
        settings = {
            **ONE_NODE,
            "listeners": listeners,
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in protocols.items()
            ),
            "controller.quorum.voters": f"1@{self.address(_CONTROLLER)}",
            "log.dirs": self._folder / "data",
            **self._setup.settings,
        }
        lines = (f"{name}={_property(value)}\n" for name, value in settings.items())
        self._properties.write_text("".join(lines), "utf-8")

    def _format(self) -> None:
        command = self._java("-Xmx128m", "-XX:TieredStopAtLevel=1")
        command += ["kafka.tools.StorageTool", "format"]
        command += ["--cluster-id", _CLUSTER_ID, "--config", str(self._properties)]
        for name, level in self._setup.features.items():
            command += ["--feature", f"{name}={level}"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False
        )
        if done.returncode:
            raise RuntimeError(f"Kafka {self.version} has no storage: {done.stdout}{done.stderr}")

    def _answers(self) -> bool:
        if not self._is_listening():
            return False  # a client would complain aloud each time
        try:
            with closing(Admin(self.bootstrap_servers)) as admin:
                admin.connect(5.0, once=True)
        except (TransportError, DeadlineError):
            return False
        return True

    def _is_listening(self) -> bool:
        try:
            socket.create_connection((_HOST, self._ports[_PLAIN]), timeout=5).close()
        except OSError:
            return False
        return True

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(self._setup.stop_timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def _property(value: object) -> str:
    """As a file of properties has it: true in lower case, and lines escaped."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _free_ports(names: list[str]) -> dict[str, int]:
    """A port for each name, all free and all different."""
    found: dict[str, int] = {}
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(found) == len(names):
            break
        with socket.socket() as probe:
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
        found[names[len(found)]] = port
    return found


def main(arguments: list[str]) -> int:
    """Run one until Ctrl-C."""
    try:
        with ApacheKafka(arguments[0] if arguments else NEWEST) as kafka:
            print(f"Apache Kafka {kafka.version} is at {kafka.bootstrap_servers}", flush=True)
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
    except UnavailableError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
