"""Who coordinates which group or transactional id: found once, kept until somebody denies it.

Pure.  A coordinator moves when the partition behind it does; then its broker answers
NOT_COORDINATOR, or none does, and the next one is asked for.
"""

import enum
from typing import Final, NamedTuple

from ottla.client.cluster_view import Node
from ottla.errors import ErrorCode, OttlaError, exception_for
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

MIN_VERSION: Final = 4
"""The first that may ask about several at once; every broker that we speak to has it."""

LOST: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Answers that say that the coordinator is somebody else now."""


class CoordinatorKind(enum.IntEnum):
    """What is coordinated, with the protocol's numbers."""

    GROUP = 0
    TRANSACTION = 1


class Coordinated(NamedTuple):
    """A group or a transactional id."""

    kind: CoordinatorKind
    key: str

    def __str__(self) -> str:
        what = "group" if self.kind is CoordinatorKind.GROUP else "transactional id"
        return f"{what} {self.key!r}"


class Coordinators:
    """What is known of them."""

    def __init__(self) -> None:
        self._nodes: dict[Coordinated, Node] = {}

    def node(self, of: Coordinated) -> Node | None:
        """The coordinator, if it is known."""
        return self._nodes.get(of)

    def question(self, of: Coordinated) -> FindCoordinatorRequest:
        return FindCoordinatorRequest(key_type=of.kind, coordinator_keys=(of.key,))

    def update(self, of: Coordinated, answer: FindCoordinatorResponse) -> Node | OttlaError:
        """Take in an answer: the coordinator, or why there is none."""
        for told in answer.coordinators:
            if told.key == of.key:
                if told.error_code != ErrorCode.NONE:
                    self._nodes.pop(of, None)
                    return exception_for(told.error_code, told.error_message or str(of))
                self._nodes[of] = Node(told.node_id, told.host, told.port)
                return self._nodes[of]
        return exception_for(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(of))

    def forget(self, of: Coordinated) -> None:
        """It is somebody else, or gone."""
        self._nodes.pop(of, None)

    def hears(self, of: Coordinated, code: int) -> bool:
        """A coordinator answered with `code`; whether it is to be looked for again."""
        if code not in LOST:
            return False
        self.forget(of)
        return True

    def node_lost(self, node_id: int) -> None:
        """The connection to a node broke: what it coordinated may have moved."""
        for of in [of for of, node in self._nodes.items() if node.node_id == node_id]:
            del self._nodes[of]
