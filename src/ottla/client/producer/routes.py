"""The way from a topic to the lines of its partitions.

Pure, and replaced as a whole when metadata changes: whoever has a `Route` of the newest
`ClusterView` finds the line of a record without asking anybody.  Call it with the producer's lock.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ottla.client.cluster_view import ClusterView, TopicView
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.lines import Accumulator, Line
from ottla.client.producer.partitioners import RoundRobin, Sticky, key_hash_of
from ottla.errors import ErrorCode, MisuseError, UnknownTopicError
from ottla.model import TopicPartition


class Route:
    """How records of one topic find their partition."""

    __slots__ = (
        "_choose",
        "_round_robin",
        "available",
        "cluster",
        "hashes_empty_keys",
        "key_hash",
        "lines",
        "partition_count",
        "sticky",
        "topic",
    )

    def __init__(self, topic: str, cluster: ClusterView) -> None:
        self.topic = topic
        self.cluster: ClusterView | None = cluster
        self.lines: Sequence[Line] = ()
        """Of all partitions, by their number."""
        self.partition_count = 0
        self.available: Sequence[Line] = ()
        """Of those that have a leader; of all, if none has."""
        self.key_hash: Callable[[bytes], int] | None = None
        self.hashes_empty_keys = True
        """Java does; librdkafka takes an empty key for none."""
        self.sticky: Sticky | None = None
        """None where a function of the user's, or the turn, decides."""
        self._round_robin: RoundRobin | None = None
        self._choose: Callable[..., Any] | None = None

    def line_for(self, key: bytes | None, value: bytes | None, size_bytes: int) -> Line:
        """Where a record without a partition of its own goes."""
        if self.sticky is not None:
            if key is None or self.key_hash is None or not (key or self.hashes_empty_keys):
                return self.sticky.line_for(size_bytes)
            return self.lines[self.key_hash(key) % self.partition_count]
        if self._round_robin is not None:
            return self._round_robin.line_of(self.available)
        assert self._choose is not None
        # Functions of users are called without the lock, and lines may be laid anew meanwhile.
        lines = self.lines
        chosen = self._choose(self.topic, key, value, range(len(lines)))
        if not isinstance(chosen, int) or not 0 <= chosen < len(lines):
            raise MisuseError(
                f"the partitioner chose {chosen!r}; {self.topic!r} has {len(lines)} partitions"
            )
        return lines[chosen]

    def line_at(self, partition: int) -> Line:
        """The line of a partition that the caller chose."""
        lines = self.lines  # without the lock, as above
        if not 0 <= partition < len(lines):
            raise UnknownTopicError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {self.topic!r} has {len(lines)} partitions, no number {partition}",
            )
        return lines[partition]


class Routes:
    """A route for each topic that was sent to."""

    def __init__(
        self,
        config: ProducerConfig,
        lines: Accumulator,
        luck: Callable[[], float],
        now_ms: Callable[[], float],
    ) -> None:
        self._config = config
        self._lines = lines
        self._luck = luck
        self._now_ms = now_ms
        self._known: dict[str, Route] = {}
        self._round_robin: dict[str, RoundRobin] = {}

    def route(self, topic: str, cluster: ClusterView) -> Route | None:
        """The route of a topic in the newest metadata, or None if that does not know it."""
        view = cluster.topics.get(topic)
        if view is None or not view.partitions:
            return None
        route = self._known.get(topic)
        if route is None:
            route = self._known[topic] = Route(topic, cluster)
        if route.cluster is not cluster or not route.lines:
            self._lay(route, view, cluster)
        return route

    def _lay(self, route: Route, view: TopicView, cluster: ClusterView) -> None:
        config = self._config
        lines = [self._lines.line(TopicPartition(view.name, p.partition)) for p in view.partitions]
        route.lines, route.partition_count = lines, len(lines)
        route.available = [lines[p] for p in view.available] or lines
        route.cluster = cluster
        if callable(config.partitioner):
            route._choose = config.partitioner
        elif config.partitioner == "round_robin":
            route._round_robin = self._round_robin.setdefault(route.topic, RoundRobin())
        else:
            route.hashes_empty_keys = config.partitioner != "consistent_random"
            route.key_hash = key_hash_of(
                config.partitioner, ignores_keys=config.partitioner_ignore_keys
            )
            self._lay_sticky(route, view, cluster)

    def _lay_sticky(self, route: Route, view: TopicView, cluster: ClusterView) -> None:
        config = self._config
        near = route.available
        if config.partitioner_rack_aware and config.client_rack:
            racks: dict[int | None, str | None] = {
                n.node_id: n.rack for n in cluster.nodes.values()
            }
            near = [
                line
                for line in near
                if racks.get(view.partitions[line.partition].leader_id) == config.client_rack
            ] or near
        if route.sticky is None:
            route.sticky = Sticky(
                near,
                self._luck,
                adapts=config.partitioner_adaptive_partitioning_enable,
                is_stuck=self._is_stuck if config.partitioner_availability_timeout_ms else None,
            )
        else:
            route.sticky.moved(near)

    def _is_stuck(self, line: Line) -> bool:
        """Whether nobody took what waits in a line for too long."""
        config = self._config
        patience_ms = config.linger_ms + config.partitioner_availability_timeout_ms
        return bool(line.queue) and self._now_ms() - line.queue[0].created_ms > patience_ms
