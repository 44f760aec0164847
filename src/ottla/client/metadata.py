"""When to ask for metadata, what to ask for, and what to believe of the answers.

Pure.  `cluster` is what is known now; see `ClusterView` for reading it from other threads.  What
decides is here, in three rules:

- Ask when something is new, wrong or old, but after an answer that brought nothing new, or none at
  all, wait longer each time.
- Of two leaders of a partition, believe in the one with the newer epoch, whoever told of it last
  (KIP-320); a topic that was created anew begins again.
- A topic that was asked about stays known until it is not wanted any more: `want_only` says so, or
  `idle_ms` after its last use, where that is set.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.client.backoff import Backoff
from ottla.client.cluster_view import (
    NO_EPOCH,
    ClusterView,
    Leader,
    Node,
    PartitionView,
    TopicView,
    partition_view,
)
from ottla.errors import REACTIONS, ErrorCode, RefreshError
from ottla.model import TopicPartition
from ottla.values import dataclass
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ottla.wire.schema import NO_UUID

MIN_VERSION: Final = 4
"""The first that can ask without creating topics, and the oldest that we send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataPolicy:
    """How old metadata may get, and how often to ask."""

    max_age_ms: int
    backoff: Backoff
    idle_ms: int | None = None
    """How long a topic is wanted after its last use; None: until somebody says otherwise."""
    creates_topics: bool = False
    """Whether asking about a topic may create it, where the broker does so."""
    rebootstrap_after_ms: int | None = None
    """How long asking may fail before everything known is forgotten; None: for ever."""


class Question(NamedTuple):
    """A request, and what its answer will be an answer to."""

    request: MetadataRequest
    is_partial: bool
    number: int


class Metadata:
    """What is known, what is wanted, and when to ask next."""

    def __init__(self, policy: MetadataPolicy) -> None:
        self._policy = policy
        self.cluster = ClusterView()
        self._used_ms: dict[str, int] = {}
        """Wanted topics -> their last use."""
        self._wants_all = False
        self._new_topics: dict[str, None] = {}
        self._is_refresh_asked = True
        self._number = 0
        self._succeeded_ms: int | None = None
        self._failing_since_ms: int | None = None
        self._failure_count = 0
        self._stale_count = 0
        """Answers in a row that brought nothing new."""
        self._not_before_ms = 0
        self._epochs: dict[TopicPartition, int] = {}

    # What is wanted.

    @property
    def wanted(self) -> frozenset[str]:
        return frozenset(self._used_ms)

    def want(self, topics: Iterable[str], now_ms: int) -> None:
        """Keep these topics known, from now on; what is unknown is asked for at once."""
        for topic in topics:
            if topic not in self._used_ms or topic in self.cluster.errors:
                self._want_new(topic, now_ms)
            self._used_ms[topic] = now_ms

    def want_only(self, topics: Iterable[str], now_ms: int) -> None:
        """Keep these topics known and no others."""
        chosen = dict.fromkeys(topics)
        for topic in [name for name in self._used_ms if name not in chosen]:
            del self._used_ms[topic]
            self._new_topics.pop(topic, None)
        self.want(chosen, now_ms)

    def want_all(self, wants_all: bool, now_ms: int) -> None:
        """Ask about every topic of the cluster, or not any more."""
        if wants_all and not self._wants_all:
            self._not_before_ms = min(self._not_before_ms, now_ms)
            self._is_refresh_asked = True
            self._number += 1
        self._wants_all = wants_all

    def touch(self, topic: str, now_ms: int) -> None:
        """A wanted topic was used.  Safe from any thread."""
        if topic in self._used_ms:
            self._used_ms[topic] = now_ms

    def refresh(self, *, is_new: bool = False) -> None:
        """Ask again soon: an answer of some broker contradicted what is known.

        With `is_new` the pauses between answers that brought nothing new begin again.
        """
        self._is_refresh_asked = True
        if is_new:
            self._stale_count = 0

    def saw_epoch(self, tp: TopicPartition, epoch: int) -> None:
        """Some answer spoke of a leader's epoch; if it is newer than ours, ask about the leader."""
        known = self._epochs.get(tp)
        if known is not None and epoch > known:
            self._epochs[tp] = epoch
            self.refresh()

    # When and what to ask.

    def due_ms(self, now_ms: int) -> int:
        """When to ask next."""
        if self._is_refresh_asked or self._new_topics or self._succeeded_ms is None:
            return max(self._not_before_ms, now_ms)
        return max(self._not_before_ms, self._succeeded_ms + self._policy.max_age_ms)

    def question(self, now_ms: int) -> Question:
        """What to ask now: about everything wanted, or only about what is new."""
        is_old = (
            self._succeeded_ms is None or self._succeeded_ms + self._policy.max_age_ms <= now_ms
        )
        is_partial = bool(self._new_topics) and not self._is_refresh_asked and not is_old
        names: Iterable[str] = self._new_topics if is_partial else self._used_ms
        asked = None
        if is_partial or not self._wants_all:
            asked = tuple(MetadataRequestTopic(name=name) for name in sorted(names))
        request = MetadataRequest(
            topics=asked, allow_auto_topic_creation=self._policy.creates_topics
        )
        return Question(request, is_partial, self._number)

    def needs_bootstrap(self, now_ms: int) -> bool:
        """Whether asking failed for so long that the known brokers are given up."""
        limit_ms = self._policy.rebootstrap_after_ms
        return (
            limit_ms is not None
            and self.cluster.is_known
            and self._failing_since_ms is not None
            and now_ms - self._failing_since_ms >= limit_ms
        )

    def forget_brokers(self) -> None:
        """Begin again with the addresses to bootstrap from; topics stay known until then."""
        self.cluster = replace(self.cluster, nodes=MappingProxyType({}), controller_id=None)
        self._is_refresh_asked = True
        self._failing_since_ms = None

    # What came of it.

    def failed(self, now_ms: int, luck: float) -> None:
        """No answer came."""
        self._failure_count += 1
        if self._failing_since_ms is None:
            self._failing_since_ms = now_ms
        self._pause(now_ms, self._failure_count, luck)

    def update(
        self, asked: Question, answer: MetadataResponse, now_ms: int, luck: float
    ) -> ClusterView:
        """Take in an answer that names at least one broker."""
        assert answer.brokers, "an answer without brokers is a failure"
        before = self.cluster
        if asked.number == self._number:
            self._new_topics.clear()
        if not asked.is_partial:
            self._is_refresh_asked = asked.number != self._number
            self._succeeded_ms = now_ms
        self._failure_count, self._failing_since_ms = 0, None
        self._expire(now_ms)
        self.cluster = self._merged(answer, is_partial=asked.is_partial)
        self._stale_count = self._stale_count + 1 if _says_the_same(before, self.cluster) else 0
        self._pause(now_ms, max(1, self._stale_count), luck)
        if self._new_topics:
            self._not_before_ms = now_ms
        return self.cluster

    def update_leaders(
        self, leaders: Mapping[TopicPartition, Leader], nodes: Iterable[Node]
    ) -> frozenset[TopicPartition]:
        """Take in newer leaders that came with a refusal (KIP-951); returns which were new."""
        known_nodes = {**self.cluster.nodes, **{node.node_id: node for node in nodes}}
        topics = dict(self.cluster.topics)
        changed = set()
        for tp, leader in leaders.items():
            current = self.cluster.partition(tp)
            if current is None or leader.node_id not in known_nodes:
                continue
            if leader.epoch <= max(current.leader_epoch, self._epochs.get(tp, NO_EPOCH)):
                continue
            self._epochs[tp] = leader.epoch
            partition = current._replace(leader_id=leader.node_id, leader_epoch=leader.epoch)
            topics[tp.topic] = _with_partition(topics[tp.topic], partition)
            changed.add(tp)
        if changed:
            self.cluster = replace(
                self.cluster,
                version=self.cluster.version + 1,
                nodes=MappingProxyType(known_nodes),
                topics=MappingProxyType(topics),
            )
        return frozenset(changed)

    def _want_new(self, topic: str, now_ms: int) -> None:
        self._new_topics[topic] = None
        self._number += 1
        self._stale_count = 0
        if topic not in self._used_ms:
            self._not_before_ms = min(self._not_before_ms, now_ms)

    def _pause(self, now_ms: int, failure_count: int, luck: float) -> None:
        self._not_before_ms = now_ms + self._policy.backoff.delay_ms(failure_count, luck)

    def _expire(self, now_ms: int) -> None:
        if self._policy.idle_ms is None:
            return
        for topic, used_ms in list(self._used_ms.items()):
            if used_ms + self._policy.idle_ms <= now_ms:
                del self._used_ms[topic]
                self._new_topics.pop(topic, None)

    def _merged(self, answer: MetadataResponse, *, is_partial: bool) -> ClusterView:
        told = {topic.name for topic in answer.topics}
        topics: dict[str, TopicView] = {}
        errors: dict[str, ErrorCode] = {}
        if is_partial:
            topics = {n: t for n, t in self.cluster.topics.items() if self._keeps(n, told)}
            errors = {n: e for n, e in self.cluster.errors.items() if self._keeps(n, told)}
        for topic in answer.topics:
            if topic.name is None or not (self._wants_all or topic.name in self._used_ms):
                continue
            if topic.error_code == ErrorCode.NONE:
                topics[topic.name] = self._taken(topic)
            else:
                errors[topic.name] = ErrorCode.of(topic.error_code)
                self._refresh_after(errors[topic.name])
        self._epochs = {tp: e for tp, e in self._epochs.items() if tp.topic in topics}
        return ClusterView(
            version=self.cluster.version + 1,
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id if answer.controller_id >= 0 else None,
            nodes=MappingProxyType(
                {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in answer.brokers}
            ),
            topics=MappingProxyType(topics),
            errors=MappingProxyType(errors),
            names=MappingProxyType({t.topic_id: t.name for t in topics.values() if t.has_id}),
        )

    def _keeps(self, name: str, told: set[str | None]) -> bool:
        return name not in told and (self._wants_all or name in self._used_ms)

    def _taken(self, topic: MetadataResponseTopic) -> TopicView:
        assert topic.name is not None
        old = self.cluster.topics.get(topic.name)
        is_another = old is None or (topic.topic_id != NO_UUID and topic.topic_id != old.topic_id)
        partitions = []
        for told in topic.partitions:
            tp = TopicPartition(topic.name, told.partition_index)
            partitions.append(self._newer(tp, partition_view(told), is_another=is_another))
            self._refresh_after(ErrorCode.of(told.error_code))
        return TopicView.of(topic, partitions)

    def _newer(self, tp: TopicPartition, told: PartitionView, *, is_another: bool) -> PartitionView:
        """What to believe of a partition: `told`, or what we knew, if that is newer."""
        known = self._epochs.get(tp)
        if told.leader_epoch == NO_EPOCH:
            self._epochs.pop(tp, None)
        elif is_another or known is None or told.leader_epoch >= known:
            self._epochs[tp] = told.leader_epoch
        else:
            current = self.cluster.partition(tp)
            # We heard of an epoch, but never of its leader: better no leader than the old one.
            return current if current is not None else told._replace(leader_id=None)
        return told

    def _refresh_after(self, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE and issubclass(REACTIONS[code], RefreshError):
            self._is_refresh_asked = True


def _with_partition(topic: TopicView, partition: PartitionView) -> TopicView:
    partitions = list(topic.partitions)
    partitions[partition.partition] = partition
    return replace(
        topic,
        partitions=tuple(partitions),
        available=tuple(p.partition for p in partitions if p.leader_id is not None),
    )


def _says_the_same(one: ClusterView, other: ClusterView) -> bool:
    return replace(one, version=0) == replace(other, version=0)
