"""DescribeCluster (key 60): the brokers, the controller and the id of the cluster."""

from typing import Final

from ottla.broker.context import Context
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS: Final = 1
CONTROLLERS: Final = 2

NO_NODE: Final = -1
_NOT_ASKED: Final = -(2**31)

# Whoever can connect may do everything: create, alter, describe, act as a broker, describe and
# alter settings, write idempotently.  The bits are the numbers of ACL operations.
_EVERYTHING: Final = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))


def describe_cluster(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    """Describe the cluster as brokers see it; controllers have no endpoints of their own."""
    if request.endpoint_type != BROKERS:
        return _refused(request.endpoint_type)
    image = context.node.controller.image
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id if image.controller_id in image.brokers else NO_NODE,
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack
            )
            for broker in image.brokers.values()
        ),
        cluster_authorized_operations=(
            _EVERYTHING if request.include_cluster_authorized_operations else _NOT_ASKED
        ),
    )


def _refused(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = "this is a broker's endpoint, not a controller's"
    else:
        error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"endpoint type {endpoint_type} is not {BROKERS} or {CONTROLLERS}"
    return DescribeClusterResponse(
        error_code=error, error_message=message, cluster_id="", brokers=()
    )
