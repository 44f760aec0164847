"""A partitioner is a function."""

from collections.abc import Sequence

import ottla


def by_region(topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int]) -> int:
    if key is not None and key.startswith(b"eu-"):
        return partitions[0]
    return partitions[ottla.murmur2(key or b"") % len(partitions)]


with ottla.Producer(partitioner=by_region) as producer:
    producer.send("orders", b"...", key=b"eu-17")
