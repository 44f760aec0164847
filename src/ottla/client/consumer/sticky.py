"""Sticky assignment: as even as can be, and beside that as it was.

Three rules, in this order.  No member could take a partition off a member that has two more.
What need not move stays where it was.  Equal input gives an equal plan.

Who owned what is told by the members.  If two claim a partition, the one with the later generation
has it; of equal ones, nobody, because one of them must be wrong (KIP-792).

`sticky` is eager: members come with empty hands and tell in their user data what they had.
`cooperative-sticky` has them keep it, and gives a partition to another only in the rebalance after
the one in which its owner gave it up (KIP-429).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final

from ottla.client.consumer.assignors import Assignor, Member, ranked
from ottla.errors import WireError
from ottla.model import TopicPartition
from ottla.wire.codec import decode, encode
from ottla.wire.schema import Int32, String, message, struct

_GENERATION: Final = Struct(">i")
_NO_GENERATION: Final = -1

Held = dict[str, list[TopicPartition]]
"""Member id -> what it holds in the plan so far."""


@struct
class StickyTopic:
    topic: String
    partitions: tuple[Int32, ...]


@message(versions="0")
class StickyUserData:
    """What Java's StickyAssignor tells in its user data (version 1, without a version number)."""

    previous_assignment: tuple[StickyTopic, ...]
    generation: Int32


class StickyAssignor(Assignor):
    """Even, and as it was before; eager."""

    name = "sticky"

    def __init__(self) -> None:
        self._had: tuple[TopicPartition, ...] = ()
        self._generation = _NO_GENERATION

    def user_data(self) -> bytes:
        if self._generation == _NO_GENERATION:
            return b""
        topics: dict[str, list[int]] = defaultdict(list)
        for tp in self._had:
            topics[tp.topic].append(tp.partition)
        told = tuple(StickyTopic(topic=t, partitions=tuple(p)) for t, p in topics.items())
        return encode(StickyUserData(previous_assignment=told, generation=self._generation), 0)

    def assigned(self, partitions: Iterable[TopicPartition], generation: int) -> None:
        self._had, self._generation = tuple(sorted(partitions)), generation

    def assign(
        self, members: Mapping[str, Member], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        claims = {member_id: _told_in_user_data(m) for member_id, m in members.items()}
        return sticky_plan(members, partitions, claims)


class CooperativeStickyAssignor(Assignor):
    """Even, and as it was before; nobody gives up what he keeps."""

    name = "cooperative-sticky"
    cooperative = True

    def __init__(self) -> None:
        self._generation = _NO_GENERATION

    def user_data(self) -> bytes:
        # For leaders that do not know the generation in the subscription itself.
        return _GENERATION.pack(self._generation)

    def assigned(self, partitions: Iterable[TopicPartition], generation: int) -> None:
        self._generation = generation

    def assign(
        self, members: Mapping[str, Member], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        claims = {member_id: (_generation_of(m), m.owned) for member_id, m in members.items()}
        return without_moves(sticky_plan(members, partitions, claims), members)


Claims = Mapping[str, tuple[int, Iterable[TopicPartition]]]
"""Member id -> a generation, and what the member had in it."""


def sticky_plan(
    members: Mapping[str, Member], partitions: Mapping[str, int], claims: Claims
) -> Held:
    """The plan of both assignors, before anybody asks who still owns what."""
    order = ranked(members)
    wanted = {topic for member in order for topic in member.topics}
    every = [
        TopicPartition(topic, index)
        for topic, count in sorted(partitions.items())
        if topic in wanted
        for index in range(count)
    ]
    owners = _owners(order, claims, set(every))
    if len({frozenset(member.topics & partitions.keys()) for member in order}) == 1:
        return _even_plan(order, every, owners)
    return _general_plan(order, every, owners)


def _even_plan(
    order: list[Member], every: list[TopicPartition], owners: Mapping[TopicPartition, str]
) -> Held:
    """All want the same topics: each has `low`, and some have one more."""
    low, high_count = divmod(len(every), len(order))
    had: dict[str, list[TopicPartition]] = {member.member_id: [] for member in order}
    for tp in every:
        if tp in owners:
            had[owners[tp]].append(tp)
    held: Held = {}
    for member_id, tps in had.items():
        keeps = low
        if len(tps) > low and high_count > 0:
            keeps, high_count = low + 1, high_count - 1
        held[member_id] = tps[:keeps]
    kept = {tp for tps in held.values() for tp in tps}
    free = iter([tp for tp in every if tp not in kept])
    for tps in held.values():
        while len(tps) < low:
            tps.append(next(free))
    poor = [tps for tps in held.values() if len(tps) == low]
    for tps, tp in zip(poor, free, strict=False):
        tps.append(tp)
    return held


def _general_plan(
    order: list[Member], every: list[TopicPartition], owners: Mapping[TopicPartition, str]
) -> Held:
    """Members want different topics: fill up the poorest, then move what makes it more even."""
    readers: dict[str, list[str]] = {}
    for topic in dict.fromkeys(tp.topic for tp in every):
        readers[topic] = [member.member_id for member in order if topic in member.topics]
    held: Held = {member.member_id: [] for member in order}
    for tp in every:
        if tp in owners:
            held[owners[tp]].append(tp)
    free = [tp for tp in every if tp not in owners]
    # Those with the fewest takers first: they have the least choice.
    for tp in sorted(free, key=lambda tp: (len(readers[tp.topic]), tp)):
        held[min(readers[tp.topic], key=lambda member_id: len(held[member_id]))].append(tp)
    while _move_one(held, readers, owners):
        pass
    return held


def _move_one(
    held: Held, readers: Mapping[str, list[str]], owners: Mapping[TopicPartition, str]
) -> bool:
    """Take one partition off a rich member; ends, because the squares of the counts shrink."""
    for member_id, tps in sorted(held.items(), key=lambda item: -len(item[1])):
        # What was not his before moves first.
        for tp in sorted(tps, key=lambda tp: owners.get(tp) == member_id):
            poorest = min(readers[tp.topic], key=lambda reader: len(held[reader]))
            if len(held[poorest]) + 1 < len(tps):
                tps.remove(tp)
                held[poorest].append(tp)
                return True
    return False


def without_moves(plan: Held, members: Mapping[str, Member]) -> Held:
    """The plan, without what another member still owns."""
    owner = {tp: member_id for member_id, m in members.items() for tp in m.owned}
    return {
        member_id: [tp for tp in tps if owner.get(tp, member_id) == member_id]
        for member_id, tps in plan.items()
    }


def _owners(
    order: list[Member], claims: Claims, every: set[TopicPartition]
) -> dict[TopicPartition, str]:
    """Who had what, where that is beyond doubt and still possible."""
    latest: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in order:
        generation, tps = claims[member.member_id]
        for tp in sorted(tps):
            if tp not in every or tp.topic not in member.topics:
                continue
            known, _ = latest.get(tp, (generation - 1, None))
            if generation > known:
                latest[tp] = generation, member.member_id
            elif generation == known:
                latest[tp] = generation, None
    return {tp: owner for tp, (_, owner) in latest.items() if owner is not None}


def _generation_of(member: Member) -> int:
    if member.generation != _NO_GENERATION or len(member.user_data) < _GENERATION.size:
        return member.generation
    return int(_GENERATION.unpack_from(member.user_data)[0])


def _told_in_user_data(member: Member) -> tuple[int, Iterable[TopicPartition]]:
    if not member.user_data:
        return _NO_GENERATION, ()
    try:
        told = decode(StickyUserData, member.user_data, 0)
    except WireError:
        return _NO_GENERATION, ()  # of another version of it: as if it had nothing
    return told.generation, [
        TopicPartition(topic.topic, index)
        for topic in told.previous_assignment
        for index in topic.partitions
    ]
