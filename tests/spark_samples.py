"""A log without a broker, as the driver of a Spark source sees it."""

from collections.abc import Callable, Collection, Mapping

from ottla.errors import ErrorCode, OttlaError, exception_for
from ottla.model import TopicPartition
from ottla.spark.options import SourceOptions
from ottla.spark.source.lookup import NOT_THERE, Found, Topics
from ottla.spark.source.tracking import Tracker

BASE = {"kafka.bootstrap.servers": "nowhere:9092", "subscribe": "orders"}


def options(**more: str) -> SourceOptions:
    """Options of a source of `orders`; two underscores stand for a dot."""
    given = {name.replace("__", "."): value for name, value in more.items()}
    if "subscribePattern" in given or "assign" in given:
        return SourceOptions.of({"kafka.bootstrap.servers": "nowhere:9092", **given})
    return SourceOptions.of({**BASE, **given})


def orders(partition: int) -> TopicPartition:
    return TopicPartition("orders", partition)


class FakeLog:
    """Topics with numbers in place of records; offset `n` has timestamp `n` unless told."""

    def __init__(self, **ends: int | list[int]) -> None:
        """Topic -> the end of its only partition, or of each."""
        self.cluster = "cluster-1"
        self.ids: dict[str, str] = {}
        self.starts: Found = {}
        self.ends: Found = {}
        self.stable: Found = {}
        self.groups: dict[str, Found] = {}
        self.waits: list[int] = []
        self.waited_at: Mapping[TopicPartition, int] = {}
        self.on_wait: Callable[[], object] = list
        self.bytes_of_offset = 1.0
        self.commit_error: OttlaError | None = None
        for topic, counts in ends.items():
            self.create(topic, *([counts] if isinstance(counts, int) else counts))

    def create(self, topic: str, *ends: int) -> None:
        self.ids[topic] = f"id-{topic}-{len(self.ids)}"
        for number, end in enumerate(ends):
            self.starts[TopicPartition(topic, number)] = 0
            self.ends[TopicPartition(topic, number)] = end

    def delete(self, topic: str) -> None:
        del self.ids[topic]
        for tp in [tp for tp in self.ends if tp.topic == topic]:
            del self.ends[tp], self.starts[tp]

    def make_anew(self, topic: str, *ends: int) -> None:
        self.delete(topic)
        self.create(topic, *ends)
        self.ids[topic] += "-again"

    def topics(self) -> Topics:
        return Topics(self.cluster, dict(self.ids), tuple(sorted(self.ends)))

    def settled_topics(self) -> Topics:
        return self.topics()

    def earliest(self, partitions: Collection[TopicPartition]) -> Found:
        return self._of(self.starts, partitions)

    def latest(self, partitions: Collection[TopicPartition]) -> Found:
        return self._of(self.ends | self.stable, partitions)

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Found:
        return self._of(self.ends, partitions)

    def offsets(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> Found:
        return {
            tp: max(self.starts[tp], timestamp_ms) if timestamp_ms < self.ends[tp] else NOT_THERE
            for tp in partitions
        }

    def committed(self, group: str, partitions: Collection[TopicPartition]) -> Found:
        known = self.groups.get(group, {})
        return {tp: known[tp] for tp in partitions if tp in known}

    def commit(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        if self.commit_error is not None:
            raise self.commit_error
        self.groups.setdefault(group, {}).update(positions)

    def offset_bytes(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        return dict.fromkeys(positions, self.bytes_of_offset)

    def wait_for_records(self, positions: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        self.waits.append(timeout_ms)
        self.waited_at = dict(positions)
        self.on_wait()

    def _of(self, values: Found, partitions: Collection[TopicPartition]) -> Found:
        for tp in partitions:
            if tp not in values:
                raise exception_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(tp))
        return {tp: values[tp] for tp in partitions}


class Clock:
    """Time stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def tracker(log: FakeLog, clock: Clock | None = None, /, **more: str) -> Tracker:
    """A driver that has just started."""
    return Tracker(options(**more), log, clock or Clock())
