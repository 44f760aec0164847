"""Until when members must be heard of: the soft state of consumer groups.

A session's alarm is not moved by each heartbeat: it rings by the old deadline, sees that there is a
newer one, and is set again.  A restart forgets all of it, and gives everybody a session's time.
"""

from typing import Final

from ottla.coordinator.effects import Alarm, AlarmName, Effect

SESSION: Final = "consumer-session"
"""Nothing was heard of a member."""
REBALANCE: Final = "consumer-rebalance"
"""A member was told to give up partitions, and did not."""
JOIN: Final = "consumer-join"
"""A member that speaks the old protocol was told to join again, and did not."""
SYNC: Final = "consumer-sync"
"""Such a member has joined, and did not ask for its assignment."""

BACK: Final = "consumer-back"
"""Nobody is left in a group who speaks the new protocol."""

ALARMS: Final = (SESSION, REBALANCE, JOIN, SYNC, BACK)


class Watch:
    """All alarms of consumer groups, and the deadlines of sessions."""

    def __init__(self) -> None:
        self._alarms: dict[AlarmName, int] = {}  # when they ring
        self._deadlines: dict[tuple[str, str], int] = {}  # group and member -> end of its session
        self._timeouts: dict[tuple[str, str], int] = {}

    def hear(self, group_id: str, member_id: str, timeout_ms: int, now_ms: int) -> list[Effect]:
        """A member was heard of: it has until its session timeout to be heard of again."""
        deadline_ms = now_ms + timeout_ms
        self._deadlines[group_id, member_id] = deadline_ms
        self._timeouts[group_id, member_id] = timeout_ms
        name = (SESSION, group_id, member_id)
        if self._alarms.get(name, deadline_ms + 1) <= deadline_ms:
            return []
        return self._set(name, deadline_ms)

    def begin(self, kind: str, group_id: str, member_id: str, at_ms: int) -> list[Effect]:
        """A wait begins, or begins again."""
        return self._set((kind, group_id, member_id), at_ms)

    def begin_once(self, kind: str, group_id: str, member_id: str, at_ms: int) -> list[Effect]:
        """A wait begins, unless it has begun before."""
        name = (kind, group_id, member_id)
        return [] if name in self._alarms else self._set(name, at_ms)

    def end(self, kind: str, group_id: str, member_id: str) -> list[Effect]:
        """A wait is over."""
        name = (kind, group_id, member_id)
        return [] if self._alarms.pop(name, None) is None else [Alarm(name, None)]

    def forget(self, group_id: str, member_id: str) -> list[Effect]:
        """A member is gone."""
        self._deadlines.pop((group_id, member_id), None)
        self._timeouts.pop((group_id, member_id), None)
        return [effect for kind in ALARMS for effect in self.end(kind, group_id, member_id)]

    def session_of(self, group_id: str, member_id: str) -> tuple[int, int] | None:
        """Until when a member must be heard of, and how long its session is."""
        key = (group_id, member_id)
        return (self._deadlines[key], self._timeouts[key]) if key in self._deadlines else None

    def until_ms(self, kind: str, group_id: str, member_id: str) -> int | None:
        """When a wait is over; None if there is none."""
        return self._alarms.get((kind, group_id, member_id))

    def ring(self, name: AlarmName, now_ms: int) -> tuple[bool, list[Effect]]:
        """An alarm rang: whether the wait is really over, and what to do if it is not."""
        if self._alarms.pop(name, None) is None:
            return False, []
        kind, group_id, member_id = name
        deadline_ms = self._deadlines.get((group_id, member_id), now_ms)
        if kind == SESSION and deadline_ms > now_ms:
            # Or the clock was set back: a silent member must not stay for as long as that.
            longest_ms = self._timeouts[group_id, member_id]
            self._deadlines[group_id, member_id] = min(deadline_ms, now_ms + longest_ms)
            return False, self._set(name, self._deadlines[group_id, member_id])
        return True, []

    def move_deadlines(self, by_ms: int) -> None:
        """The clock was set by so much, and whatever is waited for comes when it would have."""
        self._alarms = {name: at_ms + by_ms for name, at_ms in self._alarms.items()}
        self._deadlines = {key: at_ms + by_ms for key, at_ms in self._deadlines.items()}

    def _set(self, name: AlarmName, at_ms: int) -> list[Effect]:
        self._alarms[name] = at_ms
        return [Alarm(name, at_ms)]
