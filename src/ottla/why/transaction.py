"""What a transaction waits for: looks at it, at its partitions, and at the sink that it is of."""

import time
from typing import TYPE_CHECKING

from ottla.errors import NotFoundError
from ottla.model import TopicPartition
from ottla.spark.sink.decisions import Names
from ottla.why.access import Access
from ottla.why.sinks import look_at_sink
from ottla.why.suggesting import suggest
from ottla.why.transaction_waits import TransactionSight, WrittenPartition

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.transactions import TransactionInfo


def look_at_transaction(access: Access, transactional_id: str) -> TransactionSight:
    """Look at a transaction.

    Raises:
        NotFoundError: No coordinator knows the id.
    """
    admin = access.admin
    try:
        info = admin.describe_transaction(transactional_id)
    except NotFoundError as error:
        suggest(
            error,
            transactional_id,
            lambda: [listing.transactional_id for listing in admin.list_transactions()],
        )
        raise
    names = Names.of_transaction(transactional_id)
    return TransactionSight(
        info=info,
        partitions=tuple(_look_at(admin, info)),
        sink=None if names is None else look_at_sink(access, names),
        now_ms=time.time_ns() // 1_000_000,
    )


def _look_at(admin: "Admin", info: "TransactionInfo") -> list[WrittenPartition]:
    """The partitions that take part, as they stand now."""
    if not info.partitions:
        return []
    keys = info.partitions
    # The stable end is asked for first: what is written in between does not look held.
    stable = admin.list_offsets(keys, isolation_level="read_committed", missing_ok=True)
    ends = admin.list_offsets(keys, missing_ok=True)
    producers = admin.describe_producers([key for key in keys if key in ends])

    def seen(key: TopicPartition) -> WrittenPartition:
        writer = [p for p in producers.get(key, ()) if p.producer_id == info.producer_id]
        return WrittenPartition(
            key=key,
            stable_offset=stable.get(key),
            end_offset=ends.get(key),
            writer=writer[0] if writer else None,
        )

    return [seen(key) for key in keys]
