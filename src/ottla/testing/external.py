"""Another cluster in the place of the embedded broker: the same tests, against Apache Kafka.

It has the short ways in.  What only a broker in this process can do, faults and time, skips the
test that asks for it.
"""

import time
from datetime import timedelta
from types import TracebackType
from typing import NoReturn, Self

import pytest

from ottla.testing.broker import Probed
from ottla.testing.faults import PROBE_CLIENT_ID, Faults
from ottla.testing.probe import Probe


class ExternalCluster(Probed):
    """A cluster that was there before us and outlives us."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._the_probe = Probe(bootstrap_servers, client_id=PROBE_CLIENT_ID, now_ms=_now_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._the_probe.close()

    @property
    def faults(self) -> Faults:
        """Skips the test."""
        _skip("faults")

    def advance(self, by: timedelta | float) -> None:
        """Skips the test."""
        _skip("advance()")

    def run_housekeeping(self) -> None:
        """Skips the test."""
        _skip("run_housekeeping()")

    def crash(self) -> None:
        """Skips the test."""
        _skip("crash()")

    def restart(self) -> None:
        """Skips the test."""
        _skip("restart()")

    def reset(self) -> None:
        """There is nothing that a test could have changed."""

    def _probe(self) -> Probe:
        return self._the_probe


def _skip(what: str) -> NoReturn:
    pytest.skip(f"{what} needs the embedded broker, and this is another cluster")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
