"""Reading partitions from one offset to another, without a group.

A partition is over when the consumer's position has come to its end, not when the last record came:
what is left may be marks of transactions, and records of aborted ones, which nobody sees.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import DeadlineError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.records import Batch

POLL_S: Final = 0.1
"""How long to wait for records before looking whether there can be more."""

POLL_RECORDS: Final = 5_000


def batches_until(
    ends: Mapping[TopicPartition, int],
    consumer: "Consumer[Any, Any]",
    timeout_s: float,
    *,
    before_wait: Callable[[], object] = lambda: None,
) -> Iterator["Batch[Any, Any]"]:
    """Batches until all partitions are at their ends; the last ones may reach beyond them.

    Raises:
        DeadlineError: Nothing came for so long, although there should be more.
    """
    left = dict(ends)
    positions: dict[TopicPartition, int] = {}
    moved_s = time.monotonic()
    while left:
        before_wait()
        batch = consumer.poll(POLL_S)
        if batch:
            yield batch
        now = batch.next_offsets if batch else {key: consumer.position(key) for key in left}
        if any(positions.get(key) != at for key, at in now.items()):
            positions.update(now)
            moved_s = time.monotonic()
        elif time.monotonic() - moved_s > timeout_s:
            raise DeadlineError(
                f"{', '.join(map(str, left))}: no more records within {timeout_s:g} s"
            )
        if done := [key for key, at in now.items() if key in left and at >= left[key]]:
            consumer.pause(*done)
            for key in done:
                del left[key]
