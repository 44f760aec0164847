"""ConsumerGroupHeartbeat as a message: what can be refused without knowing the group, and answers.

A refusal carries words: the protocol has a place for them, and clients log them.
"""

from dataclasses import replace
from typing import Final

from ottla.coordinator.caller import Caller
from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import Answer, Ticket
from ottla.coordinator.group.consumer.member import (
    AWAY_EPOCH,
    JOINING_EPOCH,
    LEAVING_EPOCH,
    ConsumerMember,
)
from ottla.coordinator.group.consumer.records import by_topic, places_of
from ottla.coordinator.group.consumer.topics import Place
from ottla.coordinator.pattern_syntax import PatternError
from ottla.coordinator.patterns import compiled
from ottla.errors import ErrorCode
from ottla.values import dataclass
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

OWN_MEMBER_ID_SINCE: Final = 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused."""

    error: ErrorCode
    reason: str


def refusal(
    request: ConsumerGroupHeartbeatRequest, version: int, config: GroupConfig
) -> Refusal | None:
    """What can be said of a request without knowing the group."""
    reason = _misuse(request, version)
    if reason is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, reason)
    assignor = request.server_assignor
    if assignor is not None and assignor not in config.consumer_assignors:
        known = ", ".join(config.consumer_assignors)
        return Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR, f"there is no assignor {assignor}; there are: {known}"
        )
    try:
        compiled(request.subscribed_topic_regex or "")
    except PatternError as error:
        return Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{request.subscribed_topic_regex!r} is not a regular expression: {error}",
        )
    return None


def _misuse(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    epoch = request.member_epoch
    needs_id = version >= OWN_MEMBER_ID_SINCE or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH
    if needs_id and not request.member_id:
        return "a member must have an id"
    for name in ("group_id", "instance_id", "rack_id"):
        if getattr(request, name) == "":
            return f"{name} must not be empty"
    if epoch == JOINING_EPOCH:
        return _misuse_of_join(request)
    if epoch == AWAY_EPOCH and request.instance_id is None:
        return "only a static member can leave for a while: it needs an instance id"
    if epoch < AWAY_EPOCH:
        return f"there is no member epoch {epoch}"
    return None


def _misuse_of_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "who joins must say its rebalance timeout"
    if request.topic_partitions != ():
        return "who joins must say that it owns no partitions"
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "who joins must say what it subscribes to"
    return None


def epoch_refusal(
    member: ConsumerMember, epoch: int, owned: frozenset[Place] | None
) -> Refusal | None:
    """Whether a member may go on in that epoch.

    Its previous epoch is accepted if it owns nothing but what it was given since: then the answer
    that told it of its epoch was lost.
    """
    if epoch in (JOINING_EPOCH, member.epoch):
        return None
    knows_less = epoch < member.epoch and epoch == member.previous_epoch
    if knows_less and owned is not None and owned <= member.assigned.keys():
        return None
    return Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"member {member.member_id} is in epoch {member.epoch}, not {epoch}: "
        "it must give up its partitions and join again",
    )


def updated(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> ConsumerMember:
    """The member with what is new in the request; what is null is as before."""
    timeout_ms = request.rebalance_timeout_ms
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=request.server_assignor or member.server_assignor,
        names=member.names if names is None else frozenset(names),
        pattern=member.pattern if pattern is None else pattern,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def owned_by(request: ConsumerGroupHeartbeatRequest) -> frozenset[Place] | None:
    """What the member says it owns; None if it does not say."""
    given = request.topic_partitions
    return None if given is None else places_of(given)


def accepted(
    request: ConsumerGroupHeartbeatRequest,
    before: ConsumerMember,
    member: ConsumerMember,
    interval_ms: int,
) -> ConsumerGroupHeartbeatResponse:
    """The answer to a member; its assignment only if it has changed, or the member may not know."""
    asks_all = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names, request.subscribed_topic_regex) != (None, None)
        and request.topic_partitions is not None
    )
    is_told = (
        request.member_epoch == JOINING_EPOCH
        or asks_all
        or before.assigned.keys() != member.assigned.keys()
    )
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=_assignment(member) if is_told else None,
    )


def left(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    """The answer to one who leaves."""
    return ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
    )


def refused(ticket: Ticket, why: Refusal) -> Answer:
    """The answer to a request that comes to nothing."""
    response = ConsumerGroupHeartbeatResponse(
        error_code=why.error, error_message=why.reason, member_epoch=0, heartbeat_interval_ms=0
    )
    return Answer(ticket, response)


def _assignment(member: ConsumerMember) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic(member.assigned).items()
        )
    )
