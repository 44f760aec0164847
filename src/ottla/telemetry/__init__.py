"""Tracing with OpenTelemetry: a span for each batch, and the context of its sender in each record.

    producer = ottla.Producer(..., interceptors=[telemetry.ProducerTracing()])
    consumer = ottla.Consumer(..., interceptors=[telemetry.ConsumerTracing()])

    for batch in consumer.batches():
        with telemetry.process(batch):
            ...

Spans are per batch, never per record: tracing must not cost more than the work.  Where to start:
`contexts` (how a trace travels in headers), then `producing` and `consuming`.

It needs `opentelemetry-api` (`pip install 'ottla[otel]'`), which only this package imports; without
a configured SDK the spans cost next to nothing and go nowhere.
"""

try:
    from ottla.telemetry.consuming import ConsumerTracing, process
    from ottla.telemetry.producing import ProducerTracing
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] == "opentelemetry":
        error.add_note("Tracing needs OpenTelemetry: pip install 'ottla[otel]'")
    raise

__all__ = ["ConsumerTracing", "ProducerTracing", "process"]
