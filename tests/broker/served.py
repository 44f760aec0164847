"""A broker in a process of its own, `ottla serve`, that can be killed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from tests.keeping import KEEPS

READY_TIMEOUT_S: Final = 120


class ServedBroker:
    """A running `ottla serve`.  It keeps its data directory when it ends, however it ends."""

    def __init__(self, data_dir: Path, *, port: int = 0, **settings: str | int) -> None:
        given = {**KEEPS, **{name.replace("_", "."): value for name, value in settings.items()}}
        options = [f"-X{name}={value}" for name, value in given.items()]
        command = [sys.executable, "-m", "ottla", "serve", "--port", str(port), "--flush", "commit"]
        self._errors: IO[bytes] = (data_dir.parent / f"{data_dir.name}.err").open("ab+")
        self._process = subprocess.Popen(
            [*command, "--data-dir", str(data_dir), "-o", "json", *options],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.bootstrap_servers = self._wait_until_ready()["bootstrap_servers"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """End it without warning, and wait until it is gone.  Killing twice is no error."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to stop; return its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        code = self._process.wait(READY_TIMEOUT_S)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()
        return code

    def _wait_until_ready(self) -> dict[str, str]:
        """Its first line; the end of its output comes instead if it fails."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace")
            self._end(signal.SIGKILL)
            raise AssertionError(f"the broker did not start:\n{said}")
        ready: dict[str, str] = json.loads(line)
        return ready
