"""Metadata (key 3): who leads which partition, and at which address each broker listens.

v1   adds rack, controller_id, is_internal; topics may be null
v2   adds cluster_id                                                           (KIP-78)
v3   adds throttle_time_ms                                                     (KIP-124)
v4   adds allow_auto_topic_creation
v5   adds offline_replicas                                                     (KIP-112)
v6   the client waits out throttle_time_ms, not the broker                     (KIP-219)
v7   adds leader_epoch                                                         (KIP-320)
v8   adds topic_authorized_operations and cluster_authorized_operations        (KIP-430)
v9   first flexible version
v10  adds topic_id to the response                                             (KIP-516)
v11  drops cluster_authorized_operations: ask DescribeCluster                  (KIP-700)
v12  a topic may be asked for by topic_id, with a null name                    (KIP-516)
v13  adds error_code: a broker may send the client back to its bootstrap list  (KIP-1102)

`topics` is a trap: null means all topics and an empty array none, but v0 has no null, and there an
empty array means all.  v10 and v11 have the field for a topic's id in the request; a broker
refuses it before v12.

Authorized operations are a bit field: bit n stands for ACL operation n, and -2147483648 (no bit
but the sign) says that nobody asked.
"""

from ottla.wire.schema import NO_UUID, Bool, Int16, Int32, String, Uuid, at, message, struct


@struct
class MetadataRequestTopic:
    topic_id: Uuid = at("10+", default=NO_UUID, ignorable=True)
    name: String | None = at("0+", nullable="10+")


@message(key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    # Null: all; see above for v0.
    topics: tuple[MetadataRequestTopic, ...] | None = at("0+", nullable="1+")
    allow_auto_topic_creation: Bool = at("4+", default=True)
    include_cluster_authorized_operations: Bool = at("8-10", default=False)
    include_topic_authorized_operations: Bool = at("8+", default=False)


@struct
class MetadataResponseBroker:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = at("1+", default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32  # -1: none
    leader_epoch: Int32 = at("7+", default=-1, ignorable=True)
    replica_nodes: tuple[Int32, ...]
    isr_nodes: tuple[Int32, ...]
    offline_replicas: tuple[Int32, ...] = at("5+", default=(), ignorable=True)


@struct
class MetadataResponseTopic:
    error_code: Int16 = 0
    name: String | None = at("0+", nullable="12+")
    topic_id: Uuid = at("10+", default=NO_UUID, ignorable=True)
    is_internal: Bool = at("1+", default=False, ignorable=True)
    partitions: tuple[MetadataResponsePartition, ...]
    # Bits; -2147483648: not asked for.
    topic_authorized_operations: Int32 = at("8+", default=-2147483648)


@message(key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    throttle_time_ms: Int32 = at("3+", default=0, ignorable=True)
    brokers: tuple[MetadataResponseBroker, ...]
    cluster_id: String | None = at("2+", default=None, ignorable=True)
    controller_id: Int32 = at("1+", default=-1, ignorable=True)
    topics: tuple[MetadataResponseTopic, ...]
    # Bits; -2147483648: not asked for.
    cluster_authorized_operations: Int32 = at("8-10", default=-2147483648)
    error_code: Int16 = at("13+", default=0, ignorable=True)
