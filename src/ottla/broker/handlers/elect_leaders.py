"""ElectLeaders (key 43): give leadership to the preferred replica, or to any that lives.

Nothing is replicated yet, so leadership never moves: it is where it should be, or nowhere else.
"""

from enum import IntEnum

from ottla.broker.context import Context
from ottla.cluster.image import ClusterImage, PartitionImage
from ottla.errors import ErrorCode
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    """Say of each partition why there is no election."""
    image = context.node.controller.image
    if request.election_type not in set(ElectionType):
        return _refused(request)
    election = ElectionType(request.election_type)
    if request.topic_partitions is None:
        return ElectLeadersResponse(replica_election_results=_elect_everywhere(image, election))
    return ElectLeadersResponse(
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    PartitionResult(
                        partition_id=index,
                        error_code=_elect(image.partition(topic.topic, index), election),
                    )
                    for index in topic.partitions
                ),
            )
            for topic in request.topic_partitions
        )
    )


def _elect_everywhere(
    image: ClusterImage, election: ElectionType
) -> tuple[ReplicaElectionResult, ...]:
    """Every topic, but of its partitions only those that do not have the right leader."""
    return tuple(
        ReplicaElectionResult(
            topic=name,
            partition_result=tuple(
                PartitionResult(partition_id=partition.index, error_code=error)
                for partition in image.topics[name].partitions
                if (error := _elect(partition, election)) is not ErrorCode.ELECTION_NOT_NEEDED
            ),
        )
        for name in sorted(image.topics)
    )


def _elect(partition: PartitionImage | None, election: ElectionType) -> ErrorCode:
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if election is ElectionType.PREFERRED:
        is_right = partition.leader == partition.replicas[0]
        otherwise = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        is_right = partition.leader >= 0
        otherwise = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    return ErrorCode.ELECTION_NOT_NEEDED if is_right else otherwise


def _refused(request: ElectLeadersRequest) -> ElectLeadersResponse:
    message = f"election type {request.election_type} is not 0 or 1"
    return ElectLeadersResponse(
        error_code=ErrorCode.INVALID_REQUEST,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    PartitionResult(
                        partition_id=index,
                        error_code=ErrorCode.INVALID_REQUEST,
                        error_message=message,
                    )
                    for index in topic.partitions
                ),
            )
            for topic in request.topic_partitions or ()
        ),
    )
