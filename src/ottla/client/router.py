"""From a target to a connection: who is meant, where it is, which link leads there.

Whoever is not known is looked for once, however many ask.  An answer that says that we asked the
wrong one goes to `hear`, and is looked for again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ottla.client.cluster_view import Node
from ottla.client.connection import Connection
from ottla.client.coordinators import Coordinated, CoordinatorKind, Coordinators
from ottla.client.links import MAIN, Links
from ottla.client.metadata import Metadata
from ottla.client.targets import LeaderOf, Somebody, Target
from ottla.errors import (
    ConnectError,
    ErrorCode,
    OttlaError,
    RefreshError,
    TransportError,
    exception_for,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

GROUP_LANE: Final = "group"
"""Heartbeats must not wait behind a fetch."""

Find = Callable[[FindCoordinatorRequest], Awaitable[FindCoordinatorResponse]]


class Router:
    """Made in the loop that uses it."""

    def __init__(
        self,
        links: Links,
        metadata: Metadata,
        coordinators: Coordinators,
        *,
        find: Find,
        wake_metadata: Callable[[], None],
    ) -> None:
        self.links = links
        self._metadata = metadata
        self._coordinators = coordinators
        self._find = find
        self._wake_metadata = wake_metadata
        self._finding: dict[Coordinated, asyncio.Task[Node | OttlaError]] = {}
        self._found: dict[int, Node] = {}
        """Nodes that coordinate something; metadata may not have heard of them."""

    def node(self, node_id: int) -> Node | None:
        """Where a node is; None if nobody told."""
        return self._metadata.cluster.nodes.get(node_id) or self._found.get(node_id)

    async def connection(self, to: Target, lane: str | None = None) -> Connection:
        """A ready connection to whoever is meant; see `Engine.ask` for what it raises."""
        match to:
            case int():
                node = self._known(to)
            case Somebody.ANY:
                return await self.links.any(self._metadata.cluster)
            case Somebody.CONTROLLER:
                controller_id = self._metadata.cluster.controller_id
                if controller_id is None or self.node(controller_id) is None:
                    # Every broker passes on what is for the controller.
                    return await self.links.any(self._metadata.cluster)
                node = self._known(controller_id)
            case LeaderOf(tp):
                leader = self._metadata.cluster.leader(tp)
                if leader is None:
                    self._refresh()
                    raise exception_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{tp} has no leader")
                node = self._known(leader.node_id)
            case Coordinated():
                node = await self.coordinator(to)
                if lane is None and to.kind is CoordinatorKind.GROUP:
                    lane = GROUP_LANE
        return await self.links.to(node, lane or MAIN).opened()

    async def coordinator(self, of: Coordinated) -> Node:
        """Find a coordinator, once; raises what the broker answered."""
        if (known := self._coordinators.node(of)) is not None:
            return known
        task = self._finding.get(of)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._look_for(of), name=f"find {of}")
            self._finding[of] = task
            task.add_done_callback(lambda _: self._finding.pop(of, None))
        found = await asyncio.shield(task)
        if isinstance(found, OttlaError):
            raise found.with_traceback(None)
        return found

    def hear(self, error: OttlaError, to: Target) -> None:
        """An answer, or none, says that what we know may be wrong: find it out anew."""
        is_lost = isinstance(error, TransportError)
        if isinstance(to, Coordinated):
            self._coordinators.hears(to, getattr(error, "code", ErrorCode.NONE))
            if is_lost:
                self._coordinators.forget(to)
        elif is_lost or isinstance(error, RefreshError):
            self._refresh()

    def node_lost(self, node_id: int) -> None:
        """The connection to a node broke: what it led or coordinated may have moved."""
        self._coordinators.node_lost(node_id)
        self._refresh()

    def close(self) -> None:
        for task in self._finding.values():
            task.cancel()

    def _known(self, node_id: int) -> Node:
        node = self.node(node_id)
        if node is None:
            self._refresh()
            raise ConnectError(f"broker {node_id} is not in the cluster's metadata")
        return node

    def _refresh(self) -> None:
        self._metadata.refresh()
        self._wake_metadata()

    async def _look_for(self, of: Coordinated) -> Node | OttlaError:
        try:
            answer = await self._find(self._coordinators.question(of))
        except OttlaError as error:
            return error
        found = self._coordinators.update(of, answer)
        if isinstance(found, Node):
            self._found[found.node_id] = found
        return found
