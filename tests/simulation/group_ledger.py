"""What the members of a simulated group were told, and the judgment on it.

Members write down what they ask and what they hear, in the order in which it happens.  Every commit
carries a note of its own, which the coordinator keeps beside the offset: so a fetch tells not only
how far a group came, but by whose commit, even if the answer to that commit was lost.

A generation that members were told of is forgotten if the coordinator restarts before its
assignment was written down; one whose assignment anybody has heard never is.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from ottla.errors import ErrorCode
from tests.simulation.broker_clients import Spot
from tests.simulation.journal import Journal

NEVER = float("inf")
NO_OFFSET = -1


@dataclass(slots=True, kw_only=True, eq=False)
class Commit:
    """A request to remember offsets; `happened_at` is by when it is known to have been done."""

    note: str
    member_id: str
    generation: int
    offsets: Mapping[Spot, int]
    asked_at: int
    newest_agreed: int
    """The newest generation that anybody had an assignment of when this was asked."""
    newest_told: int
    """The newest one that anybody was told of, by the coordinator that ran then."""
    coordinator: Hashable
    is_replaced: bool
    """Whether another process had taken the place of this static member before it asked."""
    happened_at: float = NEVER
    is_refused: bool = False


@dataclass(slots=True)
class _Static:
    """The ids under which one static member has had assignments."""

    heard_ids: set[str] = field(default_factory=set)
    former_ids: set[str] = field(default_factory=set)


class GroupLedger:
    """All that is known of one group.

    Args:
        journal: Where broken promises go.
        coordinator: Names the coordinator that runs now; another one may have forgotten what was
            not written down.
    """

    def __init__(self, journal: Journal, coordinator: Callable[[], Hashable]) -> None:
        self.coordinator = coordinator
        self._journal = journal
        self._tick = 0
        self._owners: dict[tuple[int, Spot], str] = {}
        self._agreed = 0
        self._told: dict[Hashable, int] = {}
        self._statics: dict[str, _Static] = {}
        self._commits: dict[str, Commit] = {}
        self._of_spot: dict[Spot, list[Commit]] = {}

    def now(self) -> int:
        """A moment: later ones are larger."""
        self._tick += 1
        return self._tick

    # Membership

    def hear_of_generation(self, generation: int, *, asked: Hashable) -> None:
        """A join was answered; `asked` is the coordinator that ran when it was sent."""
        self._journal.done["joined"] += 1
        if asked == self.coordinator():  # otherwise it may be the last word of one that is gone
            self._told[asked] = max(self._told.get(asked, 0), generation)

    def predecessors(self, instance_id: str | None) -> frozenset[str]:
        """Under which ids the static member has had assignments: a new id will replace them."""
        static = self._statics.get(instance_id or "")
        return frozenset() if static is None else frozenset(static.heard_ids)

    def is_replaced(self, instance_id: str | None, member_id: str) -> bool:
        """Whether the static member has had an assignment under a newer id."""
        static = self._statics.get(instance_id or "")
        return static is not None and member_id in static.former_ids

    def hear_of_assignment(
        self,
        *,
        generation: int,
        member_id: str,
        instance_id: str | None,
        predecessors: frozenset[str],
        spots: tuple[Spot, ...],
    ) -> None:
        """A sync was answered: until the next generation these partitions are this member's.

        `predecessors` are those of a static member when it asked for its id.  It takes their place
        for good: this is written down.
        """
        self._agreed = max(self._agreed, generation)
        owner = instance_id or member_id
        for spot in spots:
            other = self._owners.setdefault((generation, spot), owner)
            if other != owner:
                self._journal.violate(
                    f"{spot} has two owners in generation {generation}: {other} and {owner}"
                )
        if instance_id is not None:
            static = self._statics.setdefault(instance_id, _Static())
            static.heard_ids.add(member_id)
            static.former_ids |= predecessors - {member_id}
        self._journal.done["assigned"] += 1

    # Offsets

    def ask_commit(
        self,
        *,
        note: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        offsets: Mapping[Spot, int],
    ) -> Commit:
        """A member is about to commit."""
        coordinator = self.coordinator()
        commit = Commit(
            note=note,
            member_id=member_id,
            generation=generation,
            offsets=dict(offsets),
            asked_at=self.now(),
            newest_agreed=self._agreed,
            newest_told=self._told.get(coordinator, 0),
            coordinator=coordinator,
            is_replaced=self.is_replaced(instance_id, member_id),
        )
        assert note not in self._commits, f"two commits are called {note}"
        self._commits[note] = commit
        for spot in offsets:
            self._of_spot.setdefault(spot, []).append(commit)
        return commit

    def hear_of_commit(self, commit: Commit, code: ErrorCode) -> None:
        """It was answered; without an answer, it may have happened, or happen later.

        A coordinator that fails says that it is none: what it wrote last may be there or not.
        """
        self._journal.done[f"commit {code.name}"] += 1
        if code is not ErrorCode.NONE:
            commit.is_refused = code is not ErrorCode.NOT_COORDINATOR
        else:
            self._accept(commit)
            if commit.newest_told > commit.generation and commit.coordinator == self.coordinator():
                self._journal.violate(
                    f"{commit.note} of generation {commit.generation} was accepted, though "
                    f"{commit.newest_told} had begun"
                )

    def hear_of_offset(self, spot: Spot, offset: int, note: str, *, asked_at: int) -> None:
        """A fetch of offsets was answered."""
        self._journal.done["offset fetched"] += 1
        if offset == NO_OFFSET:
            lost = [c.note for c in self._of_spot.get(spot, ()) if c.happened_at < asked_at]
            if lost:
                self._journal.violate(f"{spot} has no offset, but {lost[-1]} committed one")
            return
        commit = self._commits.get(note)
        if commit is None or commit.offsets.get(spot) != offset:
            self._journal.violate(f"{spot} is at {offset} by {note!r}, which nobody committed")
            return
        if commit.is_refused:
            self._journal.violate(f"{note} was refused, and moved {spot} to {offset}")
        for newer in self._of_spot[spot]:
            if commit.happened_at < newer.asked_at and newer.happened_at < asked_at:
                self._journal.violate(
                    f"{spot} went back to {offset} by {note}, after {newer.note} had committed "
                    f"{newer.offsets[spot]}"
                )
        self._accept(commit)

    def _accept(self, commit: Commit) -> None:
        """It is certain that it happened: may it have?"""
        if commit.happened_at != NEVER:
            return
        commit.happened_at = self.now()
        if commit.generation < commit.newest_agreed:
            self._journal.violate(
                f"{commit.note} of generation {commit.generation} was accepted, though "
                f"{commit.newest_agreed} had its assignment"
            )
        if commit.is_replaced:
            self._journal.violate(f"{commit.note} was accepted, though its sender was replaced")

    def committed(self, spot: Spot) -> int:
        """The highest offset that is known to have been committed."""
        done = (c.offsets[spot] for c in self._of_spot.get(spot, ()) if c.happened_at != NEVER)
        return max(done, default=NO_OFFSET)

    def judge_generations(self) -> None:
        """A generation goes on where the last one stopped, so its commits never lie before."""
        for spot, commits in self._of_spot.items():
            done = [commit for commit in commits if commit.happened_at != NEVER]
            ranges: dict[int, list[int]] = {}
            for commit in done:
                ranges.setdefault(commit.generation, []).append(commit.offsets[spot])
            for one, other in pairwise(sorted(ranges)):
                if max(ranges[one]) > min(ranges[other]):
                    self._journal.violate(
                        f"{spot} was at {max(ranges[one])} in generation {one}, and at "
                        f"{min(ranges[other])} in generation {other}"
                    )
