"""Traces in Arrow: contexts in a column of headers, without an object for each row.

Of `tracestate` nothing is read here: a link needs no more than `traceparent`.
"""

from typing import TYPE_CHECKING, Any

from opentelemetry.trace import SpanContext

from ottla.telemetry.contexts import TRACEPARENT, context_of, headers_of

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS = "headers"


def contexts_of_rows(rows: "pa.RecordBatch | pa.Table") -> list[SpanContext]:
    """The distinct contexts in which rows were sent, in the order in which they come."""
    if HEADERS not in rows.column_names:
        return []
    from pyarrow import compute

    entries = compute.list_flatten(rows.column(HEADERS))
    if not len(entries):
        return []
    is_parent = compute.equal(compute.struct_field(entries, 0), TRACEPARENT)
    parents = compute.struct_field(entries, 1).filter(is_parent).unique()
    found = (context_of(parent) for parent in parents.drop_null().to_pylist())
    return [context for context in found if context.is_valid]


def with_context(rows: Any, context: SpanContext) -> Any:
    """The rows, each with the headers that carry `context`; who has headers already keeps them.

    Rows that have headers are left as they are: to put one more into each list would take longer
    than to send them.
    """
    import pyarrow as pa

    if HEADERS in rows.column_names:
        return rows
    pairs = [{"key": name, "value": value} for name, value in headers_of(context)]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    column = pa.repeat(pa.scalar(pairs, kind), rows.num_rows)
    arrays = [*rows.columns, column]
    return type(rows).from_arrays(arrays, names=[*rows.column_names, HEADERS])


def topics_of(rows: "pa.RecordBatch | pa.Table") -> list[str]:
    """The topics that rows are of."""
    return sorted(rows.column("topic").unique().to_pylist())
