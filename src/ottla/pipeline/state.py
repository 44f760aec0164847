"""What is known of a pipeline outside of it: one folder for each, with its name.

    <state>/pipelines/shop/state.json      what it is, and how far it came
    <state>/pipelines/shop/lock            held as long as it runs
    <state>/pipelines/shop/spark.log       what Spark says
    <state>/pipelines/shop/checkpoints/    where its steps go on, unless the user chose a place

Who holds the lock runs: the system lets go of it when the process ends, however it ends.  The state
file is replaced, never changed, so a reader sees one state or the next.
"""

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ottla.errors import OttlaError
from ottla.pipeline.progress import StepProgress

STATE_VARIABLE: Final = "OTTLA_STATE_DIR"
VERSION: Final = 1
RUNNING: Final = "running"
KILLED: Final = "killed"
STOPPED: Final = "stopped"
FINISHED: Final = "finished"
FAILED: Final = "failed"


class PipelineRunningError(OttlaError):
    """A pipeline of that name runs already."""


class UnknownPipelineError(OttlaError, LookupError):
    """No pipeline of that name ever ran here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A pipeline as it was last seen."""

    name: str
    pid: int
    java_pid: int | None = None
    """The process of Spark's JVM, if the pipeline has started one."""
    file: str
    bootstrap: str
    master: str
    checkpoint: str
    is_once: bool
    started_ms: int
    updated_ms: int
    outcome: str = RUNNING
    """running, stopped, finished or failed, as it says itself; see `State.now`."""
    trouble: str = ""
    """Why it failed."""
    steps: tuple[StepProgress, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    """Step -> its consumer group."""

    def now(self, is_locked: bool) -> str:
        """What it does: one that said it runs and holds no lock was killed."""
        return KILLED if self.outcome == RUNNING and not is_locked else self.outcome


def state_dir(environ: Mapping[str, str]) -> Path:
    """Where things are kept that must outlive a program, on this machine."""
    if given := environ.get(STATE_VARIABLE):
        return Path(given)
    base = environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "ottla"


class StateFolder:
    """The folder of one pipeline."""

    def __init__(self, root: Path, name: str) -> None:
        self.path = root / "pipelines" / name
        self._name = name

    @property
    def log_file(self) -> Path:
        return self.path / "spark.log"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Be the only one who runs this pipeline on this machine.

        Raises:
            PipelineRunningError: Somebody else is.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with self._lock_file.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._running_error() from None
            yield

    @property
    def is_claimed(self) -> bool:
        """Whether it runs."""
        try:
            with self._lock_file.open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def write(self, state: State) -> None:
        """Replace what is known."""
        told: dict[str, Any] = {"v": VERSION}
        told |= {name: getattr(state, name) for name in _PLAIN}
        told["steps"] = [step.as_json() for step in state.steps]
        told["groups"] = dict(state.groups)
        draft = self._state_file.with_suffix(".new")
        draft.write_text(json.dumps(told, indent=1), "utf-8")
        draft.replace(self._state_file)

    def read(self) -> State:
        """What is known.

        Raises:
            UnknownPipelineError: Nothing.
        """
        try:
            told = json.loads(self._state_file.read_text("utf-8"))
        except FileNotFoundError:
            raise UnknownPipelineError(f"no pipeline {self._name!r} ever ran here") from None
        except ValueError as error:
            raise OttlaError(f"{self._state_file} cannot be read: {error}") from None
        if told.get("v") != VERSION:
            raise OttlaError(f"{self._state_file} is of version {told.get('v')}, not {VERSION}")
        known = {name: told[name] for name in _PLAIN}
        steps = tuple(StepProgress.from_json(step) for step in told["steps"])
        return State(**known, steps=steps, groups=told["groups"])

    def seen(self) -> tuple[State, str]:
        """What is known, and what the pipeline does now."""
        is_claimed = self.is_claimed
        state = self.read()
        return state, state.now(is_claimed)

    @property
    def _lock_file(self) -> Path:
        return self.path / "lock"

    @property
    def _state_file(self) -> Path:
        return self.path / "state.json"

    def _running_error(self) -> PipelineRunningError:
        try:
            who = f", as process {self.read().pid}"
        except OttlaError:
            who = ""  # it has only just begun
        error = PipelineRunningError(f"pipeline {self._name!r} runs already{who}")
        error.add_note(f"`ottla pipeline stop {self._name}` stops it after its batch")
        return error


def all_folders(root: Path) -> list[StateFolder]:
    """Every pipeline that ever ran here, by name."""
    parent = root / "pipelines"
    if not parent.is_dir():
        return []
    names = sorted(path.name for path in parent.iterdir() if (path / "state.json").is_file())
    return [StateFolder(root, name) for name in names]


_PLAIN: Final = (
    "name",
    "pid",
    "java_pid",
    "file",
    "bootstrap",
    "master",
    "checkpoint",
    "is_once",
    "started_ms",
    "updated_ms",
    "outcome",
    "trouble",
)
