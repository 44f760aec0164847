"""Spans of processes that others start, as Spark does: set up by the environment alone.

Such a process runs no code of the program before its tasks, and may be killed after any of them.
So its tracer provider comes from OpenTelemetry's variables (`OTEL_TRACES_EXPORTER`,
`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_SERVICE_NAME`, ...), and what was traced is sent at the end of
each task, within a bound.  It needs `opentelemetry-sdk` and an exporter.

What belongs together is started in processes that do not know each other: the tasks of a
micro-batch, and its driver.  They find the trace by its name, of which its ids are made.
"""

import hashlib
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Final

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.trace import TracerProvider as AnyTracerProvider

from ottla.telemetry import words

log = logging.getLogger(__name__)

FLUSH_TIMEOUT_S: Final = 2.0
"""How long the end of a task waits for a collector that does not answer."""
EXPORTERS: Final = "opentelemetry_traces_exporter"
"""The group of entry points where exporters announce themselves."""
_OTLP: Final = ("otlp_proto_http", "otlp_proto_grpc")
_NS_PER_MS: Final = 1_000_000


class NamedIds(RandomIdGenerator):
    """Random ids, but for the span that has the ids of a name."""

    def __init__(self) -> None:
        super().__init__()
        self._wanted = threading.local()

    @contextmanager
    def next_is(self, context: SpanContext) -> Iterator[None]:
        """The next span of this thread is that of `context`, if it has no parent."""
        self._wanted.context = context
        try:
            yield
        finally:
            self._wanted.context = None

    def generate_trace_id(self) -> int:
        wanted = self._of_name()
        return super().generate_trace_id() if wanted is None else wanted.trace_id

    def generate_span_id(self) -> int:
        wanted = self._of_name()
        return super().generate_span_id() if wanted is None else wanted.span_id

    def _of_name(self) -> SpanContext | None:
        wanted: SpanContext | None = getattr(self._wanted, "context", None)
        return wanted


class Workers:
    """Makes the spans of one process."""

    def __init__(self, provider: AnyTracerProvider, ids: NamedIds | None = None) -> None:
        """`ids` is the generator of the provider, if it can make spans that have a name."""
        self.provider = provider
        self._ids = ids
        self._tracer = words.tracer_of(provider)

    @classmethod
    def of_environment(cls) -> "Workers":
        """As OpenTelemetry's variables say.

        Raises:
            LookupError: The exporter that they name is not installed.
        """
        ids = NamedIds()
        provider = TracerProvider(id_generator=ids)
        for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
            provider.add_span_processor(BatchSpanProcessor(_exporter(name.strip())))
        return cls(provider, ids)

    @contextmanager
    def task(self, operation: tuple[str, str, str], whole: str | None) -> Iterator[Span]:
        """A span around a task; it is current in the block, and sent after it.

        `operation` is its name, its kind as the conventions have it, and the topic; `whole` names
        what it is a part of.
        """
        name, kind, topic = operation
        topics = [topic] if topic else []
        parent = None if whole is None else set_span_in_context(NonRecordingSpan(named(whole)))
        try:
            with self._tracer.start_as_current_span(
                words.named(name, topics),
                parent,
                SpanKind.PRODUCER if kind == "send" else SpanKind.CLIENT,
                words.operation(name, kind, topics),
            ) as span:
                yield span
        finally:
            self.flush()  # of a task that failed, too: that one is looked for

    def whole(
        self, name: str, operation: str, began_ms: int, attributes: dict[str, str | int]
    ) -> Span:
        """The span of all that is called `name`, from when it began; whoever has it ends it."""
        assert self._ids is not None, "only a provider of ours makes spans that have a name"
        with self._ids.next_is(named(name)):
            return self._tracer.start_span(
                operation,
                set_span_in_context(INVALID_SPAN),
                attributes=attributes,
                start_time=began_ms * _NS_PER_MS or None,
            )

    def flush(self) -> None:
        """Send what was traced, or give up: nobody's work shall wait for a collector."""
        if isinstance(self.provider, TracerProvider):
            flushing = threading.Thread(target=self.provider.force_flush, daemon=True)
            flushing.start()
            flushing.join(FLUSH_TIMEOUT_S)


def named(name: str) -> SpanContext:
    """The context of a span that everybody knows by its name."""
    digest = hashlib.sha256(name.encode()).digest()
    return SpanContext(
        trace_id=int.from_bytes(digest[:16], "big") or 1,
        span_id=int.from_bytes(digest[16:24], "big") or 1,
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )


def _exporter(name: str) -> SpanExporter:
    wanted = _OTLP if name == "otlp" else (name,)
    if os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") == "grpc":
        wanted = wanted[::-1]
    for one in (name, *wanted):
        for found in entry_points(group=EXPORTERS, name=one):
            made: SpanExporter = found.load()()
            return made
    raise LookupError(
        f"no exporter called {name} is installed; of OTLP there is "
        "opentelemetry-exporter-otlp-proto-http"
    )
