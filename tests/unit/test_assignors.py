"""Assignors, by example: who gets what, and who keeps what."""

from collections.abc import Iterable, Mapping

import pytest

from ottla.client.consumer.assignors import (
    Assignor,
    Member,
    RangeAssignor,
    RoundRobinAssignor,
    checked,
)
from ottla.client.consumer.sticky import CooperativeStickyAssignor, StickyAssignor
from ottla.model import TopicPartition

Shares = dict[str, set[str]]


def partition(name: str) -> TopicPartition:
    """`"a0"` is partition 0 of topic a."""
    return TopicPartition(name[0], int(name[1:]))


def members(
    subscriptions: Mapping[str, str], owned: Mapping[str, Iterable[str]] | None = None
) -> dict[str, Member]:
    """Members by id, with the topics that each reads, a letter each, and what it owns."""
    return {
        member_id: Member(
            member_id,
            frozenset(topics),
            frozenset(map(partition, (owned or {}).get(member_id, ()))),
            generation=1,
        )
        for member_id, topics in subscriptions.items()
    }


def shares(assignor: Assignor, given: Mapping[str, Member], **counts: int) -> Shares:
    plan = assignor.assign(given, counts)
    return {member_id: {f"{t}{p}" for t, p in tps} for member_id, tps in plan.items()}


def test_range_gives_each_member_neighbors_of_each_topic() -> None:
    got = shares(RangeAssignor(), members({"ada": "ab", "bob": "ab"}), a=3, b=3)
    assert got == {"ada": {"a0", "a1", "b0", "b1"}, "bob": {"a2", "b2"}}


def test_range_leaves_members_without_partitions_if_there_are_too_few() -> None:
    got = shares(RangeAssignor(), members({"ada": "a", "bob": "a", "cyd": "a"}), a=2)
    assert got == {"ada": {"a0"}, "bob": {"a1"}, "cyd": set()}


def test_range_serves_static_members_first_and_by_their_lasting_names() -> None:
    given = {
        "z": Member("z", frozenset("a"), instance_id="first"),
        "a": Member("a", frozenset("a"), instance_id="second"),
        "b": Member("b", frozenset("a")),
    }
    assert shares(RangeAssignor(), given, a=3) == {"z": {"a0"}, "a": {"a1"}, "b": {"a2"}}


def test_round_robin_deals_partitions_of_all_topics_in_turn() -> None:
    got = shares(RoundRobinAssignor(), members({"ada": "ab", "bob": "ab"}), a=3, b=3)
    assert got == {"ada": {"a0", "a2", "b1"}, "bob": {"a1", "b0", "b2"}}


def test_round_robin_passes_over_members_who_do_not_read_a_topic() -> None:
    got = shares(
        RoundRobinAssignor(), members({"ada": "a", "bob": "ab", "cyd": "abc"}), a=1, b=2, c=3
    )
    assert got == {"ada": {"a0"}, "bob": {"b0"}, "cyd": {"b1", "c0", "c1", "c2"}}


def test_round_robin_leaves_out_topics_that_nobody_reads() -> None:
    got = shares(RoundRobinAssignor(), members({"ada": "a"}), a=1, z=5)
    assert got == {"ada": {"a0"}}


def test_sticky_gives_everybody_the_same_at_first() -> None:
    got = shares(
        StickyAssignor(), members({"ada": "abcd", "bob": "abcd", "cyd": "abcd"}), a=2, b=2, c=2, d=2
    )
    assert sorted(len(tps) for tps in got.values()) == [2, 3, 3]


def with_past(past: Mapping[str, Iterable[str]], generation: int = 1) -> dict[str, Member]:
    """Members of topic a to d who tell in their user data what they had."""
    made = {}
    for member_id, had in past.items():
        assignor = StickyAssignor()
        assignor.assigned(map(partition, had), generation)
        made[member_id] = Member(member_id, frozenset("abcd"), user_data=assignor.user_data())
    return made


def test_sticky_moves_only_what_a_member_who_left_had() -> None:
    before = {"ada": ["a0", "b1", "d0"], "cyd": ["a1", "c0", "d1"]}
    got = shares(StickyAssignor(), with_past(before), a=2, b=2, c=2, d=2)
    assert got["ada"] > set(before["ada"])
    assert got["cyd"] > set(before["cyd"])
    assert (len(got["ada"]), len(got["cyd"])) == (4, 4)


def test_sticky_gives_a_newcomer_his_part_and_leaves_the_rest() -> None:
    before = {"ada": ["a0", "a1", "b0", "b1"], "bob": ["c0", "c1", "d0", "d1"]}
    given = with_past(before) | members({"new": "abcd"})
    got = shares(StickyAssignor(), given, a=2, b=2, c=2, d=2)
    assert sorted(len(tps) for tps in got.values()) == [2, 3, 3]
    assert got["ada"] < set(before["ada"])
    assert got["bob"] < set(before["bob"])


def test_of_two_claims_the_one_of_the_later_generation_counts() -> None:
    given = with_past({"old": ["a0", "a1"]}, 1) | with_past({"new": ["a0", "a1"]}, 2)
    got = shares(StickyAssignor(), given, a=2, b=2)
    assert got["new"] == {"a0", "a1"}


def test_of_two_equal_claims_none_counts() -> None:
    given = with_past({"one": ["a0"], "two": ["a0"]})
    got = shares(StickyAssignor(), given, a=1)
    assert sorted(map(len, got.values())) == [0, 1]


def test_user_data_that_nobody_understands_is_as_good_as_none() -> None:
    given = {"ada": Member("ada", frozenset("a"), user_data=b"\xff\xff")}
    assert shares(StickyAssignor(), given, a=2) == {"ada": {"a0", "a1"}}


def test_cooperative_sticky_takes_away_first_and_gives_in_the_next_round() -> None:
    first = shares(
        CooperativeStickyAssignor(),
        members({"ada": "a", "bob": "a"}, {"ada": ["a0", "a1", "a2", "a3"]}),
        a=4,
    )
    assert len(first["ada"]) == 2
    assert first["bob"] == set()

    second = shares(
        CooperativeStickyAssignor(), members({"ada": "a", "bob": "a"}, {"ada": first["ada"]}), a=4
    )
    assert second["ada"] == first["ada"]
    assert len(second["bob"]) == 2


def test_members_of_different_topics_share_what_they_can_evenly() -> None:
    got = shares(StickyAssignor(), members({"ada": "a", "bob": "ab", "cyd": "abc"}), a=1, b=2, c=3)
    assert got == {"ada": {"a0"}, "bob": {"b0", "b1"}, "cyd": {"c0", "c1", "c2"}}


@pytest.mark.parametrize(
    ("plan", "complaint"),
    [
        ({"nobody": [TopicPartition("a", 0)]}, "no members"),
        ({"ada": [TopicPartition("a", 1)]}, "a-1, which does not exist"),
        ({"ada": [TopicPartition("z", 0)]}, "z-0, which does not exist"),
    ],
)
def test_a_plan_for_strangers_or_for_nothing_is_refused(
    plan: dict[str, list[TopicPartition]], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        checked(plan, members({"ada": "a"}), {"a": 1}, "mine")


def test_a_plan_may_give_a_partition_to_several_and_forget_members() -> None:
    tp = TopicPartition("a", 0)
    given = members({"ada": "a", "bob": "a", "cyd": "a"})
    plan = checked({"ada": [tp], "bob": [tp]}, given, {"a": 1}, "broadcast")
    assert plan == {"ada": [tp], "bob": [tp], "cyd": []}
