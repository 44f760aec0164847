"""DescribeCluster (key 60): the brokers, the controller and the id of the cluster.

v0  the first version                                     (KIP-700)
v1  adds endpoint_type: brokers or controllers            (KIP-919)
v2  adds include_fenced_brokers and is_fenced             (KIP-1073)

`cluster_authorized_operations` is a bit field: bit n stands for ACL operation n,
and -2147483648 says that nobody asked.
"""

from ottla.wire.schema import Bool, Int8, Int16, Int32, String, at, message, struct


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = at("1+", default=1)  # 1: brokers, 2: controllers
    include_fenced_brokers: Bool = at("2+", default=False)


@struct
class DescribeClusterBroker:
    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = None
    is_fenced: Bool = at("2+", default=False)


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Int8 = at("1+", default=1)  # 1: brokers, 2: controllers
    cluster_id: String
    controller_id: Int32 = -1  # -1: unknown
    brokers: tuple[DescribeClusterBroker, ...]
    cluster_authorized_operations: Int32 = -2147483648  # bits; -2147483648: not asked for
