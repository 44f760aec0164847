"""All links of a client: one for each node and lane, made when it is first needed.

A lane is a second connection to the same node: a broker answers the requests of a connection one
after the other, so what must not wait behind a long poll takes a lane of its own.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from ottla.client.addresses import Address
from ottla.client.cluster_view import ClusterView, Node
from ottla.client.connection import Connection
from ottla.client.link import SEND_TIMEOUT_S, Link, LinkContext
from ottla.client.node_state import Load, State, least_loaded
from ottla.errors import ConnectError, OttlaError

MAIN: Final = ""
"""The lane of everything that has no lane of its own."""

_THIS_MACHINE: Final = "localhost"
_LOOPBACK: Final = frozenset({_THIS_MACHINE, "127.0.0.1", "::1"})
_REACHED: Final = frozenset({State.CHECKING_VERSIONS, State.AUTHENTICATING, State.READY})


class LinkKey(NamedTuple):
    node_id: int
    lane: str


class Links:
    """Made in the loop that uses it."""

    def __init__(self, context: LinkContext, bootstrap: Sequence[Address]) -> None:
        self._context = context
        self._bootstrap = {
            -number: Node(-number, *address) for number, address in enumerate(bootstrap, start=1)
        }
        self._links: dict[LinkKey, Link] = {}
        self._moved: list[Link] = []
        """Closed, because their nodes are elsewhere; not yet gone."""

    def to(self, node: Node, lane: str = MAIN) -> Link:
        """The link to `node`; if it moved, the one to its old address is closed."""
        link = self.known(node.node_id, lane)
        if link is not None and link.node is not node:
            if link.node.address == node.address:
                link.node = node
            else:
                link.close(ConnectError(f"{link.node} moved to {node.address}"))
                self._moved = [moved for moved in self._moved if not moved.is_gone] + [link]
                link = None
        if link is None:
            link = self._links[LinkKey(node.node_id, lane)] = Link(node, self._context)
        return link

    def known(self, node_id: int, lane: str = MAIN) -> Link | None:
        key: Any = (node_id, lane)  # as good as a LinkKey, and made in no time
        return self._links.get(key)

    async def any(self, cluster: ClusterView) -> Connection:
        """A connection to the node with the least to do, with all nodes tried if need be.

        Raises `ConnectError`, with every reason, if none of them can be reached now, and at once
        what no other node would change (credentials, certificates).
        """
        failures: dict[int, tuple[Node, OttlaError]] = {}
        while True:
            nodes = self._candidates(cluster, failures)
            if not nodes:
                raise all_reasons(failures.values())
            link = await self._choose(nodes)
            try:
                return await link.opened()
            except ConnectError as error:
                if not error.retriable:
                    raise
                failures[link.node.node_id] = (link.node, error)

    def adopt(self, cluster: ClusterView) -> None:
        """Nodes became known: connections that were made to bootstrap from now belong to them."""
        by_address = {node.address: node for node in cluster.nodes.values()}
        for key, link in list(self._links.items()):
            if key.node_id >= 0:
                continue
            node = by_address.get(link.node.address)
            if node is not None and self.known(node.node_id, key.lane) is None:
                del self._links[key]
                link.node = node
                self._links[LinkKey(node.node_id, key.lane)] = link
            elif link.state is State.READY and not link.load.in_flight_count:
                link.close(forever=False)

    def close_idle(self, before_s: float) -> None:
        """Close what nobody used since then, the longest unused first."""
        idle = [
            (connection.last_used_s, key, link)
            for key, link in self._links.items()
            if (connection := link.connection) is not None
            and connection.in_flight_count == 0
            and connection.last_used_s <= before_s
        ]
        for _, _, link in sorted(idle, key=lambda entry: entry[:2]):
            link.close(forever=False)

    def oldest_use_s(self) -> float | None:
        """When the connection that waits longest was last used."""
        used = [c.last_used_s for link in self._links.values() if (c := link.connection)]
        return min(used, default=None)

    @property
    def open_count(self) -> int:
        return sum(link.connection is not None for link in self._links.values())

    @property
    def reaches_anybody(self) -> bool:
        """Whether somebody took a connection of ours, be it that he says nothing."""
        return any(link.state in _REACHED for link in self._links.values())

    def disconnect(self, which: Callable[[Node], bool], reason: OttlaError) -> None:
        """Close the connections to some nodes; they are made again when they are needed."""
        for link in list(self._links.values()):
            if which(link.node):
                link.close(reason, forever=False)

    async def close(self, reason: OttlaError, send_timeout_s: float = SEND_TIMEOUT_S) -> None:
        """Close everything, for ever; return when the sockets are closed."""
        links = [*self._links.values(), *self._moved]
        for link in links:
            link.close(reason)
        await asyncio.gather(*(link.ended(send_timeout_s) for link in links))

    def _candidates(self, cluster: ClusterView, failed: Iterable[int]) -> list[Node]:
        """Nodes that did not fail yet: known ones, then addresses to bootstrap from."""
        tried = set(failed)
        known = [node for node in cluster.nodes.values() if node.node_id not in tried]
        if known:
            return known
        reached = {node.address for node in cluster.nodes.values()}
        return [
            node
            for node in self._bootstrap.values()
            if node.node_id not in tried and node.address not in reached
        ]

    async def _choose(self, nodes: Sequence[Node]) -> Link:
        """The link with the least load, after the shortest pause if all want to be left alone."""
        while True:
            loads = [self._load(node) for node in nodes]
            chosen = least_loaded(loads, self._context.ports.entropy.random())
            if chosen is not None:
                return self.to(next(node for node in nodes if node.node_id == chosen))
            await asyncio.sleep(min(load.delay_ms for load in loads) / 1000)

    def _load(self, node: Node) -> Load:
        link = self.known(node.node_id)
        if link is None:
            return Load(node.node_id, State.DISCONNECTED, 0, 0, -1)
        return link.load


def all_reasons(failures: Iterable[tuple[Node, OttlaError]]) -> OttlaError:
    """Every reason, once: a broker and the address to begin with are often the same place."""
    told: dict[tuple[str, int, str], OttlaError] = {}
    for node, error in failures:
        host = _THIS_MACHINE if node.host in _LOOPBACK else node.host
        told.setdefault((host, node.port, str(error).removeprefix(f"{node}: ")), error)
    if len(told) == 1:
        return next(iter(told.values()))
    return ConnectError("; ".join(map(str, told.values())))
