"""Classic groups and committed offsets, as records of the topic __consumer_offsets.

A key is an int16 record type and then the body of a `...Key`; a value is an int16 version and then
the body of a `...Value` in that version.  The newest record of a key counts; one without a value
(a tombstone) says that the offset or the group is gone.

type 0  LegacyOffsetCommit: an offset, as written long ago; read, never written
type 1  OffsetCommit: an offset
          v1  has expire_timestamp: the commit itself set a retention
          v2  drops it again                                        (KIP-211)
          v3  adds leader_epoch                                     (KIP-320)
          v4  first flexible version; adds topic_id                 (KIP-915)
type 2  GroupMetadata: one generation of a group
          v1  adds rebalance_timeout
          v2  adds current_state_timestamp: since when it is empty  (KIP-211)
          v3  adds group_instance_id                                (KIP-345)
          v4  first flexible version                                (KIP-915)

Groups of the new protocol have records of their own in the same topic: `consumer_group_records`.
"""

from ottla.wire.schema import NO_UUID, Bytes, Int32, Int64, String, Uuid, at, message, struct


@message(key=0, versions="0")
class LegacyOffsetCommitKey:
    group: String
    topic: String
    partition: Int32


@message(key=0, versions="0")
class LegacyOffsetCommitValue:
    offset: Int64
    metadata: String
    commit_timestamp: Int64


@message(key=1, versions="0")
class OffsetCommitKey:
    group: String
    topic: String
    partition: Int32


@message(key=1, versions="0-4", flexible="4+")
class OffsetCommitValue:
    offset: Int64
    leader_epoch: Int32 = at("3+", default=-1, ignorable=True)
    metadata: String
    commit_timestamp: Int64  # in ms
    expire_timestamp: Int64 = at("1", default=-1, ignorable=True)  # in ms; -1: as the broker is set
    topic_id: Uuid = at("4+", default=NO_UUID, tag=0, ignorable=True)


@message(key=2, versions="0")
class GroupMetadataKey:
    group: String


@struct
class MemberMetadata:
    member_id: String
    group_instance_id: String | None = at("3+", default=None, ignorable=True)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = at("1+", default=-1, ignorable=True)  # in ms; -1: session_timeout
    session_timeout: Int32  # in ms
    subscription: Bytes
    assignment: Bytes


@message(key=2, versions="0-4", flexible="4+")
class GroupMetadataValue:
    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = at("2+", default=-1, ignorable=True)  # in ms; -1: unknown
    members: tuple[MemberMetadata, ...]
