"""Whom a request is for: a node by its id, or somebody who is found out when it is sent."""

import enum
from typing import Final, NamedTuple

from ottla.client.coordinators import Coordinated, CoordinatorKind
from ottla.model import TopicPartition


class Somebody(enum.Enum):
    ANY = "any broker"
    """The one with the least to do."""
    CONTROLLER = "the controller"

    def __str__(self) -> str:
        return self.value


ANY: Final = Somebody.ANY
CONTROLLER: Final = Somebody.CONTROLLER


class LeaderOf(NamedTuple):
    """Who leads this partition."""

    tp: TopicPartition

    def __str__(self) -> str:
        return f"the leader of {self.tp}"


Target = int | Somebody | LeaderOf | Coordinated


def group(group_id: str) -> Coordinated:
    """The coordinator of a group."""
    return Coordinated(CoordinatorKind.GROUP, group_id)


def transaction(transactional_id: str) -> Coordinated:
    """The coordinator of a transactional id."""
    return Coordinated(CoordinatorKind.TRANSACTION, transactional_id)
