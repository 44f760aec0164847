"""A producer's spans: one for each batch, from its first record to its acknowledgment.

Records carry the context in which they were sent.  The span of a batch is made when the batch is
answered, as a child of that context, or linked to all of them where there are several.  A program
that has no span of its own when it sends gets one for its records to point to: the next batch of
the topic becomes that span.
"""

import threading
import time
from typing import Final

from opentelemetry import trace
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, TracerProvider

from ottla.client.headers import Headers
from ottla.client.producer.outgoing import (
    ProducerInterceptor,
    ProducerRecord,
    SendingRows,
    SentBatch,
)
from ottla.errors import BrokerError, DeliveryError
from ottla.telemetry import words
from ottla.telemetry.contexts import TRACEPARENT, contexts_in, headers_of, links_to
from ottla.telemetry.rows import with_context

_NS_PER_MS: Final = 1_000_000

Written = tuple[SpanContext, tuple[tuple[str, bytes], ...]]


class ProducerTracing(ProducerInterceptor):
    """Give it to a producer: `Producer(..., interceptors=[ProducerTracing()])`.

    Safe from any thread, and for several producers.
    """

    def __init__(
        self, tracer_provider: TracerProvider | None = None, *, arrow_headers: bool = False
    ) -> None:
        """Use a tracer provider, or that of the program.

        Args:
            tracer_provider: Who makes the spans.
            arrow_headers: Whether rows of `send_arrow` carry the sender's context, too, if they
                have no headers of their own.  It is some eighty bytes in each record.
        """
        self._tracer = words.tracer_of(tracer_provider)
        self._arrow_headers = arrow_headers
        self._written: Written | None = None
        """The last context, and the headers that carry it: mostly the next record has it, too."""
        self._lock = threading.Lock()
        self._roots: dict[str, Span] = {}
        """Topic -> the span that records point to which were sent outside of any."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Let the record say in which context it was sent; one that says so already is left."""
        if record.headers.get(TRACEPARENT) is not None:
            return record
        context = trace.get_current_span().get_span_context()
        if not context.is_valid:
            context = self._root(record.topic).get_span_context()
            if not context.is_valid:
                return record  # there is no SDK: nobody is interested
        written = self._written
        if written is None or written[0] != context:
            written = self._written = (context, headers_of(context))
        return ProducerRecord(
            record.topic,
            record.value,
            record.key,
            record.partition,
            Headers.of_pairs(record.headers.pairs + written[1]),
            record.timestamp_ms,
        )

    def on_batch(self, batch: SentBatch) -> None:
        """A batch was answered: tell of it as a span that began with its first record."""
        span = self._span_of(batch)
        span.set_attributes(
            {
                **words.operation("send", "send", [batch.topic]),
                words.PARTITION: str(batch.partition),
                words.COUNT: len(batch.headers),
            }
        )
        if batch.base_offset >= 0:
            span.set_attribute(words.OFFSET, batch.base_offset)
        _note(span, batch.error)
        span.end()

    def on_send_arrow(self, sending: SendingRows) -> None:
        """A table is sent: tell of it as one span, which ends when all of it is answered."""
        sender = trace.get_current_span().get_span_context()
        span = self._tracer.start_span(
            words.named("send", [sending.topic]),
            kind=SpanKind.PRODUCER,
            attributes={
                **words.operation("send", "send", [sending.topic]),
                words.COUNT: sending.rows.num_rows,
            },
        )

        def answered(error: Exception | None) -> None:
            _note(span, error)
            span.end()

        sending.when_answered(answered)
        context = sender if sender.is_valid else span.get_span_context()
        if self._arrow_headers and context.is_valid:
            sending.rows = with_context(sending.rows, context)

    def _root(self, topic: str) -> Span:
        with self._lock:
            span = self._roots.get(topic)
            if span is None:
                span = self._tracer.start_span(words.named("send", [topic]), kind=SpanKind.PRODUCER)
                self._roots[topic] = span
            return span

    def _root_among(self, contexts: list[SpanContext], topic: str) -> Span | None:
        """The root of a topic, if records point to it; others that come get another one."""
        with self._lock:
            root = self._roots.get(topic)
            if root is None or _ids([root.get_span_context()])[0] not in _ids(contexts):
                return None
            return self._roots.pop(topic)

    def _span_of(self, batch: SentBatch) -> Span:
        contexts = contexts_in(batch.headers)
        root = self._root_among(contexts, batch.topic)
        if root is not None:
            if len(contexts) == 1:
                return root
            # Others travel with its records: it is one of those that the span of all links to.
            root.set_attributes(words.operation("send", "send", [batch.topic]))
            _note(root, batch.error)
            root.end()
        # A root that has become another batch's span by now is a parent like any other.
        is_single = len(contexts) == 1
        parent = trace.NonRecordingSpan(contexts[0]) if is_single else trace.INVALID_SPAN
        return self._tracer.start_span(
            words.named("send", [batch.topic]),
            trace.set_span_in_context(parent),
            SpanKind.PRODUCER,
            links=[] if is_single else links_to(contexts),
            start_time=min(batch.began_ms * _NS_PER_MS, time.time_ns()),
        )


def _ids(contexts: list[SpanContext]) -> list[tuple[int, int]]:
    return [(context.trace_id, context.span_id) for context in contexts]


def _note(span: Span, error: Exception | None) -> None:
    """Say in a span what went wrong, if something did."""
    if error is None:
        return
    reason = error.cause if isinstance(error, DeliveryError) else error
    word = reason.code.name if isinstance(reason, BrokerError) else type(reason).__name__
    span.set_attribute(words.ERROR, word)
    span.set_status(Status(StatusCode.ERROR, str(error)))
