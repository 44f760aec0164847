"""The numbers of a broker, family by family: traffic, requests, cluster, storage, transactions.

Nothing in here counts; it reads what partitions, coordinators and `meters` know anyway.  The
families of groups are in `group_families`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from ottla import __version__, measures, twins
from ottla.broker.context import Node
from ottla.broker.meters import BOUNDS_S, Meters, quantile_s
from ottla.broker.partition import Partition
from ottla.errors import ErrorCode
from ottla.exposition import Exposition, Metric, Series

QUANTILES: Final = (0.5, 0.75, 0.95, 0.99, 0.999)
RECENT_S: Final = 300.0
"""Quantiles are of the requests since then, as far as somebody has asked meanwhile."""

LATE_AFTER_MS: Final = 5 * 60 * 1000
"""A transaction hangs when so long after the longest time-out its partition knows no end, as in
Kafka."""

_SNAPSHOT_INTERVAL_S: Final = 15.0

Fact = Callable[[Partition], int]


class Recent:
    """The times of requests since some minutes ago, for quantiles."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._snapshots: deque[tuple[float, dict[int, list[int]]]] = deque()

    def counts(self, now_s: float) -> dict[int, list[int]]:
        """By API key, how many fell into each bucket; remembers the state of now for later."""
        current = {key: list(t.counts) for key, t in self._meters.request_times.items()}
        while len(self._snapshots) > 1 and self._snapshots[1][0] <= now_s - RECENT_S:
            self._snapshots.popleft()
        past = self._snapshots[0][1] if self._snapshots else {}
        if not self._snapshots or now_s - self._snapshots[-1][0] >= _SNAPSHOT_INTERVAL_S:
            self._snapshots.append((now_s, current))
        return {
            key: [a - b for a, b in zip(counts, past.get(key, [0] * len(counts)), strict=True)]
            for key, counts in current.items()
        }


def traffic(node: Node, exposition: Exposition) -> Iterator[str]:
    """What goes in and out, and what is not let in, by topic."""
    facts: tuple[tuple[Metric, Fact], ...] = (
        (measures.BYTES_IN, lambda p: p.appended_bytes),
        (measures.BYTES_OUT, lambda p: p.fetched_bytes),
        (measures.MESSAGES_IN, lambda p: p.next_offset - p.opened_offset),
    )
    for metric, read in facts:
        totals: dict[str, int] = {}
        for partition in node.partitions.all():
            totals[partition.topic] = totals.get(partition.topic, 0) + read(partition)
        yield from exposition.family(metric, (((topic,), total) for topic, total in totals.items()))
    yield from exposition.family(
        measures.PRODUCE_REFUSED, sorted(node.meters.refused_counts.items())
    )


def requests(node: Node, exposition: Exposition, recent: Recent) -> Iterator[str]:
    """Who is connected, how many requests came, and how long they took."""
    meters = node.meters
    names = {key: route.api.name for key, route in node.routes.items()}
    counts = meters.request_counts
    yield from exposition.family(
        measures.REQUESTS,
        (((name,), counts[key]) for key, name in names.items() if counts[key]),
    )
    now_s = asyncio.get_running_loop().time()
    quantiles = [
        ((names[key], share), time_s * 1000)
        for key, buckets in sorted(recent.counts(now_s).items())
        for share in QUANTILES
        if (time_s := quantile_s(buckets, share)) is not None
    ]
    yield from exposition.family(measures.REQUEST_TIME_MS, quantiles)
    yield from exposition.histogram(
        measures.REQUEST_SECONDS,
        BOUNDS_S,
        [
            ((names[key],), times.counts, times.sum_s)
            for key, times in sorted(meters.request_times.items())
        ],
    )
    yield from exposition.family(measures.LOOP_LAG, [((), meters.loop_lag_s)])
    yield from exposition.family(measures.CONNECTIONS, [((), meters.connection_count)])


def cluster(node: Node, exposition: Exposition, *, has_failed: bool) -> Iterator[str]:
    """Who is there, and whether all of it works."""
    image, node_id = node.controller.image, node.config.node_id
    codecs = sorted({choice.partition(" ")[0] for choice in twins.CHOSEN.values()})
    yield from exposition.family(measures.BUILD_INFO, [((__version__, "+".join(codecs)), 1)])
    yield from exposition.family(measures.FAILED, [((), int(has_failed))])
    yield from exposition.family(measures.BROKERS, [((), len(image.brokers))])
    yield from exposition.family(
        measures.TOPIC_PARTITIONS,
        (((name,), len(topic.partitions)) for name, topic in image.topics.items()),
    )
    partitions = [partition for topic in image.topics.values() for partition in topic.partitions]
    for metric, count in (
        (measures.PARTITIONS, sum(node_id in p.replicas for p in partitions)),
        (measures.LEADERS, sum(p.leader == node_id for p in partitions)),
        (measures.UNDER_REPLICATED, sum(len(p.isr) < len(p.replicas) for p in partitions)),
        (measures.OFFLINE_PARTITIONS, node.partitions.offline_count),
        (measures.ACTIVE_CONTROLLER, int(image.controller_id == node_id)),
    ):
        yield from exposition.family(metric, [((), count)])


def storage(node: Node, exposition: Exposition) -> Iterator[str]:
    """What lies on disk, and how fast that is."""
    facts: tuple[tuple[Metric, Fact], ...] = (
        (measures.LOG_SIZE, lambda p: p.log.size_bytes),
        (measures.CURRENT_OFFSET, lambda p: p.next_offset),
        (measures.OLDEST_OFFSET, lambda p: p.log.start_offset),
        (measures.STABLE_OFFSET_LAG, lambda p: p.high_watermark - p.last_stable_offset),
    )
    for metric, read in facts:
        yield from exposition.family(metric, _by_partition(node.partitions.all(), read))
    yield from exposition.family(measures.DISK_FREE, [((), node.ports.disk.free_bytes())])
    times = node.meters.sync_times
    buckets = [((), times.counts, times.sum_s)]
    yield from exposition.histogram(measures.FSYNC_SECONDS, BOUNDS_S, buckets)


def transactions(node: Node, exposition: Exposition) -> Iterator[str]:
    """Which are open, how they end, and where one hangs."""
    now_ms, meters = node.ports.clock.now_ms(), node.meters
    shards = node.transactions.all_loaded()
    if not isinstance(shards, ErrorCode):
        known = [found for shard in shards for found in shard.machine.hard_state().values()]
        begun = [transaction.started_ms for transaction in known if not transaction.is_at_rest]
        age_s = max(0, now_ms - min(begun)) / 1000 if begun else 0
        yield from exposition.family(measures.TRANSACTIONS_OPEN, [((), len(begun))])
        yield from exposition.family(measures.TRANSACTION_OLDEST, [((), age_s)])
    for metric, count in (
        (measures.TRANSACTIONS_COMMITTED, meters.committed_count),
        (measures.TRANSACTIONS_ABORTED, meters.aborted_count),
        (measures.PRODUCERS_FENCED, meters.fenced_count),
    ):
        yield from exposition.family(metric, [((), count)])
    late_before_ms = now_ms - node.config.transactions.max_timeout_ms - LATE_AFTER_MS
    late_count = sum(_has_late(partition, late_before_ms) for partition in node.partitions.all())
    yield from exposition.family(measures.LATE_TRANSACTIONS, [((), late_count)])


def _has_late(partition: Partition, late_before_ms: int) -> bool:
    producers = partition.producers
    if producers.first_undecided_offset is None:
        return False  # as nearly always: nobody is looked at
    # By our own clock, as far as housekeeping has looked: timestamps of records may be years old.
    return any(
        producer.open_since_offset is not None
        and producer.seen_ms is not None
        and producer.seen_ms < late_before_ms
        for producer in producers
    )


def _by_partition(partitions: list[Partition], read: Fact) -> Series:
    return (((p.topic, p.index), read(p)) for p in partitions)
