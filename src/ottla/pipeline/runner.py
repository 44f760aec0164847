"""Runs the queries of a pipeline: starts them, watches them, stops them between two batches.

One thread does all of it; Spark works in others.  `request_stop` may be called from anywhere, from
the handler of a signal, too.  When a step fails, the others are stopped after their batch, and the
failure is raised: a pipeline of which a part stands still looks like one that works.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ottla.errors import OttlaError
from ottla.pipeline.graph import stages
from ottla.pipeline.progress import BatchReport, StepMeter, StepProgress, report_of
from ottla.pipeline.queries import Queries
from ottla.pipeline.spec import Pipeline, Step
from ottla.pipeline.state import FINISHED, STOPPED
from ottla.pipeline.words import in_one_line

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_INTERVAL_S: Final = 0.5
STOP_LOOK_S: Final = 0.05

Watch = Callable[[Sequence[StepProgress], Sequence[tuple[str, BatchReport]]], None]
"""Told at intervals how all steps stand, and which batches have ended since."""


class PipelineFailedError(OttlaError):
    """A step ended with an error; the message says which, and why."""


class Running:
    """A step, its query, and what it has done."""

    def __init__(self, step: Step, query: "StreamingQuery") -> None:
        self.step = step
        self._query = query
        self._meter = StepMeter(step.name)
        self._seen = -1

    def news(self) -> list[BatchReport]:
        """The batches that have ended since the last time."""
        last = self._query.lastProgress
        if last is None or last["batchId"] <= self._seen:
            return []
        # Usually one has; only if there were more, all that Spark remembers are looked at.
        told = [last] if last["batchId"] == self._seen + 1 else self._query.recentProgress
        now_ms = _now_ms()
        reports = [report for one in told if (report := report_of(one, now_ms)) is not None]
        fresh = self._meter.note(reports)
        self._seen = max([self._seen, *(report.batch_id for report in fresh)])
        return fresh

    def progress(self) -> StepProgress:
        return self._meter.progress(_now_ms())

    @property
    def is_active(self) -> bool:
        return bool(self._query.isActive)

    @property
    def failure(self) -> str | None:
        """Why it ended, if not in good order."""
        error = None if self.is_active else self._query.exception()
        return None if error is None else in_one_line(str(error))

    def stop_after_batch(self, is_urgent: Callable[[], bool], pause: Callable[[], object]) -> None:
        """Wait for the end of the batch that runs, if one does, and stop."""
        before = self._query.lastProgress
        batch_id = -1 if before is None else before["batchId"]
        while self.is_active and not is_urgent() and self._query.status["isDataAvailable"]:
            last = self._query.lastProgress
            if last is not None and last["batchId"] > batch_id:
                break
            pause()
        self._query.stop()


class Runner:
    """Runs a pipeline once."""

    def __init__(
        self, pipeline: Pipeline, queries: Queries, watch: Watch, *, is_once: bool
    ) -> None:
        self._pipeline = pipeline
        self._queries = queries
        self._watch = watch
        self._is_once = is_once
        self._stop = threading.Event()
        self._stop_now = threading.Event()
        self._running: list[Running] = []

    def request_stop(self) -> None:
        """Stop after the batch that runs; asked a second time, stop at once."""
        if self._stop.is_set():
            self._stop_now.set()
        self._stop.set()

    def run(self) -> str:
        """Run until everything is read, or until a stop is asked for; return which of the two.

        Raises:
            PipelineFailedError: A step failed.
        """
        from py4j.protocol import Py4JError, Py4JJavaError

        try:
            try:
                return self._run()
            except Py4JJavaError as error:
                raise failure_of(str(error)) from error  # to ask what it was may fail, too
        except (Py4JError, ConnectionError) as error:
            raise PipelineFailedError(
                "the connection to Spark broke: its Java process has ended, and spark.log may say "
                "why; run the pipeline again, it goes on where it was"
            ) from error

    def _run(self) -> str:
        all_at_once = [list(self._pipeline.steps)]
        for stage in stages(self._pipeline.steps) if self._is_once else all_at_once:
            if self._stop.is_set():
                break
            started = self._start(stage)
            try:
                self._wait_for(started)
            finally:
                self._stop_all(started)
        self._look()
        self._raise_failure()
        return STOPPED if self._stop.is_set() else FINISHED

    def progress(self) -> list[StepProgress]:
        """How each step stands, in the order of the pipeline."""
        known = {running.step.name: running.progress() for running in self._running}
        return [known.get(step.name, StepProgress(step=step.name)) for step in self._pipeline.steps]

    def _start(self, stage: Sequence[Step]) -> list[Running]:
        before = len(self._running)
        try:
            for step in stage:
                self._running.append(Running(step, self._queries.start(step)))
        except BaseException:
            self._stop_all(self._running[before:])
            raise
        return self._running[before:]

    def _wait_for(self, started: Sequence[Running]) -> None:
        """Until all have ended, one has failed, or a stop is asked for."""
        while not self._stop.wait(LOOK_INTERVAL_S):
            self._look()
            if not any(running.is_active for running in started):
                return
            if any(running.failure is not None for running in started):
                return

    def _look(self) -> None:
        ended = [(running.step.name, one) for running in self._running for one in running.news()]
        self._watch(self.progress(), ended)

    def _stop_all(self, started: Sequence[Running]) -> None:
        for running in started:
            running.stop_after_batch(
                self._stop_now.is_set, lambda: self._stop_now.wait(STOP_LOOK_S)
            )

    def _raise_failure(self) -> None:
        failures = list(self._failures())
        if failures:
            raise PipelineFailedError("; ".join(failures))

    def _failures(self) -> Iterator[str]:
        for running in self._running:
            if (failure := running.failure) is not None:
                yield f"step {running.step.name!r} failed: {failure}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def failure_of(told: str) -> PipelineFailedError:
    """What Java threw, without its stack: `told` is how Py4J says it."""
    lines = told.splitlines() or ["it does not say why"]
    cause = next((line[2:] for line in lines if line.startswith(": ")), lines[0])
    return PipelineFailedError(f"Spark failed: {cause}")
