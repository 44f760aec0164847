"""What became of a record that was sent."""

from typing import NamedTuple


class RecordMetadata(NamedTuple):
    """Where a record was written."""

    topic: str
    partition: int
    offset: int
    """-1 where the broker did not say: with acks=0, and for a duplicate whose first copy is old."""
    timestamp_ms: int
    """What the record carries: the producer's time, or the broker's where the topic says so."""
