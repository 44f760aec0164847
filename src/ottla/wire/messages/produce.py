"""Produce (key 0): append record batches to partitions, and learn at which offset they begin.

v3   the oldest version since Kafka 4.0; transactional_id, batches of format 2   (KIP-98, KIP-896)
v4   a failed disk is reported as KAFKA_STORAGE_ERROR                            (KIP-112)
v5   adds log_start_offset, to tell a lost sequence from a deleted one
v6   the client waits out throttle_time_ms, not the broker                       (KIP-219)
v7   batches may be compressed with zstd                                         (KIP-110)
v8   adds record_errors and error_message: which record spoiled the batch        (KIP-467)
v9   first flexible version
v10  adds current_leader and node_endpoints, so a moved leader is found at once  (KIP-951)
v11  may answer TRANSACTION_ABORTABLE: abort, and the producer lives on          (KIP-890)
v12  writing adds the partition to the transaction (transactions v2)             (KIP-890)
v13  topic_id replaces name; may answer UNKNOWN_TOPIC_ID                         (KIP-516)

With acks=0 no response is sent, not even an error; the connection goes on with the next request.

Kafka 4 advertises 0-13 and refuses 0-2 (KAFKA-18659): librdkafka stops compressing when version 0
is missing from the list.  A producer with transactions v1 must not go beyond v11 in a transaction.
In the response `throttle_time_ms` comes after `responses`; in most others it is the first field.
"""

from ottla.wire.schema import (
    NO_UUID,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uuid,
    at,
    message,
    struct,
)


@struct
class PartitionProduceData:
    index: Int32
    records: Records | None


@struct
class TopicProduceData:
    name: String = at("0-12", default="", ignorable=True)
    topic_id: Uuid = at("13+", default=NO_UUID, ignorable=True)
    partition_data: tuple[PartitionProduceData, ...]


@message(key=0, versions="3-13", flexible="9+")
class ProduceRequest:
    transactional_id: String | None = None
    acks: Int16  # -1: all in-sync replicas, 1: the leader, 0: no response at all
    timeout_ms: Int32
    topic_data: tuple[TopicProduceData, ...]


@struct
class BatchIndexAndErrorMessage:
    batch_index: Int32  # of the record in its batch
    batch_index_error_message: String | None = None


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class PartitionProduceResponse:
    index: Int32
    error_code: Int16 = 0
    base_offset: Int64
    log_append_time_ms: Int64 = -1  # -1: the records keep their own
    log_start_offset: Int64 = at("5+", default=-1, ignorable=True)
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = at("8+", default=(), ignorable=True)
    error_message: String | None = at("8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = at("10+", default=LeaderIdAndEpoch(), tag=0)


@struct
class TopicProduceResponse:
    name: String = at("0-12", default="", ignorable=True)
    topic_id: Uuid = at("13+", default=NO_UUID, ignorable=True)
    partition_responses: tuple[PartitionProduceResponse, ...]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(key=0, versions="3-13", flexible="9+")
class ProduceResponse:
    responses: tuple[TopicProduceResponse, ...]
    throttle_time_ms: Int32 = 0
    node_endpoints: tuple[NodeEndpoint, ...] = at("10+", default=(), tag=0)
