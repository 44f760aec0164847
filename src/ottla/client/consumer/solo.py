"""A consumer without a group that subscribed all the same: it reads every partition there is."""

from ottla.client.consumer.mailbox import Change
from ottla.client.consumer.membership import Goodbye, Membership
from ottla.model import TopicPartition


class Solo(Membership):
    """Follows the topics: partitions that are new are added, those that are gone are dropped."""

    async def run(self) -> None:
        while True:
            await self._until(self._has_work)
            wanted = self._wanted()
            await self._tell(Change.REVOKED, self.owned - wanted)
            if added := wanted - self.owned:
                await self._tell(Change.ASSIGNED, added)

    async def leave(self, goodbye: Goodbye, reason: str) -> None:
        """Nobody is there to be left."""

    def _has_work(self) -> bool:
        return self._subscription.is_shared and self._wanted() != self.owned

    def _wanted(self) -> frozenset[TopicPartition]:
        counts = self._counts(self.topics)
        return frozenset(TopicPartition(t, p) for t, count in counts.items() for p in range(count))
