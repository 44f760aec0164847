"""What a client knows of its connection to one node, and which node it asks next.

Pure.  A node that was lost, or could not be reached, is left alone for a while that doubles with
each failure; a connection that was ready forgets the failures before it.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.client.backoff import Backoff
from ottla.values import dataclass


class State(enum.Enum):
    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CHECKING_VERSIONS = "checking versions"
    AUTHENTICATING = "authenticating"
    READY = "ready"
    BACKING_OFF = "backing off"


_ENDS: Final = frozenset({State.BACKING_OFF, State.DISCONNECTED})

# Every legal move.
MOVES: Final[Mapping[State, frozenset[State]]] = {
    State.DISCONNECTED: frozenset({State.CONNECTING}),
    State.BACKING_OFF: frozenset({State.CONNECTING, State.DISCONNECTED}),
    State.CONNECTING: frozenset({State.CHECKING_VERSIONS}) | _ENDS,
    State.CHECKING_VERSIONS: frozenset({State.AUTHENTICATING, State.READY}) | _ENDS,
    State.AUTHENTICATING: frozenset({State.READY}) | _ENDS,
    State.READY: _ENDS,
}


@dataclass(frozen=True, slots=True)
class ConnectPolicy:
    """How often to try a node, and how long each time."""

    reconnect: Backoff
    setup_timeout: Backoff


class NodeState:
    """The state of one connection, through all its lives."""

    def __init__(self, policy: ConnectPolicy) -> None:
        self._policy = policy
        self.state = State.DISCONNECTED
        self.failure_count = 0
        """Since it was last ready."""
        self.last_attempt_ms = -1
        """When it was last tried or lost; -1: never."""
        self._not_before_ms = 0

    @property
    def is_opening(self) -> bool:
        return self.state in (State.CONNECTING, State.CHECKING_VERSIONS, State.AUTHENTICATING)

    def delay_ms(self, now_ms: int) -> int:
        """How long to wait before it may be tried."""
        return max(0, self._not_before_ms - now_ms) if self.state is State.BACKING_OFF else 0

    def connect(self, now_ms: int, luck: float) -> int:
        """Begin to connect; returns how long that may take."""
        assert self.delay_ms(now_ms) == 0, "too early"
        self._move(State.CONNECTING)
        self.last_attempt_ms = now_ms
        return self._policy.setup_timeout.delay_ms(self.failure_count + 1, luck)

    def connected(self) -> None:
        self._move(State.CHECKING_VERSIONS)

    def authenticate(self) -> None:
        self._move(State.AUTHENTICATING)

    def ready(self) -> None:
        self._move(State.READY)
        self.failure_count = 0

    def lost(self, now_ms: int, luck: float) -> None:
        """The attempt failed, or the connection went away."""
        self._move(State.BACKING_OFF)
        self.failure_count += 1
        self.last_attempt_ms = now_ms
        self._not_before_ms = now_ms + self._policy.reconnect.delay_ms(self.failure_count, luck)

    def close(self) -> None:
        """We closed it ourselves, in peace."""
        if self.state is not State.DISCONNECTED:
            self._move(State.DISCONNECTED)

    def _move(self, to: State) -> None:
        assert to in MOVES[self.state], f"{self.state} -> {to}"
        self.state = to


class Load(NamedTuple):
    """One node, as `least_loaded` sees it."""

    node_id: int
    state: State
    in_flight_count: int
    delay_ms: int
    """How long until it may be asked, or tried: back-off or throttling."""
    last_attempt_ms: int


def least_loaded(loads: Iterable[Load], luck: float) -> int | None:
    """Which node to ask, if any node will do; None if all of them want to be left alone.

    A ready node with the fewest requests comes first, then one that is being connected to, then the
    one whose last attempt is longest ago.  Among equals it is a matter of luck.
    """
    candidates = [load for load in loads if load.delay_ms == 0]
    if not candidates:
        return None
    best = min(_rank(load) for load in candidates)
    equals = [load for load in candidates if _rank(load) == best]
    return equals[int(luck * len(equals))].node_id


def _rank(load: Load) -> tuple[int, int]:
    match load.state:
        case State.READY:
            return 0, load.in_flight_count
        case State.CONNECTING | State.CHECKING_VERSIONS | State.AUTHENTICATING:
            return 1, 0
        case State.DISCONNECTED | State.BACKING_OFF:
            return 2, load.last_attempt_ms
