"""Who shall own what: partitions are shared out among members, fairly and with few moves.

`uniform` gives everybody as many partitions as anybody else, and moves as few as that takes.
`range` gives everybody neighboring partitions, the same ones of each topic where topics are alike,
so that streams can be joined.  Both are plain functions: the same question has the same answer,
also after a restart.

A partition goes to a member that subscribes to its topic, or to nobody if there is none.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heapreplace
from typing import Final, TypeAlias

from ottla.coordinator.group.consumer.topics import Place
from ottla.values import NamedTuple


class Candidate(NamedTuple):
    """One member, as an assignor sees it.  A tuple: one is made of each member at every join."""

    topic_ids: frozenset[bytes]
    places: frozenset[Place] = frozenset()  # its last target
    instance_id: str | None = None


Assignment: TypeAlias = dict[str, frozenset[Place]]
Assignor: TypeAlias = Callable[[Mapping[str, Candidate], Mapping[bytes, int]], Assignment]
"""Takes members by id and partition counts by topic id; gives each member its share."""


def uniform(members: Mapping[str, Candidate], counts: Mapping[bytes, int]) -> Assignment:
    """As even as subscriptions allow, and then as much like before as that allows."""
    return _shared_alike(members, counts) or shared_at_large(members, counts)


def shared_at_large(members: Mapping[str, Candidate], counts: Mapping[bytes, int]) -> Assignment:
    """What `uniform` says, whatever subscriptions are like: it looks at every partition."""
    shares = _Shares(members, counts)
    quotas = _quotas(members, counts)
    shares.keep(quotas)
    shares.share_out_the_rest()
    if not quotas:
        shares.level()
    return shares.assignment()


def range_(members: Mapping[str, Candidate], counts: Mapping[bytes, int]) -> Assignment:
    """Neighboring partitions of each topic; static members come first, in order of their names."""

    def rank(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return (instance_id is None, member_id if instance_id is None else instance_id)

    shares: dict[str, set[Place]] = {member_id: set() for member_id in members}
    ranked = sorted(members, key=rank)
    for topic_id, count in counts.items():
        readers = [m for m in ranked if topic_id in members[m].topic_ids]
        start = 0
        for index, member_id in enumerate(readers):
            size = count // len(readers) + (index < count % len(readers))
            shares[member_id] |= {(topic_id, p) for p in range(start, start + size)}
            start += size
    return {member_id: frozenset(places) for member_id, places in shares.items()}


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform, "range": range_}


def _shared_alike(
    members: Mapping[str, Candidate], counts: Mapping[bytes, int]
) -> Assignment | None:
    """The same at less cost, where all subscribe alike and nobody had what it may not have.

    That is so nearly always, and whoever joins a group of a thousand makes it share out anew: here
    only partitions are looked at that move.  None: it is not so.
    """
    subscriptions = {member.topic_ids for member in members.values()}
    if len(subscriptions) != 1:
        return None
    topic_ids = subscriptions.pop()
    everything = {(t, p) for t in counts.keys() & topic_ids for p in range(counts[t])}
    loads = {member_id: len(members[member_id].places) for member_id in sorted(members)}
    kept: set[Place] = set().union(*(member.places for member in members.values()))
    if len(kept) != sum(loads.values()) or not kept <= everything:
        return None
    shared = {member_id: members[member_id].places for member_id in loads}
    least, extra = divmod(len(everything), len(members))
    # The larger shares go to those who have more already; of equals, to the first by name.
    for rank, member_id in enumerate(sorted(loads, key=loads.__getitem__, reverse=True)):
        quota = least + (rank < extra)
        if loads[member_id] > quota:
            places = sorted(shared[member_id])
            kept.difference_update(places[quota:])
            shared[member_id] = frozenset(places[:quota])
            loads[member_id] = quota
    rest = sorted(everything - kept, key=lambda place: (-counts[place[0]], place))
    for member_id, places in _shared_out(rest, loads).items():
        shared[member_id] = shared[member_id].union(places)
    return shared


def _shared_out(rest: Iterable[Place], loads: Mapping[str, int]) -> dict[str, list[Place]]:
    """Who gets what of the rest: each partition goes to the one who has least."""
    poorest = [(load, member_id) for member_id, load in loads.items()]
    heapify(poorest)
    given: dict[str, list[Place]] = {}
    for place in rest:
        load, member_id = poorest[0]
        given.setdefault(member_id, []).append(place)
        heapreplace(poorest, (load + 1, member_id))
    return given


class _Shares:
    """Shares in the making."""

    def __init__(self, members: Mapping[str, Candidate], counts: Mapping[bytes, int]) -> None:
        self._members = members
        self._counts = counts
        self._held: dict[str, dict[bytes, set[int]]] = {m: {} for m in sorted(members)}
        self._loads = dict.fromkeys(self._held, 0)
        self._readers: dict[bytes, list[str]] = {topic_id: [] for topic_id in counts}
        for member_id in self._held:
            for topic_id in members[member_id].topic_ids & counts.keys():
                self._readers[topic_id].append(member_id)
        self._taken: set[Place] = set()

    def assignment(self) -> Assignment:
        return {
            member_id: frozenset((topic_id, p) for topic_id, held in topics.items() for p in held)
            for member_id, topics in self._held.items()
        }

    def keep(self, quotas: Mapping[str, int]) -> None:
        """Everybody keeps what it had and may still have; no more than its quota, if there is one.

        Where subscriptions differ there is no quota beforehand: `level` finds a fair share.
        """
        for member_id in self._held:
            quota = quotas.get(member_id)
            for place in sorted(self._members[member_id].places):
                if quota is not None and self._loads[member_id] >= quota:
                    break
                if place not in self._taken and _may_have(
                    self._members[member_id], place, self._counts
                ):
                    self._give(member_id, place)

    def share_out_the_rest(self) -> None:
        """Topics with few readers first; each partition goes to the reader that has least."""
        for topic_id in sorted(self._counts, key=self._rank):
            poorest = [(self._loads[m], m) for m in self._readers[topic_id]]
            heapify(poorest)
            for partition in range(self._counts[topic_id]) if poorest else ():
                if (topic_id, partition) not in self._taken:
                    _, member_id = poorest[0]
                    self._give(member_id, (topic_id, partition))
                    heapreplace(poorest, (self._loads[member_id], member_id))

    def level(self) -> None:
        """Move partitions from who has most to who has least, until nothing is gained by it.

        Each move makes the sum of the squares of the shares smaller, so there is an end.
        """
        topics = [t for t in sorted(self._counts, key=self._rank) if len(self._readers[t]) > 1]
        has_moved = True
        while has_moved:
            has_moved = False
            for topic_id in topics:
                while self._move_one(topic_id):
                    has_moved = True

    def _move_one(self, topic_id: bytes) -> bool:
        readers = self._readers[topic_id]
        poorest = min(readers, key=self._load)
        donors = (
            m
            for m in readers
            if self._loads[m] > self._loads[poorest] + 1 and self._held[m].get(topic_id)
        )
        richest = max(donors, key=self._load, default=None)
        if richest is None:
            return False
        partition = max(self._held[richest][topic_id])
        self._held[richest][topic_id].remove(partition)
        self._loads[richest] -= 1
        self._give(poorest, (topic_id, partition))
        return True

    def _give(self, member_id: str, place: Place) -> None:
        topic_id, partition = place
        self._held[member_id].setdefault(topic_id, set()).add(partition)
        self._loads[member_id] += 1
        self._taken.add(place)

    def _load(self, member_id: str) -> tuple[int, str]:
        return (self._loads[member_id], member_id)

    def _rank(self, topic_id: bytes) -> tuple[float, int, bytes]:
        readers = len(self._readers[topic_id])
        return (-self._counts[topic_id] / max(readers, 1), readers, topic_id)


def _quotas(members: Mapping[str, Candidate], counts: Mapping[bytes, int]) -> dict[str, int]:
    """If all subscriptions are alike, how many partitions each member may have; else nothing."""
    subscriptions = {member.topic_ids for member in members.values()}
    if len(subscriptions) != 1:
        return {}
    topic_ids = subscriptions.pop()
    total = sum(count for topic_id, count in counts.items() if topic_id in topic_ids)
    least, extra = divmod(total, len(members))
    had = {m: sum(_may_have(c, place, counts) for place in c.places) for m, c in members.items()}
    # The larger shares go to those who have more already: that saves moves.
    by_size = sorted(members, key=lambda m: (-had[m], m))
    return {m: least + (rank < extra) for rank, m in enumerate(by_size)}


def _may_have(member: Candidate, place: Place, counts: Mapping[bytes, int]) -> bool:
    topic_id, partition = place
    return topic_id in member.topic_ids and partition < counts.get(topic_id, 0)
