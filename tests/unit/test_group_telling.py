"""What is told about groups: lists and descriptions."""

from ottla.errors import ErrorCode
from tests.group_samples import GROUP, Desk, in_state, pair, subscription


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
