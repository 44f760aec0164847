"""Offsets that travel with an Arrow batch: written into its schema by `poll_arrow`, read to commit.

A batch that was filtered or projected keeps its schema's metadata, and with it its offsets: what a
program filtered out is done, too.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.client.records import ARROW_SPANS, OffsetAndMetadata, Span
from ottla.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


def spans_text(spans: Mapping[TopicPartition, Span]) -> bytes:
    """Spans as the metadata of a schema."""
    return json.dumps([[*tp, *span] for tp, span in spans.items()]).encode()


def spans_of_arrow(rows: "pa.RecordBatch | pa.Table") -> dict[TopicPartition, Span] | None:
    """What `spans_text` wrote, or None where nothing is written."""
    text = (rows.schema.metadata or {}).get(ARROW_SPANS)
    if text is None:
        return None
    return {TopicPartition(topic, p): Span(*span) for topic, p, *span in json.loads(text)}


def offsets_of_arrow(
    rows: "pa.RecordBatch | pa.Table | Any",
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The next offsets of an Arrow batch of ours.

    Raises:
        TypeError: Its schema says nothing of offsets.
    """
    spans = spans_of_arrow(rows)
    if spans is None:
        raise TypeError(
            "this Arrow batch says nothing of offsets: commit what poll_arrow returned, or a part "
            "of it that kept the metadata of its schema"
        )
    return {
        tp: OffsetAndMetadata(span.next_offset, "", span.leader_epoch) for tp, span in spans.items()
    }
