"""Assignors beside kafka-python's, on random groups: the same plans, or the same guarantees."""

import random
import warnings
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData

from ottla.client.consumer.assignors import Assignor, Member, RangeAssignor, RoundRobinAssignor
from ottla.client.consumer.sticky import CooperativeStickyAssignor, StickyAssignor
from ottla.model import TopicPartition

GROUP_COUNT = 300

Past = tuple[list[tuple[str, list[int]]], int]
"""What a member had, by topic, and in which generation."""


class Cluster:
    """As much of a cluster as kafka-python's assignors look at."""

    def __init__(self, counts: dict[str, int]) -> None:
        self._counts = counts

    def topics(self) -> set[str]:
        return set(self._counts)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self._counts[topic])) if topic in self._counts else None


class Metadata:
    def __init__(self, topics: frozenset[str], past: "Past | None") -> None:
        self.topics = self.subscription = sorted(topics)
        self.user_data = b"" if past is None else StickyAssignorUserData(*past)
        self.version = 0


class Joined:
    def __init__(self, member: Member, past: "Past | None") -> None:
        self.member_id = member.member_id
        self.group_instance_id = member.instance_id
        self.metadata = Metadata(member.topics, past)


def random_group(rng: random.Random, *, is_uniform: bool) -> tuple[dict[str, Member], Any]:
    topics = [f"t{n}" for n in range(rng.randint(1, 5))]
    counts = {topic: rng.randint(1, 9) for topic in topics}
    shared = frozenset(topics)
    members = {}
    for number in range(rng.randint(1, 7)):
        wanted = (
            shared if is_uniform else frozenset(rng.sample(topics, rng.randint(1, len(topics))))
        )
        members[f"m{number}"] = Member(f"m{number}", wanted)
    return members, counts


def ours(assignor: Assignor, members: dict[str, Member], counts: Any) -> dict[str, set[Any]]:
    return {m: {tuple(tp) for tp in tps} for m, tps in assignor.assign(members, counts).items()}


def theirs(
    assignor: Any, members: dict[str, Member], counts: Any, past: dict[str, Past] | None = None
) -> dict[str, set[Any]]:
    joined = [Joined(member, (past or {}).get(m)) for m, member in members.items()]
    plan = assignor.assign(Cluster(counts), joined)
    return {
        member_id: {(topic, p) for topic, ps in told.assigned_partitions for p in ps}
        for member_id, told in plan.items()
    }


@pytest.mark.parametrize(
    ("mine", "peer", "is_uniform"),
    [
        (RangeAssignor, RangePartitionAssignor, True),
        (RangeAssignor, RangePartitionAssignor, False),
        # With different topics kafka-python 3.0.12 raises KeyError.
        (RoundRobinAssignor, RoundRobinPartitionAssignor, True),
    ],
)
def test_range_and_round_robin_make_the_same_plans(
    mine: type[Assignor], peer: Any, is_uniform: bool
) -> None:
    rng = random.Random(17)
    for _ in range(GROUP_COUNT):
        members, counts = random_group(rng, is_uniform=is_uniform)
        assert ours(mine(), members, counts) == theirs(peer, members, counts)


def check_guarantees(plan: dict[str, set[Any]], members: dict[str, Member], counts: Any) -> None:
    """Everything that is wanted is given away once, and nobody could get more evenly served."""
    given = [tp for tps in plan.values() for tp in tps]
    wanted = {t for member in members.values() for t in member.topics}
    assert sorted(given) == sorted((t, p) for t in wanted for p in range(counts[t]))
    for rich in members:
        for topic, _ in plan[rich]:
            for poor, member in members.items():
                if topic in member.topics:
                    assert len(plan[rich]) - len(plan[poor]) <= 1


def by_topic(tps: set[Any]) -> list[tuple[str, list[int]]]:
    topics = sorted({topic for topic, _ in tps})
    return [(topic, sorted(p for t, p in tps if t == topic)) for topic in topics]


def stickiness(before: dict[str, set[Any]], after: dict[str, set[Any]]) -> int:
    return sum(len(before[m] & after[m]) for m in before.keys() & after.keys())


@pytest.mark.parametrize("is_uniform", [True, False], ids=["equal topics", "different topics"])
def test_sticky_is_as_even_and_as_sticky_as_its_peer(is_uniform: bool) -> None:
    rng = random.Random(23)
    kept_here = kept_there = 0
    for _ in range(GROUP_COUNT):
        members, counts = random_group(rng, is_uniform=is_uniform)
        before = ours(StickyAssignor(), members, counts)
        check_guarantees(before, members, counts)
        later = {}
        for member_id, member in members.items():
            mine = StickyAssignor()
            mine.assigned([TopicPartition(*tp) for tp in before[member_id]], 1)
            later[member_id] = Member(member_id, member.topics, user_data=mine.user_data())
        if len(later) > 1:
            later.pop(rng.choice(sorted(later)))
        later["newcomer"] = Member("newcomer", rng.choice(list(later.values())).topics)
        counts = counts | {"t0": counts["t0"] + rng.randint(0, 2)}
        after = ours(StickyAssignor(), later, counts)
        check_guarantees(after, later, counts)
        past = {m: (by_topic(tps), 1) for m, tps in before.items()}
        peer = theirs(StickyPartitionAssignor(), later, counts, past)
        kept_here += stickiness(before, after)
        kept_there += stickiness(before, peer)
    # Not group by group: where counts allow several even plans, each keeps what it likes.
    assert kept_here >= 0.99 * kept_there


@pytest.mark.parametrize("is_uniform", [True, False], ids=["equal topics", "different topics"])
def test_cooperative_sticky_settles_and_never_gives_what_another_owns(is_uniform: bool) -> None:
    rng = random.Random(31)
    for _ in range(GROUP_COUNT):
        members, counts = random_group(rng, is_uniform=is_uniform)
        owned: dict[str, set[Any]] = {member_id: set() for member_id in members}
        for generation in range(1, 4):
            told = {
                member_id: Member(
                    member_id,
                    member.topics,
                    frozenset(TopicPartition(*tp) for tp in owned[member_id]),
                    generation=generation,
                )
                for member_id, member in members.items()
            }
            plan = ours(CooperativeStickyAssignor(), told, counts)
            for member_id, tps in plan.items():
                others = set().union(*(owned[m] for m in owned if m != member_id))
                assert not tps & others
            owned = plan
            if generation == 1:
                members = members | {"newcomer": Member("newcomer", members["m0"].topics)}
                owned["newcomer"] = set()
        check_guarantees(owned, members, counts)
