"""What all actors of the model share: the network between them, the time, and the rules.

A connection keeps its order, and there is none between connections.  Whoever waits for too long
abandons the connection and sends again on another one, while what it sent before is still under
way: that is how requests are duplicated and delayed.  A connection that is cut loses all that is
under way, in both directions, and its sender learns of it by waiting in vain.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol, TypeAlias

from ottla.coordinator.txn.machine import TransactionCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse

Address: TypeAlias = tuple[str, str, int]
"""From whom to whom, whether the sender still listens, and how many such are newer."""

START_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What keeps transactions whole on the brokers' side; a sabotaged world lacks one of these."""

    answers_wait: bool = True
    """The coordinator answers when what it says is durable."""
    markers_wait: bool = True
    """The coordinator has markers written when the decision is durable."""
    carries_on: bool = True
    """A coordinator that starts writes the markers of what was decided before."""
    machine: type[TransactionCoordinator] = TransactionCoordinator
    """What decides."""
    verifies: bool = True
    """A leader asks the coordinator before it lets a producer begin a transaction."""
    guards: bool = True
    """The answer counts only if no marker came since the leader asked."""
    refuses_late_markers: bool = True
    """A marker of version 2 whose epoch is that of the data is refused."""
    leaders_wait: bool = True
    """A leader acknowledges what is durable."""


HONEST = Rules()


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A request on its way."""

    body: Any
    label: str
    version: int = 0

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    call: Call
    response: Any


class Sender(Protocol):
    """Who opens connections and waits for replies."""

    name: str

    def hear(self, connection: "Connection", reply: Reply) -> None: ...

    def give_up(self, connection: "Connection") -> None:
        """Nothing has come for too long."""


class Node(Protocol):
    """Who is connected to."""

    name: str

    def serve(self, connection: "Connection", call: Call) -> None:
        """Reply at once or later; until then the connection hands over nothing else."""

    @property
    def is_dirty(self) -> bool:
        """Whether a crash could lose something."""

    def sync(self) -> None:
        """All that was written is durable."""

    def crash(self, thirds: int) -> None:
        """Lose what is not durable, except for some `thirds` of it, and start again."""


@dataclass(slots=True, eq=False)
class Connection:
    """A way from a sender to a node, and back."""

    way: str
    number: int
    sender: Sender
    node: Node
    calls: deque[Call] = field(default_factory=deque)
    replies: deque[Reply] = field(default_factory=deque)
    served: Call | None = None
    awaited_count: int = 0
    is_abandoned: bool = False
    is_cut: bool = False

    def send(self, call: Call) -> None:
        assert not self.is_abandoned
        self.awaited_count += 1
        if not self.is_cut:
            self.calls.append(call)

    def reply(self, call: Call, response: Any) -> None:
        if self.served is not call:
            return  # cut meanwhile
        self.served = None
        if not self.is_abandoned:
            self.replies.append(Reply(call, response))

    def abandon(self) -> None:
        """The sender turns away; what it sent stays under way."""
        self.is_abandoned, self.awaited_count = True, 0
        self.replies.clear()

    def cut(self) -> None:
        self.is_cut, self.served = True, None
        self.calls.clear()
        self.replies.clear()

    @property
    def name(self) -> str:
        return f"{self.way}#{self.number}"

    @property
    def can_deliver(self) -> bool:
        return bool(self.calls) and self.served is None

    @property
    def is_empty(self) -> bool:
        """Nothing is under way."""
        return not self.calls and not self.replies and self.served is None


class Stage:
    """Network, time and rules of one world, and the story so far."""

    def __init__(self, rules: Rules = HONEST) -> None:
        self.rules = rules
        self.now_ms = START_MS
        self.connections: list[Connection] = []
        self.numbers = count(1)
        self.story: list[str] = []
        self._opened: Counter[str] = Counter()

    def note(self, line: str) -> None:
        self.story.append(line)

    def connect(self, sender: Sender, node: Node) -> Connection:
        way = f"{sender.name}>{node.name}"
        self._opened[way] += 1
        connection = Connection(way, self._opened[way], sender, node)
        self.connections.append(connection)
        return connection

    def address(self, connection: Connection) -> Address:
        """Where `at` finds it: the newest of a kind has number 0, whatever came before it."""
        alike = self._alike(connection.way, is_late=connection.is_abandoned)
        return (
            connection.way,
            "late" if connection.is_abandoned else "open",
            alike.index(connection),
        )

    def at(self, way: str, kind: str, index: int) -> Connection | None:
        alike = self._alike(way, is_late=kind == "late")
        return alike[index] if index < len(alike) else None

    def _alike(self, way: str, *, is_late: bool) -> list[Connection]:
        return [
            connection
            for connection in reversed(self.connections)
            if connection.way == way and connection.is_abandoned == is_late
        ]

    def deliver(self, connection: Connection) -> None:
        call = connection.calls.popleft()
        connection.served = call
        self.note(f"{connection.name}{' (late)' * connection.is_abandoned}: {call}")
        connection.node.serve(connection, call)
        self._tidy(connection)

    def hear(self, connection: Connection) -> None:
        reply = connection.replies.popleft()
        connection.awaited_count -= 1
        self.note(f"{connection.name} hears {told(reply.response)} to {reply.call}")
        connection.sender.hear(connection, reply)
        self._tidy(connection)

    def time_out(self, connection: Connection) -> None:
        self.note(f"{connection.name} times out")
        connection.abandon()
        connection.sender.give_up(connection)
        self._tidy(connection)

    def cut(self, connection: Connection) -> None:
        self.note(f"{connection.name} is cut")
        connection.cut()
        self._tidy(connection)

    def lose(self, actor: object) -> None:
        """A process dies: it hears no more calls and no more replies.

        What it had sent stays under way.
        """
        for connection in list(self.connections):
            if connection.node is actor:
                connection.cut()
            if connection.sender is actor:
                connection.abandon()
            self._tidy(connection)

    def _tidy(self, connection: Connection) -> None:
        if connection.is_abandoned and connection.is_empty and connection in self.connections:
            self.connections.remove(connection)


def told(response: Any) -> str:
    """A response in a word or two."""
    if isinstance(response, ErrorCode):
        return response.name
    if isinstance(response, AddPartitionsToTxnResponse):
        return added_error(response).name
    error = ErrorCode(response.error_code)
    epoch = getattr(response, "producer_epoch", -1)
    return error.name if epoch < 0 else f"{error.name} {response.producer_id}/{epoch}"


def added_error(response: AddPartitionsToTxnResponse) -> ErrorCode:
    """The error of the only partition of a response."""
    by_topic = response.results_by_topic_v3_and_below
    if response.results_by_transaction:
        by_topic = response.results_by_transaction[0].topic_results
    return ErrorCode(by_topic[0].results_by_partition[0].partition_error_code)
