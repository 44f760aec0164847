"""A coordinator, leaders, producers and a reader, and all that can happen to them.

An action is a tuple of words and numbers that says what happens next, such as
`("deliver", "a>coordinator", "late", 0)`.  Nothing happens by itself, and nothing is random here:
the same actions make the same world.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from ottla.coordinator.effects import StoredRecord
from ottla.coordinator.txn.records import transaction_record
from ottla.coordinator.txn.transaction import State, Transaction
from ottla.model import TopicPartition
from ottla.testing.history import Operation, Polled
from tests.txn_model.client import TIMEOUT_MS, Attempt, Client, Kind
from tests.txn_model.coordinator import Coordinator
from tests.txn_model.judge import Violation, judge, leftovers
from tests.txn_model.leader import Leader
from tests.txn_model.stage import HONEST, START_MS, Connection, Node, Rules, Stage

Action: TypeAlias = tuple[str | int, ...]
Choice: TypeAlias = tuple[str, Action, Connection | None]
"""What kind of event, and which, without saying yet where."""

PARTITIONS: Final = tuple(TopicPartition("p", index) for index in range(3))
LONGER_THAN_ANY_TIMEOUT_MS: Final = TIMEOUT_MS + 20_000
MAX_SETTLING_ROUNDS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Who takes part, and by which rules."""

    kinds: tuple[Kind, ...]
    """Of the producers: the first two share a transactional id, the others have their own."""
    rules: Rules = HONEST
    first_epoch: int = 0
    """Of the shared id; near the last one, producer ids are used up."""
    only: frozenset[str] | None = None
    """The faults that strike on every walk (see `walk`); without, each has its own mixture."""


class World:
    def __init__(self, cast: Cast) -> None:
        self.stage = Stage(cast.rules)
        self.coordinator = Coordinator(self.stage, _aged("shared", cast.first_epoch))
        self.leaders = [Leader(self.stage, p, self.coordinator) for p in PARTITIONS]
        self.coordinator.start({leader.partition: leader for leader in self.leaders})
        self.clients = [
            Client(self.stage, name, "shared" if number < 2 else name, kind, self.coordinator)
            for number, (name, kind) in enumerate(zip("abcdefgh", cast.kinds, strict=False))
        ]
        self.polls: list[Operation] = []
        self._positions = dict.fromkeys(PARTITIONS, 0)
        nodes: list[Node] = [self.coordinator, *self.leaders]
        self._nodes = {node.name: node for node in nodes}
        self._named_clients = {client.name: client for client in self.clients}
        self._named_leaders = {leader.name: leader for leader in self.leaders}

    # What can happen

    def possible(self) -> Iterator[Choice]:
        """Everything that makes sense now."""
        yield from self._network_choices()
        for node in self._nodes.values():
            if node.is_dirty:
                disk = "coordinator" if node is self.coordinator else "leader"
                yield f"sync {disk}", ("sync", node.name), None
            yield "crash" if node.is_dirty else "crash at rest", ("crash", node.name), None
        for client in self.clients:
            for verb, leader in client.choices(self.leaders):
                is_due = verb == "abort" and client.must_abort
                kind = "abort at last" if is_due else verb
                yield kind, (verb, client.name, *((leader.name,) if leader else ())), None
        for verb in ("read", "wait"):
            yield verb, (verb,), None

    def _network_choices(self) -> Iterator[Choice]:
        for connection in self.stage.connections:
            if connection.can_deliver:
                kind = "deliver late" if connection.is_abandoned else "deliver"
                yield kind, ("deliver",), connection
            if connection.replies:
                yield "hear", ("hear",), connection
            if connection.awaited_count:
                yield self._kind_of_timeout(connection), ("time out",), connection
            if not connection.is_empty:
                yield "cut", ("cut",), connection

    def _kind_of_timeout(self, connection: Connection) -> str:
        if connection.is_cut:
            return "notice"  # nothing will come
        return "repeat markers" if connection.sender is self.coordinator else "time out"

    def do(self, action: Action) -> bool:
        """Let it happen, if it can; whether it could."""
        verb, *rest = action
        match verb:
            case "deliver" | "hear" | "time out" | "cut":
                way, place, index = rest
                connection = self.stage.at(str(way), str(place), int(index))
                if connection is None or not _allows(connection, str(verb)):
                    return False
                self._on_connection(str(verb), connection)
            case "sync":
                self._nodes[str(rest[0])].sync()
            case "crash":
                self.stage.note(f"{rest[0]} crashes and is away {rest[2]}")
                self._nodes[str(rest[0])].crash(int(rest[1]))
                if rest[2] == "for long":
                    self._pass_time()
            case "read":
                self.read()
            case "wait":
                self.stage.note("time passes")
                self._pass_time()
            case _:
                if not self._by_client(str(verb), [str(word) for word in rest]):
                    return False
        return True

    def _on_connection(self, verb: str, connection: Connection) -> None:
        match verb:
            case "deliver":
                self.stage.deliver(connection)
            case "hear":
                self.stage.hear(connection)
            case "time out":
                self.stage.time_out(connection)
            case _:
                self.stage.cut(connection)

    def _by_client(self, verb: str, names: list[str]) -> bool:
        client = self._named_clients[names[0]]
        leader = self._named_leaders[names[1]] if len(names) > 1 else None
        if (verb, leader) not in client.choices(self.leaders):
            return False
        self.stage.note(" ".join([client.name, verb, *names[1:]]))
        client.do(verb, leader)
        return True

    def _pass_time(self) -> None:
        self.stage.now_ms += LONGER_THAN_ANY_TIMEOUT_MS
        self.coordinator.ring()

    def read(self) -> None:
        """A consumer reads on, in all partitions, what is committed."""
        for leader in self.leaders:
            position = self._positions[leader.partition]
            self._poll("reader", leader, position)
            self._positions[leader.partition] = max(position, leader.last_stable_offset)

    def _poll(self, process: str, leader: Leader, from_offset: int) -> None:
        polled = tuple(
            Polled(leader.name, value, offset) for offset, value in leader.committed(from_offset)
        )
        if polled:
            self.polls.append(Operation(process=process, polls=polled))

    # The end

    def settle(self) -> None:
        """Everything under way arrives, every timeout passes, and nobody begins anything new."""
        for client in self.clients:
            client.stop()
        for _ in range(2):
            self._drain()
            self._pass_time()
        self._drain()
        self.read()
        for leader in self.leaders:
            self._poll(f"last reader of {leader.name}", leader, 0)

    def _drain(self) -> None:
        for _ in range(MAX_SETTLING_ROUNDS):
            for node in self._nodes.values():
                node.sync()
            moved = [self._move(connection) for connection in list(self.stage.connections)]
            if not any(moved):
                return
        raise AssertionError("the world does not come to rest")

    def _move(self, connection: Connection) -> bool:
        verbs = ("deliver", "hear", *(("time out",) if connection.is_cut else ()))
        possible = [verb for verb in verbs if _allows(connection, verb)]
        if possible:
            self._on_connection(possible[0], connection)
        return bool(possible)

    @property
    def attempts(self) -> list[Attempt]:
        return [attempt for client in self.clients for attempt in client.attempts]

    def verdict(self, version: int | None = None) -> list[Violation]:
        """What is wrong once the world has settled, with all or with those of one version."""
        wrong = judge(
            self.attempts,
            self.polls,
            concerns=lambda attempt: version in (None, attempt.version),
        )
        return [*wrong, *leftovers(self.coordinator, self.leaders)]


def _allows(connection: Connection, verb: str) -> bool:
    match verb:
        case "deliver":
            return connection.can_deliver
        case "hear":
            return bool(connection.replies)
        case "time out":
            return connection.awaited_count > 0
        case _:
            return not connection.is_empty


def _aged(transactional_id: str, epoch: int) -> tuple[StoredRecord, ...]:
    """What the log says of an id after so many producers."""
    if not epoch:
        return ()
    old = Transaction(
        producer_id=1,
        previous_producer_id=1,
        producer_epoch=epoch,
        timeout_ms=TIMEOUT_MS,
        state=State.EMPTY,
        updated_ms=START_MS,
    )
    return (transaction_record(transactional_id, old),)
