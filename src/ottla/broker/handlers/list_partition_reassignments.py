"""ListPartitionReassignments (key 46): which partitions are on the move."""

from ottla.broker.context import Context
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: Context
) -> ListPartitionReassignmentsResponse:
    """Nothing is replicated yet, so nothing ever moves; topics that do not exist are no error."""
    return ListPartitionReassignmentsResponse(topics=())
