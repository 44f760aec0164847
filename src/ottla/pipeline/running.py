"""`run`: a pipeline from its declaration to its end, with everything that it needs on the way.

In this order: claim the name, so that it runs once on this machine; make the topics that it writes
to; take the session, or make one; run; write down how it ended.  A session of the caller's is left
as it was found.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.client.addresses import DEFAULT_BOOTSTRAP
from ottla.client.admin.admin import Admin
from ottla.client.config import BOOTSTRAP_VARIABLE
from ottla.errors import ConfigError
from ottla.pipeline.graph import check
from ottla.pipeline.loading import load
from ottla.pipeline.progress import BatchReport, StepProgress
from ottla.pipeline.queries import Queries, RunSettings, check_options
from ottla.pipeline.runner import PipelineFailedError, Runner, Watch
from ottla.pipeline.spec import Pipeline, Step
from ottla.pipeline.state import FAILED, State, StateFolder, state_dir
from ottla.pipeline.topics import look_up, make_missing
from ottla.spark.session import THIS_MACHINE, borrowed_session, java_pid, was_submitted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_INTERVAL_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a pipeline is to run.  Everything has a default that works on a laptop."""

    bootstrap: str | None = None
    """The brokers; None: the environment variable OTTLA_BOOTSTRAP, else this machine."""
    once: bool = False
    """Read what is there and end, instead of going on."""
    every: str | None = None
    """How often a batch begins, as `10 seconds`; None: as soon as the one before has ended."""
    checkpoint: str | None = None
    """Where steps remember how far they came; None: the state folder of this machine."""
    master: str | None = None
    """Where Spark runs; None: here."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark."""
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of the clients, e.g. `security.protocol`."""
    file: str = ""
    """Where the pipeline was declared, for those who ask."""

    def servers(self) -> str:
        """The brokers to use."""
        return self.bootstrap or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP

    def settings(self, folder: StateFolder) -> RunSettings:
        """What the queries need of it.

        Raises:
            ConfigError: Spark runs elsewhere, where a folder of this machine is of no use.
        """
        is_elsewhere = (
            self.master is not None and not self.master.startswith("local")
        ) or was_submitted(os.environ)
        if self.checkpoint is None and is_elsewhere:
            raise ConfigError(
                "Spark runs elsewhere, and must find the checkpoint after a restart: name a place "
                "that all of its machines see, as --checkpoint s3a://bucket/path"
            )
        checkpoint = self.checkpoint or str(folder.checkpoints)
        return RunSettings(
            bootstrap=self.servers(),
            checkpoint=checkpoint if "://" in checkpoint else str(Path(checkpoint).absolute()),
            is_once=self.once,
            every=self.every,
            client=self.client,
        )


def run(
    what: str | Path | Pipeline | Sequence[Step],
    *,
    name: str = "pipeline",
    spark: "SparkSession | None" = None,
    how: Run | None = None,
    watch: Watch | None = None,
    say: Callable[[str], object] | None = None,
) -> list[StepProgress]:
    """Run a pipeline until it is stopped, or, once, until everything is read.

        pipeline.run([clean, revenue], name="shop", spark=spark, how=pipeline.Run(once=True))

    Args:
        what: A file, what `load` returned, or steps.
        name: What steps that are given as such are called together.
        spark: The session to use; None: the one that runs, else one of our own.
        how: Where and how it runs.
        watch: Called about twice a second with how it stands and which batches have ended.
        say: Called with a line about what goes on before there is anything to watch.

    Raises:
        ConfigError: The pipeline cannot work as declared.
        PipelineRunningError: It runs already on this machine.
        TopicMissingError: A topic that it reads does not exist.
        PipelineFailedError: A step failed.
    """
    pipeline = as_pipeline(what, name)
    how = how or Run(file=str(what) if isinstance(what, str | Path) else "")
    tell = say or (lambda line: None)
    folder = StateFolder(state_dir(os.environ), pipeline.name)
    settings = how.settings(folder)
    check_options(pipeline, settings)
    with folder.claimed():
        book = _Book(folder, pipeline, how, settings)
        try:
            with Admin(settings.bootstrap, config=dict(settings.client)) as admin:
                made = make_missing(admin, look_up(admin, pipeline))
            if made:
                tell(f"made {', '.join(made)}")
            tell(f"Spark starts, unless it runs already; its messages go to {folder.log_file}")
            with borrowed_session(
                spark,
                name=f"ottla-{pipeline.name}",
                master=how.master,
                config=how.config,
                log_file=folder.log_file,
            ) as taken:
                book.note_java(java_pid())
                queries = Queries(pipeline, settings, taken)
                runner = Runner(pipeline, queries, book.watched(watch), is_once=how.once)
                with stopped_by_signals(runner):
                    book.close(runner.run(), "")
        except BaseException as error:
            if isinstance(error, PipelineFailedError):
                error.add_note(f"what Spark says about it is in {folder.log_file}")
            book.close(FAILED, str(error) or type(error).__name__)
            raise
    return runner.progress()


def as_pipeline(what: str | Path | Pipeline | Sequence[Step], name: str) -> Pipeline:
    """A pipeline that can work."""
    if isinstance(what, Pipeline):
        check(what)
        return what
    if isinstance(what, str | Path):
        return load(what)
    pipeline = Pipeline(name, tuple(what))
    check(pipeline)
    return pipeline


@contextmanager
def stopped_by_signals(runner: Runner) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM stop after the batch, and a second one at once."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what signals do
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(number, lambda *_: runner.request_stop())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Book:
    """Writes down how a pipeline stands, for other programs to read."""

    def __init__(
        self, folder: StateFolder, pipeline: Pipeline, how: Run, settings: RunSettings
    ) -> None:
        now_ms = _now_ms()
        self._folder = folder
        self._state = State(
            name=pipeline.name,
            pid=os.getpid(),
            file=how.file,
            bootstrap=settings.bootstrap,
            master=how.master or THIS_MACHINE,
            checkpoint=settings.checkpoint,
            is_once=settings.is_once,
            started_ms=now_ms,
            updated_ms=now_ms,
            steps=tuple(StepProgress(step=step.name) for step in pipeline.steps),
            groups={step.name: pipeline.group_of(step) for step in pipeline.steps},
        )
        folder.write(self._state)

    def note_java(self, pid: int | None) -> None:
        """Which process is Spark's."""
        self._state = replace(self._state, java_pid=pid)
        self._folder.write(self._state)

    def watched(self, watch: Watch | None) -> Watch:
        """Write down what `watch` is told, but not more often than every second."""

        def both(
            progress: Sequence[StepProgress], ended: Sequence[tuple[str, BatchReport]]
        ) -> None:
            now_ms = _now_ms()
            if now_ms - self._state.updated_ms >= STATE_INTERVAL_MS:
                self._state = replace(self._state, steps=tuple(progress), updated_ms=now_ms)
                self._folder.write(self._state)
            else:
                self._state = replace(self._state, steps=tuple(progress))
            if watch is not None:
                watch(progress, ended)

        return both

    def close(self, outcome: str, trouble: str) -> None:
        """The last word."""
        self._state = replace(self._state, outcome=outcome, trouble=trouble, updated_ms=_now_ms())
        self._folder.write(self._state)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
