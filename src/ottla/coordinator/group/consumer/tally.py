"""What the members of a consumer group want, counted: subscriptions, and votes for an assignor.

Most members want the same.  Whoever joins a group of a thousand asks what all of them read; so that
is counted as they come and go, and nobody has to look at each of them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.records import Resolved

_K = TypeVar("_K")

Subscription: TypeAlias = tuple[frozenset[str], str]
"""Names of topics, and an expression, or ""."""


class Tally:
    """How many members want what.  What nobody wants is not in it."""

    __slots__ = ("subscriptions", "votes")

    def __init__(self, members: Iterable[ConsumerMember] = ()) -> None:
        self.subscriptions: Counter[Subscription] = Counter()
        self.votes: Counter[str | None] = Counter()
        for member in members:
            self.replace(None, member)

    def copy(self) -> "Tally":
        other = Tally()
        other.subscriptions.update(self.subscriptions)
        other.votes.update(self.votes)
        return other

    def replace(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """A member is `new` or is gone; before, it was `old` or was not there."""
        if old is not None:
            _uncount(self.subscriptions, (old.names, old.pattern))
            _uncount(self.votes, old.server_assignor)
        if new is not None:
            self.subscriptions[new.names, new.pattern] += 1
            self.votes[new.server_assignor] += 1

    @property
    def patterns(self) -> set[str]:
        """The expressions that members subscribe to."""
        return {pattern for _, pattern in self.subscriptions if pattern}

    def topics(self, patterns: Mapping[str, Resolved]) -> frozenset[str]:
        """All topics that members read; an expression counts as long as a member has it."""
        found: set[str] = set()
        for names, pattern in self.subscriptions:
            found |= names
            if pattern in patterns:
                found |= patterns[pattern].topics
        return frozenset(found)


def _uncount(counts: Counter[_K], key: _K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
