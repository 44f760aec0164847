"""Whether a member of a consumer group may commit or fetch offsets, by its epoch.

A member commits in its own epoch.  An older one is accepted for partitions that the member has had
since then: it has not yet heard of its new epoch, and nobody else can have read them (KIP-1251).
"""

from collections.abc import Iterator
from typing import Final

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.topics import Place, Topics
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.schema import NO_UUID

MEMBER_EPOCH_SINCE: Final = 9
"""From this version of OffsetCommit on, members of the new protocol may use it."""

STALE_EPOCH_IN_TXN_SINCE: Final = 6
"""From this version of TxnOffsetCommit on, clients know what a stale epoch is (KIP-1319)."""


def commit_refusal(
    group: ConsumerGroup, request: OffsetCommitRequest, version: int, topics: Topics
) -> ErrorCode:
    """Whether the sender of an OffsetCommit may commit; all partitions are answered with it."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return ErrorCode.NONE  # from outside, while nobody is inside
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not member.is_classic and version < MEMBER_EPOCH_SINCE:
        return ErrorCode.UNSUPPORTED_VERSION
    return _epoch_refusal(member, epoch, _places(request, topics))


def txn_commit_refusal(
    group: ConsumerGroup, request: TxnOffsetCommitRequest, version: int, topics: Topics
) -> ErrorCode:
    """Whether the sender of a TxnOffsetCommit may commit; it need not say that it is a member."""
    epoch = request.generation_id_or_member_epoch
    is_nobody = not request.member_id and request.group_instance_id is None
    if epoch < 0 and (not group.members or is_nobody):
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = _epoch_refusal(member, epoch, _places(request, topics))
    is_old = version < STALE_EPOCH_IN_TXN_SINCE
    return ErrorCode.ILLEGAL_GENERATION if is_old and error else error


def fetch_refusal(group: ConsumerGroup, asked: OffsetFetchRequestGroup) -> ErrorCode:
    """Whether the sender may fetch offsets; from outside everybody may."""
    if asked.member_id is None and asked.member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(asked.member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if asked.member_epoch == member.epoch else _stale(member)


def _epoch_refusal(
    member: ConsumerMember, epoch: int, places: "Iterator[Place | None]"
) -> ErrorCode:
    if epoch == member.epoch:
        return ErrorCode.NONE
    if epoch > member.epoch:
        return _stale(member)
    held = {**member.revoking, **member.assigned}
    is_current = all(place in held and epoch >= held[place] for place in places)
    return ErrorCode.NONE if is_current else _stale(member)


def _stale(member: ConsumerMember) -> ErrorCode:
    """The same in the words of either protocol."""
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH


def _places(
    request: OffsetCommitRequest | TxnOffsetCommitRequest, topics: Topics
) -> "Iterator[Place | None]":
    for topic in request.topics:
        topic_id = topics.id_of(topic.name) if topic.topic_id == NO_UUID else topic.topic_id
        for partition in topic.partitions:
            yield None if topic_id is None else (topic_id, partition.partition_index)
