"""Transactions as partitions know them, and whose they are.

A partition knows a producer and where its transaction began; a coordinator knows whose it is and
where else it wrote.  What only a partition knows of, nobody will ever end.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.errors import NotFoundError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.transactions import HangingTransaction, TransactionInfo


def open_transactions(
    admin: "Admin", partitions: Collection[TopicPartition]
) -> "list[HangingTransaction]":
    """What is open in partitions, the one that holds most at first; it may hang or not."""
    from ottla.client.admin.transactions import HangingTransaction

    found = [
        HangingTransaction(tp=tp, producer=producer)
        for tp, producers in admin.describe_producers(partitions).items()
        for producer in producers
        if producer.transaction_start_offset is not None
    ]
    return sorted(found, key=lambda it: (it.tp, it.producer.transaction_start_offset or 0))


def owner_of(admin: "Admin", opened: "HangingTransaction") -> "TransactionInfo | None":
    """The transaction that is open in a partition; None if nobody will ever end it."""
    for listing in admin.list_transactions(producer_ids=(opened.producer.producer_id,)):
        try:
            info = admin.describe_transaction(listing.transactional_id)
        except NotFoundError:
            continue  # it was forgotten meanwhile
        is_same = info.producer_epoch >= opened.producer.producer_epoch
        if is_same and opened.tp in info.partitions:
            return info
    return None
