"""What users plug into a consumer: rebalance listeners, interceptors, a store of their own offsets.

All of them are called in the caller's thread, inside `poll`, `commit` or `close`.
"""

from collections.abc import Awaitable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ottla.client.records import Batch, Offsets
from ottla.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class RebalanceListener:
    """Hears of partitions that come and go.  Override what you need.

    With an `AsyncConsumer`, the methods may be `async def`.
    """

    def on_assigned(
        self, consumer: Any, partitions: Collection[TopicPartition]
    ) -> Awaitable[None] | None:
        """These are ours from now on; nothing was read of them yet, and seeking is possible."""

    def on_revoked(
        self, consumer: Any, partitions: Collection[TopicPartition]
    ) -> Awaitable[None] | None:
        """These are ours for the last time: commit now, if you do that yourself."""

    def on_lost(
        self, consumer: Any, partitions: Collection[TopicPartition]
    ) -> Awaitable[None] | None:
        """These are not ours any more, and may be somebody else's: forget, and do not commit."""


class ConsumerInterceptor:
    """Sees batches on their way to the program, and commits after they worked (KIP-42).

    What it raises is logged and ignored.
    """

    def on_consume(self, batch: Batch[Any, Any]) -> Batch[Any, Any]:
        """Called with what `poll` is about to return; returns what it shall return."""
        return batch

    def on_consume_arrow(self, rows: "pa.RecordBatch") -> "pa.RecordBatch":
        """Called with what `poll_arrow` is about to return; returns what it shall return.

        Who returns other rows keeps the metadata of their schema: it says what to commit.
        """
        return rows

    def on_commit(self, offsets: Offsets) -> None:
        """Called when offsets were committed."""


class OffsetStore(Protocol):
    """Where offsets live when not in Kafka: with the results, in one transaction of a database."""

    def load(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """The next offset of each partition that is known here."""
        ...
