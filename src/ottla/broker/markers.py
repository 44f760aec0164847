"""Markers: how a partition learns that a transaction is over.

A marker in `__consumer_offsets` also releases the offsets that the transaction held back.
"""

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.model import CONSUMER_OFFSETS_TOPIC, TopicPartition
from ottla.records.batch import Batch
from ottla.records.control import Marker, build_marker

if TYPE_CHECKING:
    from ottla.broker.context import Node


def write_marker(
    node: "Node", marker: Marker, partition: TopicPartition, *, transaction_version: int
) -> ErrorCode:
    """Append a marker; it is durable when everything that was appended so far is."""
    found = node.partitions.find(partition.topic, partition.partition)
    if isinstance(found, ErrorCode):
        return found
    appended = found.append_own(
        Batch.parse(build_marker(marker)),
        now_ms=marker.timestamp_ms,
        transaction_version=transaction_version,
    )
    if appended.error is ErrorCode.NONE and partition.topic == CONSUMER_OFFSETS_TOPIC:
        node.groups.on_marker(partition.partition, marker.producer_id, committed=marker.is_commit)
    return appended.error
