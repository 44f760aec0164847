"""What `/metrics` of a broker says: traffic, latency, storage, transactions, groups and their lag.

The names are those that dashboards for Kafka use; what Kafka does not have begins with `ottla_`.
Everything is in memory, and becomes text when somebody asks, one family after the other, so that
clients are served in between.  Labels are bounded: of each family no more than so many numbers.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from itertools import islice
from typing import Final

from ottla.broker.context import Node
from ottla.broker.http import Page, Pages
from ottla.broker.meters import BOUNDS_S, Meters, quantile_s
from ottla.broker.partition import Partition
from ottla.coordinator.group.telling import GroupSummary
from ottla.errors import ErrorCode
from ottla.exposition import CONTENT_TYPE, Labels, Series, family, histogram

MAX_SERIES: Final = 10_000
"""So many numbers one family has at the most."""

QUANTILES: Final = (0.5, 0.75, 0.95, 0.99, 0.999)
RECENT_S: Final = 300.0
"""Quantiles are of the requests since then, as far as somebody has asked meanwhile."""

_SNAPSHOT_INTERVAL_S: Final = 15.0

Fact = Callable[[Partition], int]


class Metrics:
    """The pages of one broker."""

    def __init__(self, node: Node, failed: Callable[[], bool]) -> None:
        self._node = node
        self._failed = failed
        self._recent = Recent(node.meters)

    @property
    def pages(self) -> Pages:
        """What can be asked."""
        return {"/metrics": self.metrics, "/healthz": self.health, "/readyz": self.readiness}

    async def metrics(self) -> Page:
        """All families."""
        parts = []
        for part in self._families():
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
        for coordinators in (self._node.groups, self._node.transactions):
            if isinstance(coordinators.all_loaded(), ErrorCode):
                reason = f"coordinators read {coordinators.topic}\n"
                return Page(body=reason, status=HTTPStatus.SERVICE_UNAVAILABLE)
        return Page(body="ready\n")

    def _families(self) -> Iterator[str]:
        yield from _traffic(self._node.partitions.all())
        yield from _requests(self._node, self._recent)
        yield from _storage(self._node)
        yield from _transactions(self._node)
        yield from _groups(self._node)


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


def _traffic(partitions: list[Partition]) -> Iterator[str]:
    facts: tuple[tuple[str, str, Fact], ...] = (
        ("bytesin", "Bytes that were written", lambda p: p.appended_bytes),
        ("bytesout", "Bytes that were fetched", lambda p: p.fetched_bytes),
        ("messagesin", "Records that were written", lambda p: p.next_offset - p.opened_offset),
    )
    for name, text, read in facts:
        totals: dict[str, int] = {}
        for partition in partitions:
            totals[partition.topic] = totals.get(partition.topic, 0) + read(partition)
        full_name = f"kafka_server_brokertopicmetrics_{name}_total"
        series: Series = (({"topic": topic}, total) for topic, total in totals.items())
        yield _counter(full_name, f"{text} since the start, by topic", series)


def _requests(node: Node, recent: Recent) -> Iterator[str]:
    meters = node.meters
    names = {key: route.api.name for key, route in node.routes.items()}
    counts = meters.request_counts
    yield _counter(
        "kafka_network_requestmetrics_requests_total",
        "Requests since the start",
        (({"request": name}, counts[key]) for key, name in names.items() if counts[key]),
    )
    quantiles = [
        ({"request": names[key], "quantile": share}, time_s * 1000)
        for key, buckets in sorted(recent.counts(asyncio.get_running_loop().time()).items())
        for share in QUANTILES
        if (time_s := quantile_s(buckets, share)) is not None
    ]
    yield _gauge(
        "kafka_network_requestmetrics_totaltimems",
        "How long requests took in the last minutes, in milliseconds, by samples",
        quantiles,
    )
    yield histogram(
        "ottla_request_seconds",
        "How long requests took from their arrival to their answer, by samples",
        BOUNDS_S,
        [
            ({"request": names[key]}, times.counts, times.sum_s)
            for key, times in sorted(meters.request_times.items())
        ],
    )
    yield _gauge(
        "ottla_loop_lag_seconds",
        "How late the event loop was at the worst, of the last seconds",
        [({}, meters.loop_lag_s)],
    )


def _storage(node: Node) -> Iterator[str]:
    partitions = node.partitions.all()
    facts: tuple[tuple[str, str, Fact], ...] = (
        ("log_log_size", "Bytes of a partition on disk", _log_bytes),
        ("topic_partition_current_offset", "Where the next record goes", lambda p: p.next_offset),
        ("topic_partition_oldest_offset", "The first record", lambda p: p.log.start_offset),
    )
    for name, text, read in facts:
        series = (({"topic": p.topic, "partition": p.index}, read(p)) for p in partitions)
        yield _gauge(f"kafka_{name}", text, series)
    yield _gauge(
        "ottla_disk_free_bytes",
        "What is left in the file system of the data directory",
        [({}, node.ports.disk.free_bytes())],
    )
    times = node.meters.sync_times
    yield histogram(
        "ottla_fsync_seconds",
        "How long it took to make records durable",
        BOUNDS_S,
        [({}, times.counts, times.sum_s)],
    )


def _transactions(node: Node) -> Iterator[str]:
    shards = node.transactions.all_loaded()
    if isinstance(shards, ErrorCode):
        return
    known = [transaction for shard in shards for transaction in shard.machine.hard_state().values()]
    begun = [transaction.started_ms for transaction in known if not transaction.is_at_rest]
    now_ms = node.ports.clock.now_ms()
    age_s = max(0, now_ms - min(begun)) / 1000 if begun else 0
    yield _gauge("ottla_transactions_open", "Transactions that have not ended", [({}, len(begun))])
    yield _gauge("ottla_transaction_oldest_seconds", "Age of the oldest of them", [({}, age_s)])


def _groups(node: Node) -> Iterator[str]:
    shards = node.groups.all_loaded()
    if isinstance(shards, ErrorCode):
        return
    groups = [group for shard in shards for group in shard.machine.summaries()]
    yield _gauge(
        "kafka_consumergroup_members",
        "Members of a group",
        [({"consumergroup": group.group_id}, group.member_count) for group in groups],
    )
    committed = list(islice(_committed(groups), MAX_SERIES))
    yield _gauge("kafka_consumergroup_current_offset", "What a group has committed", committed)
    lags = [
        (labels, max(0, found.high_watermark - offset))
        for labels, offset in committed
        if isinstance(found := _partition_of(node, labels), Partition)
    ]
    yield _gauge("kafka_consumergroup_lag", "Records that a group has not committed", lags)
    sums: dict[tuple[object, object], float] = {}
    for labels, lag in lags:
        key = (labels["consumergroup"], labels["topic"])
        sums[key] = sums.get(key, 0) + lag
    yield _gauge(
        "kafka_consumergroup_lag_sum",
        "Records of a topic that a group has not committed",
        [({"consumergroup": group, "topic": topic}, lag) for (group, topic), lag in sums.items()],
    )


def _committed(groups: Iterable[GroupSummary]) -> Iterator[tuple[Labels, int]]:
    for group in groups:
        for (topic, partition), offset in group.offsets:
            yield {"consumergroup": group.group_id, "topic": topic, "partition": partition}, offset


def _partition_of(node: Node, labels: Labels) -> Partition | ErrorCode:
    topic, partition = labels["topic"], labels["partition"]
    assert isinstance(topic, str)
    assert isinstance(partition, int)
    return node.partitions.find(topic, partition)


def _log_bytes(partition: Partition) -> int:
    return sum(segment.size_bytes for segment in partition.log.segments)


def _gauge(name: str, text: str, series: Series) -> str:
    return family(name, text, islice(series, MAX_SERIES))


def _counter(name: str, text: str, series: Series) -> str:
    return family(name, text, islice(series, MAX_SERIES), kind="counter")
