"""ElectLeaders (key 43): give leadership to the preferred replica, or to any that lives.

v0  preferred replicas only                                   (KIP-183)
v1  adds election_type, and error_code for the whole request  (KIP-460)
v2  first flexible version

A partition that has the right leader already is answered ELECTION_NOT_NEEDED.
"""

from ottla.wire.schema import Int8, Int16, Int32, String, at, message, struct


@struct
class TopicPartitions:
    topic: String
    partitions: tuple[Int32, ...]


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    election_type: Int8 = at("1+", default=0)  # 0: preferred, 1: unclean
    topic_partitions: tuple[TopicPartitions, ...] | None  # null: all
    timeout_ms: Int32 = 60000


@struct
class PartitionResult:
    partition_id: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class ReplicaElectionResult:
    topic: String
    partition_result: tuple[PartitionResult, ...]


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = at("1+", default=0)
    replica_election_results: tuple[ReplicaElectionResult, ...]
