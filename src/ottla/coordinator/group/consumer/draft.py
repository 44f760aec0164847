"""The next state of a group, and the records that lead there.

A decision begins with a draft of the group, changes it step by step, and ends with `records`, which
are persisted together: a crash leaves either the old state or the new one.  The group itself is not
touched; it changes when the records are applied.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.coordinator.effects import StoredRecord
from ottla.coordinator.group.classic import Cause
from ottla.coordinator.group.consumer.assignors import ASSIGNORS, Candidate
from ottla.coordinator.group.consumer.causes import topics_changed
from ottla.coordinator.group.consumer.group import NO_TARGET, ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.reconciling import Goal, reconcile
from ottla.coordinator.group.consumer.records import (
    Kind,
    Resolved,
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    pattern_record,
    target_epoch_record,
    target_record,
    tombstone,
)
from ottla.coordinator.group.consumer.tally import Tally
from ottla.coordinator.group.consumer.topics import Place, Topics
from ottla.coordinator.pattern_syntax import PatternError
from ottla.coordinator.patterns import compiled
from ottla.values import dataclass

AT_ONCE_COUNT: Final = 100
"""Groups of more members are not shared out anew whenever one comes or goes."""


def put_off_ms(interval_ms: int, member_count: int) -> int:
    """How long a target stays as it is: as long as was set or, in a large group, as is bearable.

    To share out partitions is a look at every member, so that a crowd of n that comes at once would
    cost n².  A wait of a millisecond for each of them, of which the look takes less than a
    hundredth, makes it n.
    """
    if interval_ms or member_count <= AT_ONCE_COUNT:
        return interval_ms
    return member_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for all groups, at one moment."""

    topics: Topics
    assignors: tuple[str, ...]  # the first is used if members do not choose
    assignment_interval_ms: int
    now_ms: int


class Draft:
    """A group as it will be."""

    def __init__(self, group: ConsumerGroup, rules: Rules, seen: Topics | None = None) -> None:
        """`seen` are the topics that the group saw last, if that is known."""
        self._group = group
        self._seen = seen
        self._rules = rules
        self.group_id = group.group_id
        self.records: list[StoredRecord] = []
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self._members: dict[str, ConsumerMember] | None = None
        self._tally: Tally | None = None
        self._target: dict[str, frozenset[Place]] | None = None
        self._patterns: dict[str, Resolved] | None = None
        self._topics: frozenset[str] | None = None  # worked out when somebody asks
        self.gone: list[str] = []  # members that are members no longer
        self.has_looked = False  # at the topics
        self.cause: Cause | None = None  # why its epoch begins, if one does

    @property
    def now_ms(self) -> int:
        return self._rules.now_ms

    @property
    def members(self) -> Mapping[str, ConsumerMember]:
        return self._group.members if self._members is None else self._members

    @property
    def target(self) -> Mapping[str, frozenset[Place]]:
        return self._group.target if self._target is None else self._target

    @property
    def patterns(self) -> Mapping[str, Resolved]:
        return self._group.patterns if self._patterns is None else self._patterns

    @property
    def tally(self) -> Tally:
        return self._group.tally if self._tally is None else self._tally

    @property
    def topics(self) -> frozenset[str]:
        """All that members read."""
        if self._topics is None:
            self._topics = self.tally.topics(self.patterns)
        return self._topics

    def put(self, member: ConsumerMember) -> None:
        """A member is new, or says something new of itself."""
        self._writable_tally().replace(self.members.get(member.member_id), member)
        self._writable_members()[member.member_id] = member
        self.records.append(member_record(self.group_id, member))

    def remove(self, member_ids: Iterable[str]) -> None:
        """Members are gone, and what they owned is free."""
        for member_id in member_ids:
            self.records += member_tombstones(self.group_id, member_id)
            self._writable_tally().replace(self.members[member_id], None)
            del self._writable_members()[member_id]
            self._writable_target().pop(member_id, None)
            self.gone.append(member_id)

    def replace_static(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member is back under a new id, and has what the old one had."""
        target = self.target.get(old.member_id, NO_TARGET)
        self.remove([old.member_id])
        new = old.back_as(member_id)
        self.put(new)
        self._writable_target()[member_id] = target
        self.records.append(target_record(self.group_id, member_id, target))
        self.records.append(current_record(self.group_id, new))
        return new

    def advance(self, cause: Cause | None) -> None:
        """See what members read now, and begin an epoch if that has changed or there is cause."""
        self.has_looked = True
        has_changed = self._resolve()
        topics_hash = self._rules.topics.hash_of(self.topics)
        if cause is not None or has_changed or topics_hash != self._group.topics_hash:
            self.cause = cause or topics_changed(
                self._seen, self._rules.topics, self.topics | self._group.topics
            )
            self.epoch = self._group.epoch + 1
            self.records.append(epoch_record(self.group_id, self.epoch, topics_hash))
        if self._group.has_old_topics:
            self.records.append(tombstone(Kind.OLD_TOPICS, self.group_id))

    def settle_empty(self) -> None:
        """Nobody is left, so nothing has to be shared out; who comes next need not wait."""
        self.target_epoch = self.epoch
        self.records.append(target_epoch_record(self.group_id, self.epoch, 0))

    def assign(self) -> None:
        """Share out the partitions for this epoch, if that was not done, nor done too recently."""
        if self.target_epoch >= self.epoch or self.assigns_in_ms:
            return
        candidates = self._candidates()
        counts = self._rules.topics.partition_counts(self.topics)
        target = ASSIGNORS[self.assignor()](candidates, counts)
        for member_id, places in target.items():
            before = self.target.get(member_id)
            if before is not places and before != places:
                self.records.append(target_record(self.group_id, member_id, places))
        self._target = target
        self.target_epoch = self.epoch
        self.records.append(target_epoch_record(self.group_id, self.epoch, self._rules.now_ms))

    def next_beat_ms(self, interval_ms: int) -> int:
        """When a member shall report again: no later than what it waits for can be decided."""
        if self.target_epoch >= self.epoch:
            return interval_ms
        return min(interval_ms, max(1, self.assigns_in_ms))

    def assignor(self) -> str:
        """The one that most members ask for; of those with equal votes, the one we prefer."""
        votes = self.tally.votes
        known = self._rules.assignors
        return max(known, key=lambda name: (votes[name], -known.index(name)))

    def reconcile(
        self,
        member: ConsumerMember,
        owned: frozenset[Place] | None,
        *,
        has_new_subscription: bool,
    ) -> ConsumerMember | None:
        """Take a member one step towards its target; None if it must begin anew."""
        if not has_new_subscription and member.is_reconciled_to(self.target_epoch):
            return member
        goal = Goal(
            epoch=self.target_epoch,
            places=self.target.get(member.member_id, NO_TARGET),
            topic_ids=self.topic_ids_of(member),
            is_free=lambda place: self._owner(place) in (None, member.member_id),
        )
        moved = reconcile(member, goal, owned, has_new_subscription=has_new_subscription)
        if moved is not None and moved != member:
            self._writable_members()[member.member_id] = moved
            self.records.append(current_record(self.group_id, moved))
        return moved

    def topic_ids_of(self, member: ConsumerMember) -> frozenset[bytes]:
        """What a member subscribes to, of what exists."""
        names = member.names
        if member.pattern in self.patterns:
            names |= self.patterns[member.pattern].topics
        return self._rules.topics.ids_of(names)

    def _resolve(self) -> bool:
        """Match expressions anew; true if one of them matches other topics than before."""
        wanted = self.tally.patterns
        has_changed = False
        for pattern in sorted(self.patterns.keys() - wanted):
            del self._writable_patterns()[pattern]
            self.records.append(tombstone(Kind.PATTERN, self.group_id, pattern))
        for pattern in sorted(wanted):
            known = self.patterns.get(pattern)
            topics = self._matching(pattern, known)
            if known is None or known.topics != topics:
                has_changed = True
                resolved = Resolved(topics=topics, resolved_ms=self._rules.now_ms)
                self._writable_patterns()[pattern] = resolved
                self.records.append(pattern_record(self.group_id, pattern, resolved))
        return has_changed

    def _matching(self, pattern: str, known: Resolved | None) -> frozenset[str]:
        try:
            return self._rules.topics.matching(compiled(pattern))
        except PatternError:  # from a log of somebody who takes more than we do
            return frozenset() if known is None else known.topics

    def _candidates(self) -> dict[str, Candidate]:
        """The members as assignors see them; most have the same subscription as the next."""
        known: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}
        names: frozenset[str] | None = None
        pattern, topic_ids = "", frozenset[bytes]()
        target, found = self.target, {}
        for member_id, member in self.members.items():
            if member.names != names or member.pattern != pattern:
                names, pattern = member.names, member.pattern
                if (names, pattern) not in known:
                    known[names, pattern] = self.topic_ids_of(member)
                topic_ids = known[names, pattern]
            places = target.get(member_id, NO_TARGET)
            found[member_id] = Candidate(topic_ids, places, member.instance_id)
        return found

    @property
    def assigns_in_ms(self) -> int:
        """How long it is too early to share out the partitions anew; 0: it is not."""
        wait_ms = put_off_ms(self._rules.assignment_interval_ms, len(self.members))
        since_ms = self._rules.now_ms - self._group.assigned_ms
        # Less than nothing if the clock was set back.
        is_early = self._group.assigned_ms > 0 and 0 <= since_ms < wait_ms
        return wait_ms - since_ms if is_early else 0

    def _owner(self, place: Place) -> str | None:
        owner = self._group.owners.get(place)
        return None if owner in self.gone else owner

    def _writable_members(self) -> dict[str, ConsumerMember]:
        self._topics = None
        if self._members is None:
            self._members = dict(self._group.members)
        return self._members

    def _writable_tally(self) -> Tally:
        if self._tally is None:
            self._tally = self._group.tally.copy()
        return self._tally

    def _writable_target(self) -> dict[str, frozenset[Place]]:
        if self._target is None:
            self._target = dict(self._group.target)
        return self._target

    def _writable_patterns(self) -> dict[str, Resolved]:
        self._topics = None
        if self._patterns is None:
            self._patterns = dict(self._group.patterns)
        return self._patterns
