"""AlterPartitionReassignments (key 45): move partitions to other brokers, or stop doing so.

Nothing is replicated yet.  An assignment that a partition has already is no error, as in Kafka;
any other would need a broker that is not there, and there is never a move to cancel.
"""

from ottla.broker.context import Context
from ottla.cluster.decision import Refusal, unknown_topic
from ottla.cluster.image import ClusterImage
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: Context
) -> AlterPartitionReassignmentsResponse:
    """Answer with one result for each partition."""
    image = context.node.controller.image
    may_resize = request.allow_replication_factor_change
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_resize,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _response(asked, _refusal(topic.name, asked, image, may_resize))
                    for asked in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _response(
    asked: ReassignablePartition, refusal: Refusal | None
) -> ReassignablePartitionResponse:
    if refusal is None:
        return ReassignablePartitionResponse(partition_index=asked.partition_index)
    return ReassignablePartitionResponse(
        partition_index=asked.partition_index,
        error_code=refusal.error,
        error_message=refusal.message,
    )


def _refusal(
    topic: str, asked: ReassignablePartition, image: ClusterImage, may_resize: bool
) -> Refusal | None:
    """Why a partition cannot have the assignment; None if it has it."""
    if topic not in image.topics:
        return unknown_topic(topic)
    partition = image.partition(topic, asked.partition_index)
    if partition is None:
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic!r} has no partition {asked.partition_index}",
        )
    if asked.replicas is None:
        return Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "the partition is not on the move")
    if problem := _problem(asked.replicas, image):
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    if not may_resize and len(asked.replicas) != len(partition.replicas):
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{len(asked.replicas)} replicas instead of {len(partition.replicas)}",
        )
    if asked.replicas != partition.replicas:
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"replicas cannot move from {list(partition.replicas)} to {list(asked.replicas)}: "
            f"nothing is replicated yet",
        )
    return None


def _problem(replicas: tuple[int, ...], image: ClusterImage) -> str:
    """What is wrong with an assignment whatever it replaces; "" if nothing is."""
    if not replicas:
        return "no replicas"
    if unknown := [node_id for node_id in replicas if node_id not in image.brokers]:
        return f"there is no broker {unknown[0]}"
    if len(set(replicas)) != len(replicas):
        return f"a broker occurs twice in {list(replicas)}"
    return ""
