"""What set off the last epochs of consumer groups, and when everybody had followed: soft state.

A decision says why an epoch would begin, and it is told once the epoch is applied: a decision that
cannot be written down sets off nothing.  An epoch's rebalance ends when every member owns what it
shall own, or when the next epoch comes first.  A restart forgets all of it.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from ottla.coordinator.group.classic import REBALANCES_KEPT, Cause, Rebalance
from ottla.coordinator.group.consumer.group import ConsumerGroup, ConsumerState
from ottla.coordinator.group.consumer.records import ConsumerChange, Kind
from ottla.values import dataclass

_AT_REST = (ConsumerState.STABLE, ConsumerState.EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was decided for a group at one moment, as far as its story goes."""

    now_ms: int
    epoch: int
    cause: Cause | None  # None: no epoch begins
    past: tuple[Rebalance, ...] = ()  # what the classic group remembered that this one replaces
    goes_back: bool = False  # a classic group takes its place, and takes over what is remembered


class Chronicle:
    """What is remembered of one group."""

    def __init__(self) -> None:
        self.rebalances: deque[Rebalance] = deque(maxlen=REBALANCES_KEPT)
        self.rebalance_count = self.rebalance_ms = 0  # how many began, and how long those took
        self.moved_ms: dict[str, int] = {}  # when a member last took a step
        self._decided: Decision | None = None

    def decide(self, decision: Decision) -> None:
        """This will be applied next, if it can be written."""
        self._decided = decision

    def note(self, group: ConsumerGroup, change: ConsumerChange) -> None:
        """A change was applied to the group."""
        decided = self._decided
        assert decided is not None, f"{group.group_id} changes, and nobody decided it"
        if decided.goes_back:
            return  # the classic group ends what goes on, with a rebalance of its own
        match change.kind:
            case Kind.EPOCH if decided.cause is not None and group.epoch == decided.epoch:
                self._begin(decided, decided.cause)
            case Kind.CURRENT if change.value is None:
                self.moved_ms.pop(change.subject, None)
            case Kind.CURRENT:
                self.moved_ms[change.subject] = decided.now_ms
                self._end_if_at_rest(group, decided.now_ms)
            case Kind.TARGET_EPOCH:
                self._end_if_at_rest(group, decided.now_ms)
            case _:
                pass  # a member's subscription or its target alone ends nothing

    @property
    def goes_back(self) -> bool:
        """Whether the group was to become a classic one, when it was last decided on."""
        return self._decided is not None and self._decided.goes_back

    def _begin(self, decided: Decision, cause: Cause) -> None:
        self.rebalances.extend(decided.past)
        self._end(decided.now_ms, None)
        self.rebalances.append(Rebalance(decided.now_ms, cause))
        self.rebalance_count += 1

    def _end_if_at_rest(self, group: ConsumerGroup, now_ms: int) -> None:
        # The state of a group is a look at all of its members: not without need.
        if self._goes_on and group.state in _AT_REST:
            self._end(now_ms, group.target_epoch)

    def _end(self, now_ms: int, epoch: int | None) -> None:
        if self._goes_on:
            last = self.rebalances[-1]
            self.rebalances[-1] = replace(last, ended_ms=now_ms, generation=epoch)
            self.rebalance_ms += max(0, now_ms - last.began_ms)

    @property
    def _goes_on(self) -> bool:
        return bool(self.rebalances) and self.rebalances[-1].ended_ms is None


class Chronicles:
    """What is remembered of all groups of one machine."""

    def __init__(self) -> None:
        self._by_group: dict[str, Chronicle] = {}
        self._handed_over: dict[str, Chronicle] = {}  # of groups that are just becoming classic

    def of(self, group_id: str) -> Chronicle:
        """What is remembered of a group; of one that has not changed since the start, nothing."""
        return self._by_group.get(group_id) or Chronicle()

    def decide(
        self,
        group_id: str,
        now_ms: int,
        epoch: int = -1,
        cause: Cause | None = None,
        past: Iterable[Rebalance] = (),
    ) -> None:
        """Changes of the group will be applied next; a cause says why they begin this epoch."""
        chronicle = self._by_group.setdefault(group_id, Chronicle())
        chronicle.decide(Decision(now_ms=now_ms, epoch=epoch, cause=cause, past=tuple(past)))

    def decide_to_go_back(self, group_id: str, now_ms: int) -> None:
        """A classic group will take the place of this one, if that can be written."""
        if (chronicle := self._by_group.get(group_id)) is not None:
            chronicle.decide(Decision(now_ms=now_ms, epoch=-1, cause=None, goes_back=True))

    def handed_over(self, group_id: str) -> Chronicle | None:
        """What the classic group of that name takes over, once; None: nothing."""
        return self._handed_over.pop(group_id, None)

    def note(self, group: ConsumerGroup, change: ConsumerChange) -> None:
        """A change was applied; those that are read from the log at a start tell no story."""
        chronicle = self._by_group.get(group.group_id)
        if chronicle is not None:
            chronicle.note(group, change)

    def forget(self, group_id: str) -> None:
        """The group is gone, or is a classic one now."""
        chronicle = self._by_group.pop(group_id, None)
        if chronicle is not None and chronicle.goes_back:
            self._handed_over[group_id] = chronicle
