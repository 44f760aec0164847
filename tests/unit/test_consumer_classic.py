"""A member of a classic group: what it says, and what it makes of answers."""

from typing import Any

import pytest

from ottla.client.consumer.assignors import Member
from ottla.client.consumer.classic import NO_GENERATION, ClassicMember, Reaction, partitions_in
from ottla.errors import ConfigError, ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.stored.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.stored.versioned import decode_versioned
from tests.consumer_samples import OTHER, TP, settings


def member(**options: Any) -> ClassicMember:
    return ClassicMember(settings(**({"group_id": "g"} | options)))


def subscription_in(of: ClassicMember, *owned: TopicPartition) -> ConsumerProtocolSubscription:
    request = of.join(["orders"], owned, "test")
    return decode_versioned(ConsumerProtocolSubscription, request.protocols[0].metadata)


def leads(of: ClassicMember, *others: ClassicMember) -> dict[str, Member]:
    """Have `of` join as the leader, with its own subscription and those of others."""
    told = tuple(
        JoinGroupResponseMember(
            member_id=f"m{number}", metadata=m.join(["orders"], (), "").protocols[0].metadata
        )
        for number, m in enumerate((of, *others))
    )
    return of.joined(
        JoinGroupResponse(
            generation_id=5, protocol_name="range", leader="m0", member_id="m0", members=told
        )
    )


def test_a_join_says_who_and_what_and_why() -> None:
    request = member(
        session_timeout_ms=7_000,
        max_poll_interval_ms=9_000,
        heartbeat_interval_ms=1_000,
        group_instance_id="me",
    ).join({"b", "a"}, [TP], "because " + "x" * 300)
    assert [p.name for p in request.protocols] == ["range", "cooperative-sticky"]
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (7_000, 9_000)
    assert (request.group_instance_id, request.member_id) == ("me", "")
    assert len(request.reason or "") == 255


def test_a_subscription_tells_topics_owned_partitions_generation_and_rack() -> None:
    told = subscription_in(member(client_rack="attic"), TP, OTHER)
    assert told.topics == ("orders",)
    assert [(t.topic, t.partitions) for t in told.owned_partitions] == [("orders", (0, 1))]
    assert (told.generation_id, told.rack_id) == (NO_GENERATION, "attic")


@pytest.mark.parametrize(
    ("assignors", "is_cooperative"),
    [(["cooperative-sticky"], True), (["range", "cooperative-sticky"], False), (["sticky"], False)],
)
def test_a_member_is_cooperative_only_if_all_its_assignors_are(
    assignors: list[str], is_cooperative: bool
) -> None:
    assert member(assignors=assignors).is_cooperative is is_cooperative


def test_the_leader_shares_out_and_everybody_reads_his_part() -> None:
    leader = member()
    members = leads(leader, member())
    assert (leader.is_leader, leader.generation) == (True, 5)
    assert leader.group_topics == {"orders"}
    request = leader.sync(leader.plan(members, {"orders": 3}))
    assert request.protocol_name == "range"
    shares = {a.member_id: partitions_in(a.assignment) for a in request.assignments}
    assert {m: len(tps) for m, tps in shares.items()} == {"m0": 2, "m1": 1}
    assert leader.synced(request.assignments[0].assignment) == shares["m0"]


def test_a_follower_brings_no_plan() -> None:
    follower = member()
    answer = JoinGroupResponse(
        generation_id=5, protocol_name="range", leader="m0", member_id="m1", members=()
    )
    assert follower.joined(answer) == {}
    assert follower.sync().assignments == ()
    assert follower.identity.member_id == "m1"


def test_a_static_leader_that_came_back_has_nothing_to_share_out() -> None:
    leader = member(group_instance_id="me")
    answer = JoinGroupResponse(
        generation_id=5,
        protocol_name="range",
        leader="m0",
        member_id="m0",
        skip_assignment=True,
        members=(),
    )
    leader.joined(answer)
    assert leader.plan({}, {"orders": 3}) == {}


def test_an_assignor_that_we_do_not_have_is_an_error() -> None:
    answer = JoinGroupResponse(
        generation_id=5, protocol_name="exotic", leader="m0", member_id="m1", members=()
    )
    with pytest.raises(ConfigError, match="exotic"):
        member().joined(answer)


@pytest.mark.parametrize(
    ("code", "reaction", "keeps_id", "keeps_generation"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, Reaction.REJOIN, True, True),
        (ErrorCode.ILLEGAL_GENERATION, Reaction.LOST, True, False),
        (ErrorCode.UNKNOWN_MEMBER_ID, Reaction.FORGOTTEN, False, False),
        (ErrorCode.FENCED_INSTANCE_ID, Reaction.STOP, True, True),
        (ErrorCode.NOT_COORDINATOR, None, True, True),
    ],
)
def test_what_refusals_mean(
    code: ErrorCode, reaction: Reaction | None, keeps_id: bool, keeps_generation: bool
) -> None:
    refused = member()
    leads(refused)
    assert refused.refused(code) is reaction
    assert (refused.member_id == "m0") is keeps_id
    assert (refused.generation == 5) is keeps_generation


def test_the_sticky_assignor_tells_next_time_what_it_got() -> None:
    sticky = member(assignors=["sticky"])
    assert subscription_in(sticky).user_data is None
    sticky.joined(
        JoinGroupResponse(
            generation_id=5, protocol_name="sticky", leader="m0", member_id="m1", members=()
        )
    )
    sticky.synced(b"")
    assert subscription_in(sticky).user_data is not None


def test_leaving_says_who_and_why() -> None:
    leaver = member(group_instance_id="me")
    leads(leaver)
    (who,) = leaver.leave("bored").members
    assert (who.member_id, who.group_instance_id, who.reason) == ("m0", "me", "bored")
    leaver.left()
    assert (leaver.member_id, leaver.generation) == ("", NO_GENERATION)
