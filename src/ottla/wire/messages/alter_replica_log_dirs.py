"""AlterReplicaLogDirs (key 34): move replicas to another directory of the same broker.

v1  the oldest version since Kafka 4.0                    (KIP-113, KIP-896)
v2  first flexible version
"""

from ottla.wire.schema import Int16, Int32, String, message, struct


@struct
class AlterReplicaLogDirTopic:
    name: String
    partitions: tuple[Int32, ...]


@struct
class AlterReplicaLogDir:
    path: String
    topics: tuple[AlterReplicaLogDirTopic, ...]


@message(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    dirs: tuple[AlterReplicaLogDir, ...]


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: String
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...]


@message(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    throttle_time_ms: Int32 = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...]
