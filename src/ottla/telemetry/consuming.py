"""A consumer's spans: one for each batch that a poll returns, one for what is done with it.

They are linked to the contexts in which the records were sent, not children of them: a batch has
many senders, and waited in the log for as long as it did.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import Span, SpanKind, TracerProvider

from ottla.client.consumer.plugs import ConsumerInterceptor
from ottla.client.records import Batch, Offsets, Record
from ottla.errors import OttlaError
from ottla.telemetry import words
from ottla.telemetry.contexts import contexts_in, links_to
from ottla.telemetry.rows import contexts_of_rows, topics_of

if TYPE_CHECKING:
    import pyarrow as pa


class ConsumerTracing(ConsumerInterceptor):
    """Give it to a consumer: `Consumer(..., interceptors=[ConsumerTracing()])`."""

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = words.tracer_of(tracer_provider)

    def on_consume(self, batch: Batch[Any, Any]) -> Batch[Any, Any]:
        """A poll found something: tell of it, with links to all who sent it."""
        topics = sorted({tp.topic for tp in batch.spans})
        self._tracer.start_span(
            words.named("poll", topics),
            kind=SpanKind.CLIENT,
            attributes={**words.operation("poll", "receive", topics), **_about(batch)},
            links=links_to(contexts_in(record.headers for record in batch.raw)),
        ).end()
        return batch

    def on_consume_arrow(self, rows: "pa.RecordBatch") -> "pa.RecordBatch":
        """The same for a poll that returns rows of Arrow."""
        topics = topics_of(rows)
        self._tracer.start_span(
            words.named("poll", topics),
            kind=SpanKind.CLIENT,
            attributes={**words.operation("poll", "receive", topics), **_about_rows(rows)},
            links=links_to(contexts_of_rows(rows)),
        ).end()
        return rows

    def on_commit(self, offsets: Offsets) -> None:
        """A commit worked."""
        topics = sorted({topic for topic, _ in offsets})
        self._tracer.start_span(
            words.named("commit", topics),
            kind=SpanKind.CLIENT,
            attributes=words.operation("commit", "settle", topics),
        ).end()


@contextmanager
def process(
    what: "Batch[Any, Any] | Record[Any, Any] | pa.RecordBatch | pa.Table",
    *,
    tracer_provider: TracerProvider | None = None,
) -> Iterator[Span]:
    """A span around what a program does with a batch, or with a record that is worth one.

    A batch may be one of Arrow, as `poll_arrow` returns it.

    It is current inside of the `with` block, so what is sent from there continues the trace.  An
    exception is recorded in it, and goes on.
    """
    if isinstance(what, Batch | Record):
        records = what.raw if isinstance(what, Batch) else [what]
        topics = sorted({record.topic for record in records})
        about = _about(what) if isinstance(what, Batch) else _about_record(what)
        contexts = contexts_in(record.headers for record in records)
    else:
        topics, about, contexts = topics_of(what), _about_rows(what), contexts_of_rows(what)
    with words.tracer_of(tracer_provider).start_as_current_span(
        words.named("process", topics),
        kind=SpanKind.CONSUMER,
        attributes={**words.operation("process", "process", topics), **about},
        links=links_to(contexts),
    ) as span:
        yield span


def _about(batch: Batch[Any, Any]) -> words.Attributes:
    about: words.Attributes = {words.COUNT: len(batch.raw)}
    if len(batch.spans) == 1 and batch.raw:  # another interceptor may have left out everything
        ((_, partition),) = batch.spans
        about[words.PARTITION] = str(partition)
        about[words.OFFSET] = batch.raw[0].offset
    group_id = _group_of(batch)
    return {**about, words.GROUP: group_id} if group_id else about


def _about_rows(rows: "pa.RecordBatch | pa.Table") -> words.Attributes:
    about: words.Attributes = {words.COUNT: rows.num_rows}
    partitions = rows.column("partition").unique()
    if len(partitions) == 1 and len(topics_of(rows)) == 1:
        about[words.PARTITION] = str(partitions[0].as_py())
        about[words.OFFSET] = rows.column("offset")[0].as_py()
    return about


def _about_record(record: Record[Any, Any]) -> words.Attributes:
    return {words.PARTITION: str(record.partition), words.OFFSET: record.offset}


def _group_of(batch: Batch[Any, Any]) -> str:
    """The group that reads; empty where there is none, or the consumer has just left it."""
    if batch.source is None:
        return ""
    try:
        return batch.source.group_metadata.group_id
    except OttlaError:
        return ""
