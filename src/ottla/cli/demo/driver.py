"""The process that runs the pipeline of the demo, so that it can be killed.

It is `ottla pipeline run`, as anybody would start it, but in a session of its own: a Ctrl-C is for
the demo, which then stops it.  What it prints, one JSON object for each batch, is read by a thread.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

from ottla.cli.demo import shop
from ottla.errors import OttlaError
from ottla.pipeline.state import STATE_VARIABLE, StateFolder
from ottla.spark.session import QUICK_START

STOP_TIMEOUT_S: Final = 60
MASTER: Final = "local[2]"


class DriverError(OttlaError):
    """The pipeline ended when it should not have."""


class Driver:
    """One run of the pipeline."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._errors = folder / "driver.err"
        self._state = StateFolder(folder, Path(str(shop.__file__)).stem)
        self.batches: list[dict[str, Any]] = []
        """What it said of each batch, in order; appended to by a thread."""
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "ottla", "pipeline", "run", str(shop.__file__)),
                    *("--bootstrap", bootstrap, "--master", MASTER, "--output", "json"),
                    *(word for pair in QUICK_START.items() for word in ("--conf", "=".join(pair))),
                ],
                env={**os.environ, STATE_VARIABLE: str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, name="driver", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raise `DriverError` if it has ended."""
        if self._process.poll() is not None:
            said = self._errors.read_text("utf-8", "replace").strip().splitlines()
            last = said[-1] if said else "it said nothing"
            why = next((line for line in reversed(said) if line.startswith("error: ")), last)
            raise DriverError(f"the pipeline ended: {why.removeprefix('error: ')}")

    def kill(self) -> None:
        """`kill -9`, for Java and Python alike."""
        java_pid = self._state.read().java_pid
        if java_pid is not None:
            os.kill(java_pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def stop(self) -> None:
        """Let it stop after its batch; kill it if it does not."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()  # Java ends with it
                self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.endswith(b"\n"):  # what is cut off was being written when it was killed
                    self.batches.append(json.loads(line))
