"""How a trace travels: the W3C's `traceparent` and `tracestate` as headers of records.

Many records of a batch mostly have one context, so it is written and read once, and then known by
its bytes.
"""

from collections.abc import Iterable
from typing import Final

from opentelemetry import trace
from opentelemetry.trace import Link, SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ottla.client.headers import Headers

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

MAX_LINKS: Final = 128
"""What SDKs keep of the links of a span, unless they are told otherwise."""

_PROPAGATOR: Final = TraceContextTextMapPropagator()


def headers_of(context: SpanContext) -> tuple[tuple[str, bytes], ...]:
    """The headers that carry a context."""
    carrier: dict[str, str] = {}
    span = trace.NonRecordingSpan(context)
    _PROPAGATOR.inject(carrier, trace.set_span_in_context(span))
    return tuple((name, value.encode()) for name, value in carrier.items())


def contexts_in(headers: Iterable[Headers]) -> list[SpanContext]:
    """The distinct contexts of some records, in the order in which they come."""
    raw = dict.fromkeys((h.get(TRACEPARENT), h.get(TRACESTATE)) for h in headers if len(h))
    found = (context_of(parent, state) for parent, state in raw if parent is not None)
    return [context for context in found if context.is_valid]


def links_to(contexts: Iterable[SpanContext]) -> list[Link]:
    """Links, as many as a span may have."""
    return [Link(context) for context, _ in zip(contexts, range(MAX_LINKS), strict=False)]


def context_of(parent: bytes, state: bytes | None = None) -> SpanContext:
    """What headers say.

    Nonsense in a header gives a context that is not valid: it may come from anybody.
    """
    carrier = {TRACEPARENT: parent.decode("ascii", "replace")}
    if state is not None:
        carrier[TRACESTATE] = state.decode("ascii", "replace")
    return trace.get_current_span(_PROPAGATOR.extract(carrier)).get_span_context()
