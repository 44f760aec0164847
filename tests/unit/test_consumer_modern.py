"""A member of a group whose broker assigns: it says what is new, and follows the target."""

from typing import Any

import pytest

from ottla.client.consumer.modern import Fate, ModernMember, named, target_of, wire_target
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.consumer_samples import OTHER, TP, settings

ID = b"0123456789abcdef"
ORDERS = frozenset({"orders"})
NOTHING: frozenset[Any] = frozenset()
BOTH = frozenset({(ID, 0), (ID, 1)})


def member(**options: Any) -> ModernMember:
    given = {"group_id": "g", "group_protocol": "consumer"} | options
    return ModernMember(settings(**given), "me")


def answer(epoch: int, *partitions: int, has_target: bool = True) -> ConsumerGroupHeartbeatResponse:
    told = Assignment(
        topic_partitions=(TopicPartitions(topic_id=ID, partitions=partitions),)
        if partitions
        else ()
    )
    return ConsumerGroupHeartbeatResponse(
        member_id="me",
        member_epoch=epoch,
        heartbeat_interval_ms=700,
        assignment=told if has_target else None,
    )


def joined() -> ModernMember:
    made = member()
    made.answered(answer(1, 0, 1), ORDERS, NOTHING)
    return made


def test_a_join_says_everything() -> None:
    request = member(
        group_remote_assignor="uniform", client_rack="attic", max_poll_interval_ms=900
    ).heartbeat(ORDERS, NOTHING)
    assert (request.member_id, request.member_epoch) == ("me", 0)
    assert request.subscribed_topic_names == ("orders",)
    assert request.topic_partitions == ()
    assert (request.server_assignor, request.rack_id) == ("uniform", "attic")
    assert request.rebalance_timeout_ms == 900


def test_an_answer_gives_epoch_interval_and_target() -> None:
    made = member()
    assert made.identity.generation_id == -1
    assert made.answered(answer(1, 0, 1), ORDERS, NOTHING)
    assert (made.epoch, made.heartbeat_interval_ms, made.target) == (1, 700, BOTH)
    assert (made.identity.member_id, made.identity.generation_id) == ("me", 1)


def test_later_heartbeats_say_only_what_is_new() -> None:
    made = joined()
    plain = made.heartbeat(ORDERS, NOTHING)
    assert (plain.subscribed_topic_names, plain.topic_partitions) == (None, None)
    assert not made.needs_heartbeat(ORDERS, NOTHING)

    assert made.needs_heartbeat(ORDERS, BOTH)
    owning = made.heartbeat(ORDERS, BOTH)
    assert owning.topic_partitions == wire_target(BOTH)
    assert owning.subscribed_topic_names is None

    assert made.heartbeat(frozenset({"more"}), NOTHING).subscribed_topic_names == ("more",)


def test_an_answer_without_a_target_leaves_it_as_it_was() -> None:
    made = joined()
    assert not made.answered(answer(2, has_target=False), ORDERS, BOTH)
    assert made.target == BOTH
    assert made.answered(answer(3), ORDERS, BOTH)
    assert made.target == NOTHING


def test_when_no_answer_came_everything_is_said_again_and_so_the_target_is_told_again() -> None:
    made = joined()
    assert made.heartbeat(ORDERS, NOTHING).rebalance_timeout_ms == -1
    made.unanswered()
    request = made.heartbeat(ORDERS, BOTH)
    assert request.subscribed_topic_names == ("orders",)
    assert request.topic_partitions == wire_target(BOTH)
    assert request.rebalance_timeout_ms > 0


@pytest.mark.parametrize(
    ("code", "fate"),
    [
        (ErrorCode.FENCED_MEMBER_EPOCH, Fate.LOST),
        (ErrorCode.UNKNOWN_MEMBER_ID, Fate.LOST),
        (ErrorCode.FENCED_INSTANCE_ID, Fate.STOP),
        (ErrorCode.UNSUPPORTED_ASSIGNOR, Fate.FAIL),
        (ErrorCode.NOT_COORDINATOR, Fate.RETRY),
    ],
)
def test_what_refusals_mean(code: ErrorCode, fate: Fate) -> None:
    made = joined()
    assert made.refused(code) is fate
    assert made.is_in is (fate is Fate.RETRY)
    assert made.member_id == "me"


def test_static_members_leave_for_a_while() -> None:
    made = member(group_instance_id="ada")
    assert made.leave(comes_back=True).member_epoch == -2
    assert made.leave(comes_back=False).member_epoch == -1


def test_a_target_is_named_when_all_its_topics_are_known() -> None:
    target = target_of([TopicPartitions(topic_id=ID, partitions=(0, 1))])
    assert named(target, {}) is None
    assert named(target, {ID: "orders"}) == frozenset({TP, OTHER})
