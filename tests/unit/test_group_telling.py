"""What is told about groups: lists, descriptions, and in words what they wait for."""

from ottla.errors import ErrorCode
from tests.group_samples import GROUP, SESSION_MS, Desk, in_state, pair, subscription


def test_a_stable_group_is_described_with_its_members() -> None:
    desk, ada, bob = pair()

    group = desk.describe()

    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [(m.member_id, m.member_assignment) for m in group.members] == [
        (ada, b"p0"),
        (bob, b"p1"),
    ]
    assert {m.member_metadata for m in group.members} == {subscription()}
    assert {m.client_host for m in group.members} == {"/10.0.0.1"}


def test_metadata_of_members_is_told_only_when_the_group_is_stable() -> None:
    desk, _ = in_state("PreparingRebalance")

    group = desk.describe()

    assert group.protocol_data == ""
    assert {member.member_metadata for member in group.members} == {b""}


def test_an_unknown_group_is_dead_and_since_v6_an_error() -> None:
    desk = Desk()

    old, new = desk.describe(version=5), desk.describe(version=6)

    assert (old.group_state, old.error_code) == ("Dead", ErrorCode.NONE)
    assert (new.group_state, new.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert new.error_message == "group orders-app does not exist"


def test_groups_are_listed_by_state_and_type() -> None:
    desk, _ = in_state("Stable")
    desk.commit(group_id="tool")

    assert desk.listed() == [GROUP, "tool"]
    assert desk.listed(states=["stable"]) == [GROUP]
    assert desk.listed(states=["Empty", "Dead"]) == ["tool"]
    assert desk.listed(types=["Classic"]) == [GROUP, "tool"]
    assert desk.listed(types=["consumer"]) == []


def test_why_names_the_members_that_a_rebalance_waits_for() -> None:
    desk, ada, bob = pair()
    desk.join(ada, reason="new partitions")
    desk.pass_time(2000)

    lines = desk.machine.explain(GROUP, desk.now_ms)

    assert lines == [
        "Group orders-app is PreparingRebalance for 2.0 s.",
        f"It waits for {bob} (/10.0.0.1) to join again, at most 60.0 s "
        "(the longest rebalance timeout of a member).",
        f"The last rebalance was set off by {ada}: the leader joined again: new partitions.",
    ]


def test_why_names_the_leader_whose_assignment_is_missing() -> None:
    desk, ada, bob = pair()
    desk.join(ada)
    desk.join(bob)
    desk.sync(bob, 3)

    lines = desk.machine.explain(GROUP, desk.now_ms)

    assert f"It waits for its leader, {ada} (/10.0.0.1), to share out the partitions." in lines
    assert "1 member waits for an assignment." in lines


def test_why_tells_of_members_that_are_about_to_be_removed() -> None:
    desk, ada = in_state("Stable")
    desk.pass_time(SESSION_MS - 3000)

    lines = desk.machine.explain(GROUP, desk.now_ms)

    assert lines[1] == "Generation 1 has 1 member; it waits for nothing."
    assert lines[2] == (
        f"{ada} (/10.0.0.1) was silent for 7.0 s, and is removed in 3.0 s unless it is heard of."
    )


def test_why_knows_groups_that_are_empty_new_or_not_there() -> None:
    empty, _ = in_state("Empty")
    new = Desk(initial_rebalance_delay_ms=3000)
    new.join(version=3)
    new.join()

    assert "It has no members" in empty.machine.explain(GROUP, empty.now_ms)[1]
    lines = new.machine.explain(GROUP, new.now_ms)
    assert "group.initial.rebalance.delay.ms" in lines[1]
    assert lines[2] == "1 member got an id and has yet to join."
    assert Desk().machine.explain(GROUP, 0)[0].startswith("There is no group orders-app")
