"""Who gets which partitions: assignors over plain types, for groups of the classic protocol.

The leader of a group runs the one assignor that all members know; everybody's own user data
travels with the join.  An assignor decides by what it is given alone: the same input gives the same
plan, in whatever order members joined.  It runs on the client's I/O thread, so it must not block.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import ClassVar

from ottla.model import TopicPartition
from ottla.values import dataclass

Plan = Mapping[str, Iterable[TopicPartition]]
"""Member id -> its partitions."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the group, as its leader sees it."""

    member_id: str
    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    """What it has now; with eager assignors members come with empty hands."""
    rack: str | None = None
    user_data: bytes = b""
    instance_id: str | None = None
    """The name of a static member."""
    generation: int = field(default=-1)
    """When it came to own `owned`; -1: it does not say."""

    @property
    def rank(self) -> tuple[bool, str]:
        """By this members are sorted: static ones first, by their lasting name."""
        name = self.instance_id
        return (True, self.member_id) if name is None else (False, name)


class Assignor:
    """Derive from it, give it a name that all members share, and write `assign`."""

    name: ClassVar[str]
    cooperative: ClassVar[bool] = False
    """Members keep what they have during a rebalance, and give up only what the plan takes away.
    Then a plan must not give a partition to one member while another still owns it."""

    def assign(self, members: Mapping[str, Member], partitions: Mapping[str, int]) -> Plan:
        """The plan for all `members`, by id; `partitions` is how many each topic has."""
        raise NotImplementedError

    def user_data(self) -> bytes:
        """What the leader shall know of this member, beside its topics."""
        return b""

    def assigned(self, partitions: Iterable[TopicPartition], generation: int) -> None:
        """This member was given `partitions`."""


class RangeAssignor(Assignor):
    """Neighbors together: for each topic, a run of partitions to each of its members.

    Members of equal topics get equal numbers of them, so partition 3 of both is with one member.
    """

    name = "range"

    def assign(
        self, members: Mapping[str, Member], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        plan: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        for topic, count in sorted(partitions.items()):
            readers = [member for member in ranked(members) if topic in member.topics]
            if not readers:
                continue
            each, extra = divmod(count, len(readers))
            first = 0
            for index, member in enumerate(readers):
                after = first + each + (index < extra)
                plan[member.member_id] += [TopicPartition(topic, p) for p in range(first, after)]
                first = after
        return plan


class RoundRobinAssignor(Assignor):
    """Like cards: all partitions of all topics, one after the other, to members in turn."""

    name = "roundrobin"

    def assign(
        self, members: Mapping[str, Member], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        plan: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        circle = ranked(members)
        wanted = {topic for member in circle for topic in member.topics}
        turn = 0
        for topic, count in sorted(partitions.items()):
            if topic not in wanted:
                continue
            for index in range(count):
                while topic not in circle[turn % len(circle)].topics:
                    turn += 1
                plan[circle[turn % len(circle)].member_id].append(TopicPartition(topic, index))
                turn += 1
        return plan


def ranked(members: Mapping[str, Member]) -> list[Member]:
    """The members in the order in which they are served."""
    return sorted(members.values(), key=lambda member: member.rank)


def checked(
    plan: Plan, members: Mapping[str, Member], partitions: Mapping[str, int], name: str
) -> dict[str, list[TopicPartition]]:
    """A plan that can be told to the group.

    Raises:
        ValueError: It speaks of members or partitions that do not exist.
    """
    if strangers := sorted(set(plan) - set(members)):
        raise ValueError(f"assignor {name!r} gave partitions to {strangers}, which are no members")
    made = {member_id: [TopicPartition(*tp) for tp in tps] for member_id, tps in plan.items()}
    for tps in made.values():
        for tp in tps:
            if not 0 <= tp.partition < partitions.get(tp.topic, 0):
                raise ValueError(f"assignor {name!r} gave away {tp}, which does not exist")
    return {member_id: made.get(member_id, []) for member_id in members}
