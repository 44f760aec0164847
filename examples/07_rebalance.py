"""A rebalance listener: override only what you need."""

from collections import Counter
from collections.abc import Collection
from typing import Any

import ottla


class Cache(ottla.RebalanceListener):
    """State for each partition that is ours."""

    def __init__(self) -> None:
        self.state: dict[ottla.TopicPartition, Counter[bytes | None]] = {}

    def on_assigned(self, consumer: Any, partitions: Collection[ottla.TopicPartition]) -> None:
        self.state |= {tp: Counter() for tp in partitions}

    def on_revoked(self, consumer: Any, partitions: Collection[ottla.TopicPartition]) -> None:
        consumer.commit()  # still ours, for the last time
        for tp in partitions:
            del self.state[tp]

    def on_lost(self, consumer: Any, partitions: Collection[ottla.TopicPartition]) -> None:
        for tp in partitions:  # not ours any more: forget, never commit
            del self.state[tp]


cache = Cache()
with ottla.Consumer(
    "clicks", group_id="sessions", listener=cache, assignors=["cooperative-sticky"]
) as consumer:
    for record in consumer:
        cache.state[record.tp][record.key] += 1
