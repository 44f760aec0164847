"""One classic group: its members, its generation, and the table of its states.

What lies in the log is `stored`, and changes in `adopt` alone.  Between two records a group moves
on without the log: it collects joins (PreparingRebalance) and waits for the leader's assignment
(CompletingRebalance).  A restart in between takes it back to `stored`; members that were told of
the unfinished generation are refused, and join again.

There is no waiting and no effect in here: `rebalance`, `joining` and `membership` ask and change a
group, and say what follows for the world.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final, Protocol

from ottla.coordinator.config import GroupConfig
from ottla.coordinator.group.member import Member
from ottla.errors import ErrorCode, WireError
from ottla.values import dataclass
from ottla.wire.messages.join_group import JoinGroupRequestProtocol
from ottla.wire.stored.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.stored.group_records import GroupMetadataValue
from ottla.wire.stored.versioned import decode_lenient

CONSUMER: Final = "consumer"
"""The protocol type of consumers, whose subscriptions we can read."""

REBALANCES_KEPT: Final = 20

REASON_CHARS: Final = 255
"""What is kept of a reason; Kafka's own clients send no more."""


class State(Enum):
    """Where a group stands; the values are the names the protocol reports."""

    EMPTY = "Empty"  # no members; committed offsets live on
    PREPARING = "PreparingRebalance"  # collecting joins
    COMPLETING = "CompletingRebalance"  # waiting for the leader's assignment
    STABLE = "Stable"  # every member has its assignment
    DEAD = "Dead"  # removed; no way back


# Every legal move, and when it is made.
MOVES: Mapping[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING, State.DEAD}),  # a join; deletion or expiry
    State.PREPARING: frozenset({State.COMPLETING, State.EMPTY}),  # all joined; all left
    State.COMPLETING: frozenset({State.STABLE, State.PREPARING}),  # the leader's sync; a change
    State.STABLE: frozenset({State.PREPARING, State.STABLE}),  # a change; a static member's return
    State.DEAD: frozenset(),
}


class Party(Protocol):
    """A member of either kind of group, as far as a story names it."""

    @property
    def member_id(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Cause:
    """Who set off a rebalance (empty: the coordinator), and why."""

    member_id: str
    reason: str
    client_id: str = ""
    client_host: str = ""

    @classmethod
    def of(cls, members: Sequence[Party], reason: str) -> "Cause":
        """It was these members; the first of them is named."""
        first, *others = members
        text = f"{reason} (and so did {len(others)} more)" if others else reason
        return cls(first.member_id, text, first.client_id, first.client_host)


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One rebalance: when it began, what set it off, and what it led to."""

    began_ms: int
    cause: Cause
    ended_ms: int | None = None  # None: it goes on
    generation: int | None = None  # or epoch; None: it led to none, the next rebalance came first


def told_reason(reason: str | None) -> str:
    """A client's own reason (KIP-800), in as many characters as we keep."""
    return (reason or "")[:REASON_CHARS]


class ClassicGroup:
    """One group: its members, its generation, and what each member was given."""

    def __init__(self, group_id: str, config: GroupConfig) -> None:
        self.group_id = group_id
        self.config = config
        self.stored: GroupMetadataValue | None = None
        self.state = State.EMPTY
        self.since_ms: int | None = None  # None: older than this coordinator remembers
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}  # instance id -> member id
        self._common: frozenset[str] | None = None  # what all members speak; None: to be found out
        self.pending: dict[str, int] = {}  # ids given out, to be joined with before this time
        self.topics: frozenset[str] | None = None  # None: not known
        self.is_initial = False  # this rebalance began in an empty group
        self.initial_until_ms = 0  # so long it may be put off for those who come late
        self.has_newcomer = False  # somebody came since the last time it was put off
        self.until_ms = 0  # when the wait of this state ends at the latest
        self.rebalances: deque[Rebalance] = deque(maxlen=REBALANCES_KEPT)
        self.rebalance_count = self.rebalance_ms = 0  # how many began, and how long those took

    @property
    def is_bare(self) -> bool:
        """Nobody is or will be there, and nothing was ever written; offsets do not count."""
        return self.state is State.EMPTY and self.stored is None and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """So long everybody is waited for: as long as the slowest member wants."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    @property
    def waiting_count(self) -> int:
        return sum(member.join is not None for member in self.members.values())

    @property
    def has_all_joined(self) -> bool:
        # Asked at every join: it must not look at all members when an early one is missing.
        return not self.pending and all(m.join is not None for m in self.members.values())

    def move(self, to: State, now_ms: int) -> None:
        assert to in MOVES[self.state], f"{self.group_id}: {self.state} -> {to}"
        self.state = to
        self.since_ms = now_ms

    def move_deadlines(self, by_ms: int) -> None:
        """The clock was set by so much, and whatever is waited for comes when it would have."""
        self.until_ms += by_ms
        self.initial_until_ms += by_ms
        self.pending = {member_id: at_ms + by_ms for member_id, at_ms in self.pending.items()}
        for member in self.members.values():
            member.deadline_ms += by_ms
            if member.alarm_ms is not None:
                member.alarm_ms += by_ms

    def adopt(self, value: GroupMetadataValue) -> None:
        """Take in a record of the log: this is what the group has agreed on.

        At rest, whatever the log says is so.  In a rebalance of our own it must be what we have
        just decided.
        """
        to = State.STABLE if value.members else State.EMPTY
        assert self.state in (State.EMPTY, State.STABLE) or to in MOVES[self.state], self.state
        if self.state in (State.PREPARING, State.COMPLETING):
            self._end_rebalance(value.current_state_timestamp, value.generation)
        self.stored = value
        self.state = to
        since_ms = value.current_state_timestamp
        self.since_ms = None if since_ms == -1 else since_ms
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.leader_id = value.leader
        known, self.members, self.static_ids = self.members, {}, {}
        self._common = None
        for stored in value.members:
            member = known.get(stored.member_id) or Member.from_stored(stored, value.protocol)
            member.assignment = stored.assignment
            self.add(member)
        self.topics = self.subscribed_topics()

    def next_record(self, assignments: Mapping[str, bytes], now_ms: int) -> GroupMetadataValue:
        """What `adopt` is to be given when the members have these assignments."""
        name = self.protocol_name
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=name,
            leader=self.leader_id,
            current_state_timestamp=now_ms,
            members=tuple(
                member.to_stored(name or "", assignments.get(member.member_id, b""))
                for member in self.members.values()
            ),
        )

    def begin_rebalance(self, cause: Cause, now_ms: int) -> None:
        """Assignments are void: everybody has to join again."""
        self._end_rebalance(now_ms, None)
        self.rebalances.append(Rebalance(now_ms, cause))
        self.rebalance_count += 1
        self.move(State.PREPARING, now_ms)

    def take_over(self, past: Iterable[Rebalance], count: int, took_ms: int) -> None:
        """Remember what the consumer group went through whose place this one takes."""
        self.rebalances.extend(past)
        self.rebalance_count += count
        self.rebalance_ms += took_ms

    def _end_rebalance(self, now_ms: int, generation: int | None) -> None:
        if self.rebalances and self.rebalances[-1].ended_ms is None:
            last = self.rebalances[-1]
            self.rebalances[-1] = replace(last, ended_ms=now_ms, generation=generation)
            self.rebalance_ms += max(0, now_ms - last.began_ms)

    def add(self, member: Member) -> None:
        if self.leader_id is None:
            self.leader_id = member.member_id
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        if self._common is not None:
            self._common &= member.protocol_names
        self.members[member.member_id] = member
        self.pending.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member:
        """Take a member out; if it led the group, the one who came first after it leads."""
        member = self.members.pop(member_id)
        self._common = None
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def elect_joined_leader(self) -> bool:
        """See that the leader is one who has joined; false if nobody has."""
        if self.leader_id is not None and self.members[self.leader_id].join is not None:
            return True
        joined = next((m.member_id for m in self.members.values() if m.join is not None), None)
        if joined is not None:
            self.leader_id = joined
        return joined is not None

    def begin_generation(self, now_ms: int) -> None:
        """Everybody has joined: choose the protocol, and wait for the leader's assignment."""
        self.generation += 1
        self.protocol_name = self.chosen_protocol()
        self.topics = self.subscribed_topics()
        self.move(State.COMPLETING, now_ms)

    def supports(self, protocol_type: str, protocols: tuple[JoinGroupRequestProtocol, ...]) -> bool:
        """Whether one who speaks `protocols` could be a member together with all the others."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and not self._common_protocols().isdisjoint(
            protocol.name for protocol in protocols
        )

    def chosen_protocol(self) -> str:
        """Everybody votes for its favorite of those that all speak; the first of equals wins."""
        candidates = self._common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether a request may speak for that member."""
        if instance_id is not None:
            owner_id = self.static_ids.get(instance_id)
            if owner_id is not None and owner_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if owner_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic; consumers whose subscription is unreadable may."""
        if self.topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.topics

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics of all members; `None` if they are not consumers, or cannot be understood."""
        if self.protocol_type != CONSUMER:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            try:
                metadata = member.metadata(self.protocol_name or "")
                topics.update(decode_lenient(ConsumerProtocolSubscription, metadata).topics)
            except WireError:
                return None  # what members tell each other is their own business
        return frozenset(topics)

    def change_protocols(self, member: Member, to: tuple[JoinGroupRequestProtocol, ...]) -> None:
        """A member joins again, and may speak others than before."""
        before = member.protocol_names
        member.protocols = to
        if member.protocol_names != before:
            self._common = None

    def replace_member(self, old_id: str, member: Member) -> None:
        """Give a member the place of another one, and not the last: the order can be seen."""
        self.members = {
            (member.member_id if i == old_id else i): (member if i == old_id else m)
            for i, m in self.members.items()
        }
        self._common = None

    def _common_protocols(self) -> frozenset[str]:
        """Asked at every join, so it is kept: a thousand members who join ask a thousand times."""
        if self._common is None:
            first, *others = (member.protocol_names for member in self.members.values())
            self._common = first.intersection(*others)
        return self._common
