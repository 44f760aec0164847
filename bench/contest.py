"""What a contestant is: one way to use one Kafka client, ours or another's, in timed rounds.

Each has a process of its own (`bench.contestants`), and CPU time is that of the whole process: the
caller's thread and the client's own.  Everybody promises the same: acks=all, and idempotence where
the client has it.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, ClassVar, TypeVar

VALUE_COUNT = 10_000
"""How many different values there are; writers begin anew behind the last one."""
WAIT_S = 5.0
"""Who waits so long for a record has lost it."""

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Taken:
    """What a round took."""

    wall_s: float
    cpu_s: float
    count: int
    """Of the records, or round trips, that this was for."""
    waits_s: list[float] = field(default_factory=list)
    broker_cpu_s: float = 0.0
    peak_bytes: int = 0
    """Of the client, so far.  As the CPU time of the broker, it is seen from the outside."""


def why_missing(kind: "type[Contestant]") -> str:
    """Why there is no such contestant here; nothing if there is."""
    return "" if find_spec(kind.needs) else f"there is no module {kind.needs} here"


def values_of(record_bytes: int) -> list[bytes]:
    """What is written, one after the other, over and over."""
    return [b"%08d" % number + b"v" * (record_bytes - 8) for number in range(VALUE_COUNT)]


class Contestant(ABC):
    """One way to use one client."""

    title: ClassVar[str]
    needs: ClassVar[str] = "ottla"
    """The module without which there is no such contestant."""

    def __init__(self, port: int, topic: str, record_bytes: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.topic = topic
        self.record_bytes = record_bytes
        self.values = self.values_to_write()
        self.open()

    def values_to_write(self) -> list[bytes]:
        return values_of(self.record_bytes)

    @abstractmethod
    def open(self) -> None:
        """Connect, as far as that does not belong to a round."""

    @abstractmethod
    def round(self, count: int) -> Taken: ...

    @abstractmethod
    def close(self) -> None:
        """Let go of what `open` made."""


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()

    def taken(self, count: int) -> Taken:
        cpu_s, wall_s = time.process_time() - self._cpu_s, time.perf_counter() - self._wall_s
        return Taken(wall_s=wall_s, cpu_s=cpu_s, count=count)


class Looped(Contestant):
    """A client for asyncio: its loop runs during rounds only."""

    def __init__(self, port: int, topic: str, record_bytes: int) -> None:
        self._runner = asyncio.Runner()
        super().__init__(port, topic, record_bytes)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def close(self) -> None:
        self._runner.close()
