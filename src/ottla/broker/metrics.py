"""What a broker says of itself to others: `/metrics`, `/healthz` and `/readyz`.

Everything is in memory, and becomes text when somebody asks, one family after the other, so that
clients are served in between.  What is told, and under which names, is declared in
`ottla.measures`; the numbers come from `families` and `group_families`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus

from ottla.broker import families
from ottla.broker.context import Node
from ottla.broker.group_families import GroupFamilies
from ottla.broker.http import Page, Pages
from ottla.errors import ErrorCode
from ottla.exposition import CONTENT_TYPE, Exposition


class Metrics:
    """The pages of one broker."""

    def __init__(
        self, node: Node, failed: Callable[[], bool], exposition: Exposition | None = None
    ) -> None:
        self._node = node
        self._failed = failed
        self._exposition = exposition or Exposition()
        self._recent = families.Recent(node.meters)
        self._groups = GroupFamilies(node, self._exposition)

    @property
    def pages(self) -> Pages:
        """What can be asked."""
        return {
            "/metrics": self.metrics,
            "/metrics/traffic": self.traffic,
            "/healthz": self.health,
            "/readyz": self.readiness,
        }

    async def metrics(self) -> Page:
        """All families."""
        return await self._page(self._families())

    async def traffic(self) -> Page:
        """What goes in and out, and how long it takes, without a number for every partition."""
        return await self._page(self._traffic())

    async def _page(self, told: AsyncIterator[str]) -> Page:
        parts = []
        async for part in told:
            parts.append(part)
            await asyncio.sleep(0)
        return Page(body="".join(parts), content_type=CONTENT_TYPE)

    async def health(self) -> Page:
        """Whether the broker can go on."""
        if self._failed():
            return Page(body="failed\n", status=HTTPStatus.SERVICE_UNAVAILABLE)
        return Page(body="ok\n")

    async def readiness(self) -> Page:
        """Whether every request can be answered: coordinators have read their logs, too."""
        if self._failed():
            return await self.health()
        for coordinators in self._node.coordinators:
            if isinstance(coordinators.all_loaded(), ErrorCode):
                reason = f"coordinators read {coordinators.topic}\n"
                return Page(body=reason, status=HTTPStatus.SERVICE_UNAVAILABLE)
        return Page(body="ready\n")

    async def _traffic(self) -> AsyncIterator[str]:
        node, exposition = self._node, self._exposition
        for part in families.traffic(node, exposition):
            yield part
        for part in families.requests(node, exposition, self._recent):
            yield part

    async def _families(self) -> AsyncIterator[str]:
        node, exposition = self._node, self._exposition
        async for part in self._traffic():
            yield part
        for told in (
            families.cluster(node, exposition, has_failed=self._failed()),
            families.storage(node, exposition),
            families.transactions(node, exposition),
        ):
            for part in told:
                yield part
        async for part in self._groups.all():
            yield part
        for part in exposition.left_out():
            yield part
