"""One question about a group, whatever its kind, to brokers that know more or less of it."""

from typing import Any

import pytest

from ottla.client.admin.groups import GroupInfo, describe_group
from ottla.client.admin.stories import AwaitedMember, GroupStory, Rebalance
from ottla.errors import BrokerError, ErrorCode, NotFoundError
from ottla.model import TopicPartition
from ottla.wire.messages import describe_groups as wire
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from ottla.wire.registry import ApiKey
from tests.client.admin_world import ask, in_turn
from tests.client.scripted import ScriptedBroker, api_versions

ORDERS = TopicPartition("orders", 0)


def described(
    classic: wire.DescribeGroupsResponse, consumer: ConsumerGroupDescribeResponse | None = None
) -> GroupInfo:
    """What is found with a broker that gives these answers; None: it has no such groups."""
    broker = ScriptedBroker(7)
    broker.handlers[ApiKey.DESCRIBE_GROUPS] = in_turn(classic)
    if consumer is None:
        lacking = frozenset({ApiKey.CONSUMER_GROUP_DESCRIBE})
        broker.handlers[ApiKey.API_VERSIONS] = api_versions(without=lacking)
    else:
        broker.handlers[ApiKey.CONSUMER_GROUP_DESCRIBE] = in_turn(consumer)
    return ask(broker, work=lambda caller: describe_group(caller, "kitchen"), max_retries=0)


def classic_group(
    state: str, code: ErrorCode = ErrorCode.NONE, story: wire.GroupStory | None = None
) -> wire.DescribeGroupsResponse:
    group = wire.DescribedGroup(
        error_code=code,
        group_id="kitchen",
        group_state=state,
        protocol_type="consumer",
        protocol_data="range",
        members=(),
        story=story,
    )
    return wire.DescribeGroupsResponse(groups=(group,))


def consumer_group(
    state: str,
    *members: Member,
    code: ErrorCode = ErrorCode.NONE,
    story: wire.GroupStory | None = None,
) -> ConsumerGroupDescribeResponse:
    group = DescribedGroup(
        error_code=code,
        group_id="kitchen",
        group_state=state,
        group_epoch=5,
        assignment_epoch=5,
        assignor_name="uniform",
        members=members,
        story=story,
    )
    return ConsumerGroupDescribeResponse(groups=(group,))


def shares(*partitions: int) -> Assignment:
    topic = TopicPartitions(topic_id=bytes(16), topic_name="orders", partitions=partitions)
    return Assignment(topic_partitions=(topic,))


MISSING = [
    pytest.param(classic_group("Dead"), id="v5"),
    pytest.param(classic_group("Dead", ErrorCode.GROUP_ID_NOT_FOUND), id="v6"),
]


def test_a_broker_that_skips_the_wish_tells_no_story() -> None:
    group = described(classic_group("Stable"))

    assert (group.state, group.type, group.coordinator) == ("Stable", "classic", 7)
    assert (group.story, group.epoch) == (None, None)


def test_a_story_is_told_in_plain_values_and_what_nobody_knows_is_none() -> None:
    told = wire.GroupStory(
        now_ms=1_000,
        until_ms=1_500,
        generation_id=3,
        awaited=(
            wire.AwaitedMember(member_id="ada", what=wire.Awaited.JOIN, until_ms=1_500),
            wire.AwaitedMember(member_id="bob", what=99, since_ms=900),
        ),
        rebalances=(
            wire.ToldRebalance(
                began_ms=800, member_id="", client_id="", client_host="", reason="topics changed"
            ),
        ),
        commits=(
            wire.CommittedTopic(
                name="orders",
                partitions=(wire.CommittedPartition(partition_index=0, committed_ms=700),),
            ),
        ),
    )

    group = described(classic_group("PreparingRebalance", story=told))

    assert group.epoch == 3
    assert group.story == GroupStory(
        now_ms=1_000,
        since_ms=None,
        until_ms=1_500,
        awaited=(
            AwaitedMember(member_id="ada", what="join", since_ms=None, until_ms=1_500),
            AwaitedMember(member_id="bob", what="unknown (99)", since_ms=900, until_ms=None),
        ),
        rebalances=(
            Rebalance(
                began_ms=800,
                ended_ms=None,
                generation=None,
                member_id=None,
                client_id="",
                host="",
                reason="topics changed",
            ),
        ),
        committed_ms={ORDERS: 700},
    )


@pytest.mark.parametrize("classic", MISSING)
def test_a_group_that_is_not_classic_may_be_one_of_the_new_protocol(
    classic: wire.DescribeGroupsResponse,
) -> None:
    ada = Member(
        member_id="ada",
        member_epoch=4,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=("orders",),
        assignment=shares(1, 0),
        target_assignment=shares(0),
    )

    group = described(classic, consumer_group("Reconciling", ada))

    assert (group.state, group.type, group.epoch) == ("Reconciling", "consumer", 5)
    assert group.story is None, "Apache Kafka tells none"
    (found,) = group.members
    assert found.assignment == (ORDERS, TopicPartition("orders", 1))
    assert (found.epoch, found.target) == (4, (ORDERS,))


@pytest.mark.parametrize(
    ("what", "word"),
    [
        (wire.Awaited.REVOCATION, "revocation"),
        (wire.Awaited.EPOCH, "epoch"),
        (wire.Awaited.RETURN, "return"),
        (wire.Awaited.HEARTBEAT, "heartbeat"),
    ],
)
def test_a_group_of_the_new_protocol_tells_its_story_too(what: wire.Awaited, word: str) -> None:
    told = wire.GroupStory(
        now_ms=1_000,
        generation_id=5,
        awaited=(wire.AwaitedMember(member_id="ada", what=what, since_ms=900),),
        rebalances=(),
        commits=(),
    )

    group = described(classic_group("Dead"), consumer_group("Reconciling", story=told))

    assert group.story is not None
    assert [(a.member_id, a.what, a.since_ms) for a in group.story.awaited] == [("ada", word, 900)]


@pytest.mark.parametrize("classic", MISSING)
@pytest.mark.parametrize(
    "consumer",
    [
        pytest.param(None, id="a broker without them"),
        pytest.param(
            consumer_group("Dead", code=ErrorCode.GROUP_ID_NOT_FOUND), id="not one either"
        ),
    ],
)
def test_a_group_of_no_kind_is_not_found(classic: Any, consumer: Any) -> None:
    with pytest.raises(NotFoundError, match="kitchen"):
        described(classic, consumer)


def test_another_error_is_raised_as_it_is() -> None:
    denied = consumer_group("", code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        described(classic_group("Dead"), denied)
    with pytest.raises(BrokerError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        described(classic_group("", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
