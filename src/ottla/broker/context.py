"""What a handler may use: the broker it belongs to, and who is asking."""

from collections.abc import Mapping
from dataclasses import InitVar, field
from typing import TYPE_CHECKING

from ottla.broker.config import BrokerConfig
from ottla.broker.dispatch import Route
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.flusher import Flusher
from ottla.broker.groups import Groups
from ottla.broker.meters import Meters
from ottla.broker.partitions import Partitions
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.transactions import Transactions
from ottla.cluster.controller import Controller
from ottla.coordinator.caller import Caller
from ottla.ports import Ports
from ottla.values import dataclass

if TYPE_CHECKING:
    from ottla.broker.session import Session


@dataclass(slots=True, kw_only=True)
class Node:
    """The parts of one running broker."""

    config: BrokerConfig
    ports: Ports
    controller: Controller
    partitions: Partitions
    flusher: Flusher | None
    """None where the page cache counts as durable (`flush=os`)."""
    fetch_sessions: FetchSessions
    routes: Mapping[int, Route]
    meters: Meters = field(default_factory=Meters)
    make_transactions: InitVar[type[Transactions]] = Transactions
    groups: Groups = field(init=False)
    """The coordinators; they need the rest of the node."""
    transactions: Transactions = field(init=False)
    producer_ids: ProducerIds = field(init=False)

    def __post_init__(self, make_transactions: type[Transactions]) -> None:
        self.groups = Groups(self)
        self.transactions = make_transactions(self)
        self.producer_ids = ProducerIds(self.controller)


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
