"""What a handler may use: the broker it belongs to, and who is asking.

Coordinators are made, and their modules imported, when they are first asked for, or at the start
where their topic exists: most brokers acknowledge their first record before anybody joins a group.
So are fetch sessions, with the first fetch.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ottla.broker.config import BrokerConfig
from ottla.broker.dispatch import Route
from ottla.broker.flusher import Flusher
from ottla.broker.meters import Meters
from ottla.broker.partitions import Partitions
from ottla.broker.producer_ids import ProducerIds
from ottla.cluster.controller import Controller
from ottla.coordinator.caller import Caller
from ottla.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.ports import Ports
from ottla.values import dataclass

if TYPE_CHECKING:
    from ottla.broker.coordinators import Coordinators
    from ottla.broker.fetch_sessions import FetchSessions
    from ottla.broker.groups import Groups
    from ottla.broker.session import Session
    from ottla.broker.transactions import Transactions


@dataclass(slots=True, kw_only=True)
class Node:
    """The parts of one running broker."""

    config: BrokerConfig
    ports: Ports
    controller: Controller
    partitions: Partitions
    flusher: Flusher | None
    """None where the page cache counts as durable (`flush=os`)."""
    make_fetch_sessions: "Callable[[], FetchSessions]"
    routes: Mapping[int, Route]
    meters: Meters = field(default_factory=Meters)
    make_transactions: "Callable[[Node], Transactions] | None" = None
    """None for the true ones."""
    producer_ids: ProducerIds = field(init=False)
    _fetch_sessions: "FetchSessions | None" = field(init=False)
    _groups: "Groups | None" = field(init=False)
    _transactions: "Transactions | None" = field(init=False)

    def __post_init__(self) -> None:
        self.producer_ids = ProducerIds(self.controller)
        self._fetch_sessions = self._groups = self._transactions = None

    @property
    def fetch_sessions(self) -> "FetchSessions":
        if self._fetch_sessions is None:
            self._fetch_sessions = self.make_fetch_sessions()
        return self._fetch_sessions

    @property
    def groups(self) -> "Groups":
        """The coordinators of groups."""
        if self._groups is None:
            from ottla.broker.groups import Groups

            self._groups = Groups(self)
        return self._groups

    @property
    def transactions(self) -> "Transactions":
        """The coordinators of transactions."""
        if self._transactions is None:
            from ottla.broker.transactions import Transactions

            self._transactions = (self.make_transactions or Transactions)(self)
        return self._transactions

    @property
    def coordinators(self) -> "tuple[Coordinators[Any], ...]":
        """Those that were made so far; the others know nothing that could matter."""
        return tuple(made for made in (self._groups, self._transactions) if made is not None)

    def start_coordinators(self) -> None:
        """Have those read their logs that have one."""
        topics = self.controller.image.topics
        if CONSUMER_OFFSETS_TOPIC in topics:
            self.groups.start()
        if TRANSACTION_STATE_TOPIC in topics:
            self.transactions.start()


class Context:
    """One request: its broker, its connection, its version."""

    __slots__ = ("_caller", "client_id", "node", "session", "version")

    def __init__(self, node: Node, session: "Session", version: int, client_id: str | None) -> None:
        self.node = node
        self.session = session
        self.version = version
        self.client_id = client_id
        self._caller: Caller | None = None

    @property
    def caller(self) -> Caller:
        """Who is asking, as the coordinators remember it."""
        if self._caller is None:
            self._caller = Caller(
                client_id=self.client_id or "",
                client_host=f"/{self.session.peer[0]}",
                version=self.version,
            )
        return self._caller
