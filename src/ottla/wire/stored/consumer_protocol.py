"""What consumers tell each other through JoinGroup and SyncGroup: subscription and assignment.

To the coordinator these are bytes; it may look into them, because it must know the topics of a
group.  An int16 version comes first.

v1  adds owned_partitions, for cooperative rebalancing      (KIP-429)
v2  adds generation_id, to judge whose ownership is stale   (KIP-792)
v3  adds rack_id                                            (KIP-881)

A version newer than ours is read as ours, and what follows is ignored: fields are only ever added
at the end.  The assignment has the same versions, and is the same in all of them.
"""

from ottla.wire.schema import Bytes, Int32, String, at, message, struct


@struct
class TopicPartition:
    topic: String
    partitions: tuple[Int32, ...]


@message(versions="0-3")
class ConsumerProtocolSubscription:
    topics: tuple[String, ...]
    user_data: Bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = at("1+", default=(), ignorable=True)
    generation_id: Int32 = at("2+", default=-1, ignorable=True)
    rack_id: String | None = at("3+", default=None, ignorable=True)


@message(versions="0-3")
class ConsumerProtocolAssignment:
    assigned_partitions: tuple[TopicPartition, ...]
    user_data: Bytes | None = None
