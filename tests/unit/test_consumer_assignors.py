"""Assignors, by example: who gets what, and who keeps what."""

from collections.abc import Iterable, Mapping

import pytest

from ottla.coordinator.group.consumer.assignors import Candidate, range_, uniform
from ottla.coordinator.group.consumer.topics import Place

Shares = dict[str, set[str]]


def places(named: Iterable[str]) -> frozenset[Place]:
    """`"a0"` is partition 0 of topic a."""
    return frozenset((name[:1].encode(), int(name[1:])) for name in named)


def members(
    subscriptions: Mapping[str, str], before: Mapping[str, Iterable[str]] | None = None
) -> dict[str, Candidate]:
    """Members by id, with the topics that each reads, a letter each, and what it had."""
    return {
        member_id: Candidate(
            topic_ids=frozenset(letter.encode() for letter in topics),
            places=places((before or {}).get(member_id, ())),
        )
        for member_id, topics in subscriptions.items()
    }


def counts(**given: int) -> dict[bytes, int]:
    return {name.encode(): count for name, count in given.items()}


def named(assignment: Mapping[str, frozenset[Place]]) -> Shares:
    return {m: {f"{t.decode()}{p}" for t, p in held} for m, held in assignment.items()}


@pytest.mark.parametrize(
    ("subscriptions", "given", "expected"),
    [
        ({"x": "a"}, {"a": 2}, {"x": {"a0", "a1"}}),
        ({"x": "a", "y": "a"}, {"a": 3}, {"x": {"a0", "a1"}, "y": {"a2"}}),
        (
            {"x": "ab", "y": "ab"},
            {"a": 3, "b": 3},
            {"x": {"a0", "a1", "b0", "b1"}, "y": {"a2", "b2"}},
        ),
        ({"x": "ab", "y": "b"}, {"a": 1, "b": 2}, {"x": {"a0", "b0"}, "y": {"b1"}}),
        ({"x": "a", "y": "a", "z": "a"}, {"a": 1}, {"x": {"a0"}, "y": set(), "z": set()}),
        ({"x": "a", "y": ""}, {"a": 1}, {"x": {"a0"}, "y": set()}),
        ({"x": "a"}, {}, {"x": set()}),
        ({}, {"a": 3}, {}),
    ],
)
def test_range_gives_neighbors(
    subscriptions: dict[str, str], given: dict[str, int], expected: Shares
) -> None:
    assert named(range_(members(subscriptions), counts(**given))) == expected


def test_range_puts_static_members_first_in_order_of_their_names() -> None:
    topics = frozenset({b"a"})
    group = {
        "1": Candidate(topic_ids=topics),
        "2": Candidate(topic_ids=topics, instance_id="zoe"),
        "3": Candidate(topic_ids=topics, instance_id="ada"),
    }

    assert named(range_(group, counts(a=3))) == {"3": {"a0"}, "2": {"a1"}, "1": {"a2"}}


@pytest.mark.parametrize(
    ("subscriptions", "before", "given", "expected"),
    [
        pytest.param(
            {"x": "a", "y": "a"},
            {"x": ["a0", "a1", "a2", "a3"]},
            {"a": 4},
            {"x": {"a0", "a1"}, "y": {"a2", "a3"}},
            id="a newcomer is given half",
        ),
        pytest.param(
            {"x": "a", "y": "a"},
            {"x": ["a1"], "y": ["a0", "a2"]},
            {"a": 3},
            {"x": {"a1"}, "y": {"a0", "a2"}},
            id="the larger share stays where it is",
        ),
        pytest.param(
            {"x": "a", "y": "a"},
            {"x": ["a0", "a2"], "y": ["a1", "a3"]},
            {"a": 6},
            {"x": {"a0", "a2", "a4"}, "y": {"a1", "a3", "a5"}},
            id="new partitions are added to what is there",
        ),
        pytest.param(
            {"x": "a", "y": "a"},
            {"x": ["a0", "b0", "a9"], "y": ["a1"]},
            {"a": 2},
            {"x": {"a0"}, "y": {"a1"}},
            id="what is gone is gone",
        ),
        pytest.param(
            {"x": "ab", "y": "b"},
            {},
            {"a": 2, "b": 2},
            {"x": {"a0", "a1"}, "y": {"b0", "b1"}},
            id="who can read little is served first",
        ),
        pytest.param(
            {"x": "ab", "y": "b"},
            {"x": ["a0", "b0", "b1", "b2"]},
            {"a": 1, "b": 3},
            {"x": {"a0", "b0"}, "y": {"b1", "b2"}},
            id="different subscriptions are leveled, too",
        ),
        pytest.param(
            {"x": "a", "y": "b"},
            {"x": ["a0", "b0"], "y": ["a1"]},
            {"a": 2, "b": 1},
            {"x": {"a0", "a1"}, "y": {"b0"}},
            id="nobody keeps what it does not read",
        ),
        pytest.param({"x": ""}, {"x": ["a0"]}, {"a": 1}, {"x": set()}, id="nobody reads it"),
        pytest.param({}, {}, {"a": 1}, {}, id="nobody is there"),
    ],
)
def test_uniform_is_even_and_moves_little(
    subscriptions: dict[str, str],
    before: dict[str, list[str]],
    given: dict[str, int],
    expected: Shares,
) -> None:
    assert named(uniform(members(subscriptions, before), counts(**given))) == expected


def test_a_partition_that_two_had_goes_to_one() -> None:
    group = members({"x": "a", "y": "a"}, {"x": ["a0", "a1"], "y": ["a0", "a1"]})

    shares = uniform(group, counts(a=2))

    assert sorted(len(held) for held in shares.values()) == [1, 1]
    assert shares["x"] | shares["y"] == places(["a0", "a1"])
