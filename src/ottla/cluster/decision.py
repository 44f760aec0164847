"""What becomes of a request, before the store has agreed to it.

Errors are values: a `Refusal` has the error code that Kafka's controller would give, and concerns
one topic or resource of a request, never its neighbors.
"""

from collections.abc import Iterable
from dataclasses import field
from typing import Generic, Protocol, Self, TypeVar

from ottla.cluster.changes import Change
from ottla.cluster.store.interface import Operation
from ottla.errors import ErrorCode
from ottla.values import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not done."""

    error: ErrorCode
    message: str


def unknown_topic(name: str) -> Refusal:
    """There is no such topic."""
    return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")


class Outcome(Protocol):
    """What became of one topic or resource."""

    @property
    def error(self) -> ErrorCode: ...

    def but(self, refusal: Refusal) -> Self:
        """The same, refused."""
        ...


OutcomeT = TypeVar("OutcomeT", bound=Outcome)


@dataclass(slots=True)
class Decision(Generic[OutcomeT]):
    """Outcomes, and what must be written before they are true."""

    outcomes: list[OutcomeT] = field(default_factory=list)
    unchanged: dict[str, None] = field(default_factory=dict)
    """The keys that must be as the image has them: an ordered set."""
    operations: list[Operation] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def add(self, change: Change, operations: Iterable[Operation], *unchanged: str) -> None:
        self.changes.append(change)
        self.operations += operations
        self.unchanged |= dict.fromkeys(unchanged)

    def failed(self, refusal: Refusal) -> list[OutcomeT]:
        """The outcomes if nothing can be written."""
        return [outcome if outcome.error else outcome.but(refusal) for outcome in self.outcomes]
