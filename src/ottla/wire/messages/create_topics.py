"""CreateTopics (key 19): create topics, or check whether they could be created.

v2  the oldest version since Kafka 4.0                                         (KIP-896)
v3  the client waits out throttle_time_ms, not the broker                      (KIP-219)
v4  num_partitions and replication_factor may be -1: the broker's default      (KIP-464)
v5  first flexible version; adds configs: the settings that the new topic has  (KIP-525)
v6  may answer THROTTLING_QUOTA_EXCEEDED                                       (KIP-599)
v7  adds topic_id to the response                                              (KIP-516)
"""

from ottla.wire.schema import NO_UUID, Bool, Int8, Int16, Int32, String, Uuid, at, message, struct


@struct
class CreatableReplicaAssignment:
    partition_index: Int32
    broker_ids: tuple[Int32, ...]


@struct
class CreatableTopicConfig:
    name: String
    value: String | None


@struct
class CreatableTopic:
    name: String
    num_partitions: Int32  # -1: the default, or as assignments say
    replication_factor: Int16  # -1: the default, or as assignments say
    assignments: tuple[CreatableReplicaAssignment, ...]
    configs: tuple[CreatableTopicConfig, ...]


@message(key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest:
    topics: tuple[CreatableTopic, ...]
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


@struct
class CreatableTopicConfigs:
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = -1  # numbered as in describe_configs
    is_sensitive: Bool


@struct
class CreatableTopicResult:
    name: String
    topic_id: Uuid = at("7+", default=NO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = None
    topic_config_error_code: Int16 = at("5+", default=0, tag=0, ignorable=True)
    num_partitions: Int32 = at("5+", default=-1, ignorable=True)
    replication_factor: Int16 = at("5+", default=-1, ignorable=True)
    configs: tuple[CreatableTopicConfigs, ...] | None = at("5+", default=(), ignorable=True)


@message(key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[CreatableTopicResult, ...]
