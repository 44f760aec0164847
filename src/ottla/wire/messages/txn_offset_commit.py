"""TxnOffsetCommit (key 28): commit a group's offsets as part of a transaction.

v0  the first version                                                           (KIP-98)
v1  the client waits out throttle_time_ms, not the broker                       (KIP-219)
v2  adds committed_leader_epoch                                                 (KIP-320)
v3  first flexible version; adds member_id and generation, which fence zombies  (KIP-447)
v4  may answer TRANSACTION_ABORTABLE: abort, and the producer lives on          (KIP-890)
v5  sending it adds the group to the transaction (transactions v2)              (KIP-890)
v6  topic_id replaces name                                                      (KIP-1319)

It goes to the coordinator of the group, not to that of the transaction.  A producer with
transactions v1 must not go beyond v4.  Below v2 a coordinator that is still loading says
COORDINATOR_NOT_AVAILABLE, because old clients crash on COORDINATOR_LOAD_IN_PROGRESS.
"""

from ottla.wire.schema import NO_UUID, Int16, Int32, Int64, String, Uuid, at, message, struct


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = at("2+", default=-1, ignorable=True)
    committed_metadata: String | None


@struct
class TxnOffsetCommitRequestTopic:
    name: String = at("0-5", default="", ignorable=True)
    topic_id: Uuid = at("6+", default=NO_UUID, ignorable=True)
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]


@message(key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitRequest:
    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id_or_member_epoch: Int32 = at("3+", default=-1)  # -1: not a member
    member_id: String = at("3+", default="")
    group_instance_id: String | None = at("3+", default=None)
    topics: tuple[TxnOffsetCommitRequestTopic, ...]


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class TxnOffsetCommitResponseTopic:
    name: String = at("0-5", default="", ignorable=True)
    topic_id: Uuid = at("6+", default=NO_UUID, ignorable=True)
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]


@message(key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...]
