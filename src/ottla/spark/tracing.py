"""Spans of tasks and micro-batches, where the environment asks for them; else nothing at all.

A task is traced when it runs in an environment that says where traces go, by OpenTelemetry's own
variables.  Nothing of OpenTelemetry is imported before that is known.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.source.planning import OffsetRange
    from ottla.telemetry.workers import Workers

log = logging.getLogger(__name__)

ASKED_BY: Final = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)
QUERY_ID: Final = "ottla.spark.query_id"
BATCH_ID: Final = "ottla.spark.batch_id"
BEGIN_OFFSET: Final = "ottla.spark.begin_offset"
END_OFFSET: Final = "ottla.spark.end_offset"

_kept: Final[dict[int, "Workers | None"]] = {}
"""Of this process, by its number: a forked one has none of its parent's threads."""


def is_asked_for() -> bool:
    """Whether the environment says where traces go."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if os.environ.get("OTEL_TRACES_EXPORTER", "").lower() == "none":
        return False
    return any(os.environ.get(name) for name in ASKED_BY)


def workers() -> "Workers | None":
    """What makes the spans of this process, if any are to be made."""
    pid = os.getpid()
    if pid not in _kept:
        _kept.clear()
        _kept[pid] = _made() if is_asked_for() else None
    return _kept[pid]


def use(chosen: "Workers | None") -> None:
    """Trace this process that way, whatever the environment says."""
    _kept.clear()
    _kept[os.getpid()] = chosen


def forget() -> None:
    """Look at the environment again."""
    _kept.clear()


def _made() -> "Workers | None":
    """Whatever is missing, work goes on without traces, and says so once."""
    try:
        from ottla.telemetry.workers import Workers

        return Workers.of_environment()
    except Exception as error:  # an exporter is not ours, and may raise anything
        log.warning("nothing is traced, although the environment asks for it: %s", error)
        return None


class Seen:
    """What a task has read; here nobody wants to know."""

    def rows(self, rows: "pa.RecordBatch") -> None:
        """Some more."""


class _TracedRows(Seen):
    def __init__(self, span: Any) -> None:
        self._span = span
        self._contexts: dict[tuple[int, int], Any] = {}
        self._row_count = 0

    def rows(self, rows: "pa.RecordBatch") -> None:
        """Count them, and link to whoever sent them."""
        from ottla.telemetry.contexts import MAX_LINKS
        from ottla.telemetry.rows import contexts_of_rows
        from ottla.telemetry.words import COUNT

        self._row_count += rows.num_rows
        self._span.set_attribute(COUNT, self._row_count)
        for context in contexts_of_rows(rows):
            ids = (context.trace_id, context.span_id)
            if ids not in self._contexts and len(self._contexts) < MAX_LINKS:
                self._contexts[ids] = context
                self._span.add_link(context)


@contextmanager
def reading(of: "OffsetRange") -> Iterator[Seen]:
    """A span around a task that reads a range."""
    tracing = workers()
    if tracing is None:
        yield Seen()
        return
    from ottla.telemetry.words import PARTITION

    query_id, batch_id = _whereabouts()
    with tracing.task(("poll", "receive", of.tp.topic), _whole(query_id, batch_id)) as span:
        span.set_attributes(
            {
                PARTITION: str(of.tp.partition),
                BEGIN_OFFSET: of.start_offset,
                END_OFFSET: of.end_offset,
                **_about(query_id, batch_id),
            }
        )
        yield _TracedRows(span)


@contextmanager
def writing(query_id: str, batch_id: int, topic: str | None, headers: bool) -> Iterator[list[Any]]:
    """A span around a task that writes: the interceptors that its producer gets."""
    tracing = workers()
    if tracing is None:
        yield []
        return
    from ottla.telemetry.producing import ProducerTracing

    whole = _whole(query_id, batch_id)
    with tracing.task(("write", "send", topic or ""), whole) as span:
        span.set_attributes(_about(query_id, batch_id))
        yield [ProducerTracing(tracing.provider, arrow_headers=headers)]


@contextmanager
def ending(
    operation: str, query_id: str, batch_id: int, began_ms: int, row_counts: Sequence[int]
) -> Iterator[None]:
    """The span of a micro-batch, from its plan to its end; what is raised in between is in it."""
    tracing = workers()
    if tracing is None:
        yield
        return
    from opentelemetry.trace import use_span

    from ottla.telemetry.words import COUNT

    span = tracing.whole(
        f"{query_id} {batch_id}",
        f"{operation} batch",
        began_ms,
        {**_about(query_id, batch_id), COUNT: sum(row_counts)},
    )
    try:
        with use_span(span, end_on_exit=True):
            yield
    finally:
        tracing.flush()


def _whereabouts() -> tuple[str | None, int | None]:
    """The query and the micro-batch of this task, if it is one of a stream."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return None, None
    query_id = context.getLocalProperty("sql.streaming.queryId")
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    return query_id, None if batch_id is None else int(batch_id)


def _whole(query_id: str | None, batch_id: int | None) -> str | None:
    return None if query_id is None or batch_id is None else f"{query_id} {batch_id}"


def _about(query_id: str | None, batch_id: int | None) -> dict[str, str | int]:
    if query_id is None or batch_id is None:
        return {}
    return {QUERY_ID: query_id, BATCH_ID: batch_id}
