"""One member of a consumer group: what it subscribes to, what it owns, and in which epoch it is.

A member is a value: two records of the log together make one, and a decision makes the next.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from enum import IntEnum
from typing import Final

from ottla.coordinator.group.consumer.topics import Place
from ottla.values import dataclass
from ottla.wire.messages.join_group import JoinGroupRequestProtocol
from ottla.wire.stored.consumer_group_records import ClassicMemberMetadata

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
AWAY_EPOCH: Final = -2
"""A static member left and will be back: its partitions are kept for it."""


class MemberState(IntEnum):
    """How far a member has come on the way to its target; the values are those of the log."""

    STABLE = 0  # it has all of its target that there is to have in its epoch
    UNREVOKED_PARTITIONS = 1  # it has to give up partitions before it may enter the next epoch
    UNRELEASED_PARTITIONS = 2  # it is in the epoch, and waits for partitions that others still own
    UNKNOWN = 127  # written by a newer coordinator: the member has to begin anew

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One consumer, as the log tells of it."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    names: frozenset[str] = frozenset()  # topics that it subscribes to
    pattern: str = ""  # or to those that match; empty for none
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None  # it speaks the old protocol

    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1  # still accepted: the last answer may be lost
    state: MemberState = MemberState.STABLE
    assigned: Mapping[Place, int] = field(default_factory=dict)  # and since which epoch
    revoking: Mapping[Place, int] = field(default_factory=dict)  # it was told to give these up

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    @property
    def classic_protocols(self) -> tuple[JoinGroupRequestProtocol, ...]:
        """What a classic member said of itself, the preferred protocol first."""
        stored = () if self.classic is None else self.classic.supported_protocols
        return tuple(JoinGroupRequestProtocol(name=p.name, metadata=p.metadata) for p in stored)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def moved(
        self,
        state: MemberState,
        epoch: int,
        assigned: Mapping[Place, int],
        revoking: Mapping[Place, int] | None = None,
    ) -> "ConsumerMember":
        """One step further; the epoch it leaves becomes the previous one."""
        return replace(
            self,
            state=state,
            epoch=epoch,
            previous_epoch=self.epoch,
            assigned=assigned,
            revoking=revoking or {},
        )

    def away(self) -> "ConsumerMember":
        """Gone for a while: it keeps what it has, from the very first epoch on."""
        return replace(
            self, epoch=AWAY_EPOCH, assigned=dict.fromkeys(self.assigned, 0), revoking={}
        )

    def back_as(self, member_id: str) -> "ConsumerMember":
        """A static member under its next id."""
        return replace(self, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=0)
