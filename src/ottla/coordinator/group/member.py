"""One member of a classic group, and the requests of its that wait for an answer.

What is stored of a member comes back with `from_stored` and goes out with `to_stored`; the rest
(its tickets, its deadline, the protocols that were not chosen) is forgotten by a restart.
"""

from ottla.coordinator.effects import Ticket
from ottla.values import dataclass
from ottla.wire.messages.join_group import JoinGroupRequestProtocol
from ottla.wire.stored.group_records import MemberMetadata


@dataclass(frozen=True, slots=True)
class ParkedJoin:
    """A JoinGroup that waits for the next generation, and the version to answer it in."""

    ticket: Ticket
    version: int


@dataclass(slots=True, kw_only=True)
class Member:
    """One consumer (or connector) in a group."""

    member_id: str
    instance_id: str | None = None  # static members have one, and keep it over restarts
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[JoinGroupRequestProtocol, ...]  # the preferred one first
    assignment: bytes = b""

    is_new: bool = False  # it has never been answered, so it cannot have sent a heartbeat
    join: ParkedJoin | None = None
    sync: Ticket | None = None
    owes_sync: bool = False  # it was told of the generation, and has not asked for its assignment
    deadline_ms: int = 0  # it is removed unless it is heard of before
    alarm_ms: int | None = None  # when its alarm rings, at the latest by the deadline

    @classmethod
    def from_stored(cls, stored: MemberMetadata, protocol_name: str | None) -> "Member":
        """A member as the log tells of it: of its protocols, the one that was chosen is known."""
        protocol = JoinGroupRequestProtocol(name=protocol_name or "", metadata=stored.subscription)
        has_own_timeout = stored.rebalance_timeout != -1
        return cls(
            member_id=stored.member_id,
            instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=(
                stored.rebalance_timeout if has_own_timeout else stored.session_timeout
            ),
            session_timeout_ms=stored.session_timeout,
            protocols=(protocol,),
        )

    def to_stored(self, protocol_name: str, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol_name),
            assignment=assignment,
        )

    @property
    def protocol_names(self) -> frozenset[str]:
        return frozenset(protocol.name for protocol in self.protocols)

    @property
    def need_not_report(self) -> bool:
        """It waits for us, so its silence means nothing; a new one may have given up."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol_name: str) -> bytes:
        """What it says of itself under that protocol; nothing if it does not speak it."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str:
        """The candidate that it likes best."""
        return next(p.name for p in self.protocols if p.name in candidates)
