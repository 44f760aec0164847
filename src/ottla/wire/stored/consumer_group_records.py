"""Groups of the new protocol, as records of the topic __consumer_offsets (KIP-848).

Keys and values are framed as in `group_records`, where types 0 to 2 are.  A group is spread over
several records, so that a heartbeat that changes one member writes that member only.

type 3   ConsumerGroupMetadata: the group's epoch, and a hash of the topics it reads  (KIP-1101)
type 4   ConsumerGroupPartitionMetadata: those topics, before there was a hash; no longer written
type 5   ConsumerGroupMemberMetadata: a member, and what it subscribes to
type 6   ConsumerGroupTargetAssignmentMetadata: epoch and time of the target           (KIP-1263)
type 7   ConsumerGroupTargetAssignmentMember: what a member shall own
type 8   ConsumerGroupCurrentMemberAssignment: what a member owns, and has yet to give up
type 16  ConsumerGroupRegularExpression: the topics that an expression matched
"""

from ottla.wire.schema import Bytes, Int8, Int32, Int64, String, Uuid, at, message, struct


@message(key=3, versions="0")
class ConsumerGroupMetadataKey:
    group_id: String


@message(key=3, versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    epoch: Int32
    metadata_hash: Int64 = at("0+", default=0, tag=0)


@message(key=4, versions="0")
class ConsumerGroupPartitionMetadataKey:
    group_id: String


@struct
class PartitionMetadata:
    partition: Int32
    racks: tuple[String, ...]


@struct
class TopicMetadata:
    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: tuple[PartitionMetadata, ...]


@message(key=4, versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    topics: tuple[TopicMetadata, ...]


@message(key=5, versions="0")
class ConsumerGroupMemberMetadataKey:
    group_id: String
    member_id: String


@struct
class ClassicProtocol:
    name: String
    metadata: Bytes


@struct
class ClassicMemberMetadata:
    session_timeout_ms: Int32
    supported_protocols: tuple[ClassicProtocol, ...]


@message(key=5, versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: tuple[String, ...]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None
    # Not None: in Kafka too an absent tag means an empty struct, and null is sent as null.
    classic_member_metadata: ClassicMemberMetadata | None = at(
        "0+", default=ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=()), tag=0
    )


@message(key=6, versions="0")
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: String


@message(key=6, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32
    assignment_timestamp: Int64 = at("0+", default=0, tag=0)  # in ms


@message(key=7, versions="0")
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: String
    member_id: String


@struct
class TopicPartition:
    topic_id: Uuid
    partitions: tuple[Int32, ...]


@message(key=7, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: tuple[TopicPartition, ...]


@message(key=8, versions="0")
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: String
    member_id: String


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: tuple[Int32, ...]
    # One for each partition.
    assignment_epochs: tuple[Int32, ...] | None = at("0+", default=(), tag=0)


@message(key=8, versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: Int32
    previous_member_epoch: Int32  # still accepted: the last answer may be lost
    state: Int8  # 0: stable, 1: has to revoke, 2: waits for others to release
    assigned_partitions: tuple[TopicPartitions, ...]
    partitions_pending_revocation: tuple[TopicPartitions, ...]


@message(key=16, versions="0")
class ConsumerGroupRegularExpressionKey:
    group_id: String
    regular_expression: String


@message(key=16, versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    topics: tuple[String, ...]
    version: Int64  # of the metadata that it was matched with
    timestamp: Int64  # in ms
