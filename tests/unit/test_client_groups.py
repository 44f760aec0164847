"""Questions about groups, to brokers that tell less than ours, or of the other kind of group."""

from typing import Any, cast

import pytest

from ottla.cli.group.describe import print_text
from ottla.cli.output import Output
from ottla.client.basic.client import BasicClient
from ottla.client.basic.groups import GroupInfo, describe_group
from ottla.errors import BrokerError, ErrorCode, NotFoundError, UnsupportedError
from ottla.model import TopicPartition
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from ottla.wire.messages.describe_groups import DescribedGroup as ClassicGroup
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.group_sights import ORDERS, lag, member, sight

NODE_ID = 7
UNSUPPORTED = UnsupportedError(ErrorCode.UNSUPPORTED_VERSION, "no such API")


class Cluster:
    """A cluster that gives the same answers to everybody; an exception is raised."""

    def __init__(self, *answers: tuple[type[Any], Any]) -> None:
        found = FindCoordinatorResponse(node_id=NODE_ID, host="h", port=1)
        self._answers: dict[type[Any], Any] = {FindCoordinatorRequest: found}
        self._answers.update(answers)

    def metadata(self, topics: Any) -> None:
        """The client asks for it, to know where brokers are."""

    def ask(self, body: Any, *, node_id: int | None = None, max_version: int | None = None) -> Any:
        answer = self._answers[type(body)]
        if isinstance(answer, Exception):
            raise answer
        return answer


def described(*answers: tuple[type[Any], Any]) -> GroupInfo:
    return describe_group(cast(BasicClient, Cluster(*answers)), "kitchen")


def classic(state: str, error: ErrorCode = ErrorCode.NONE) -> tuple[type[Any], Any]:
    group = ClassicGroup(
        error_code=error,
        group_id="kitchen",
        group_state=state,
        protocol_type="consumer",
        protocol_data="range",
        members=(),
    )
    return DescribeGroupsRequest, DescribeGroupsResponse(groups=(group,))


def consumer(state: str, *members: Member, error: ErrorCode = ErrorCode.NONE) -> Any:
    group = DescribedGroup(
        error_code=error,
        group_id="kitchen",
        group_state=state,
        group_epoch=5,
        assignment_epoch=5,
        assignor_name="uniform",
        members=members,
    )
    return ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse(groups=(group,))


def shares(*partitions: int) -> Assignment:
    topic = TopicPartitions(topic_id=bytes(16), topic_name="orders", partitions=partitions)
    return Assignment(topic_partitions=(topic,))


MISSING = [
    pytest.param(classic("Dead"), id="v5"),
    pytest.param(classic("Dead", ErrorCode.GROUP_ID_NOT_FOUND), id="v6"),
]


def test_a_broker_that_skips_the_wish_tells_no_story() -> None:
    group = described(classic("Stable"))

    assert (group.state, group.is_classic, group.coordinator_id) == ("Stable", True, NODE_ID)
    assert (group.story, group.generation) == (None, None)


@pytest.mark.parametrize("classic_answer", MISSING)
def test_a_group_that_is_not_classic_may_be_one_of_the_new_protocol(classic_answer: Any) -> None:
    ada = Member(
        member_id="ada",
        member_epoch=4,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=("orders",),
        assignment=shares(1, 0),
        target_assignment=shares(0),
    )

    group = described(classic_answer, consumer("Reconciling", ada))

    assert (group.state, group.is_classic, group.generation) == ("Reconciling", False, 5)
    (found,) = group.members
    assert found.assignment == (TopicPartition("orders", 0), TopicPartition("orders", 1))
    assert (found.epoch, found.target) == (4, (TopicPartition("orders", 0),))


@pytest.mark.parametrize("classic_answer", MISSING)
@pytest.mark.parametrize(
    "other",
    [
        pytest.param((ConsumerGroupDescribeRequest, UNSUPPORTED), id="a broker without them"),
        pytest.param(consumer("Dead", error=ErrorCode.GROUP_ID_NOT_FOUND), id="not one either"),
    ],
)
def test_a_group_of_no_kind_is_not_found(classic_answer: Any, other: Any) -> None:
    with pytest.raises(NotFoundError, match="kitchen"):
        described(classic_answer, other)


def test_another_error_is_raised_as_it_is() -> None:
    denied = consumer("", error=ErrorCode.GROUP_AUTHORIZATION_FAILED)

    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        described(classic("Dead"), denied)
    with pytest.raises(BrokerError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        described(classic("", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))


def test_describe_says_that_a_broker_tells_no_rebalances(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_text(Output(), sight(lag(), members=[member("ada", ORDERS)], generation=None))

    shown = capsys.readouterr()
    assert shown.err == "of its rebalances, the broker does not tell\n"
    assert shown.out.startswith("kitchen · Stable · 1 member · lag 6 · coordinator 1 · range\n")
    assert "REASON" not in shown.out
