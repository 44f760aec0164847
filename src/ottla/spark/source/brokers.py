"""What the driver asks brokers: which topics there are, where they begin, how far they go.

Every call is repeated while brokers cannot be reached, for `retryTimeout` at most: what is raised
on a driver ends the query.  Calls block; connections live on a thread of their own.
"""

import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from ottla.client.admin.calling import Caller
from ottla.client.admin.config import AdminConfig
from ottla.client.admin.group_offsets import alter_group_offsets, list_group_offsets
from ottla.client.admin.outcomes import all_or_raise
from ottla.client.admin.positions import offsets_at
from ottla.client.engine import Engine
from ottla.client.faces import Driver, next_client_id
from ottla.client.ports import real_ports
from ottla.errors import ErrorCode, UnknownTopicError, exception_for
from ottla.model import TopicPartition, uuid_text
from ottla.spark.option_values import EARLIEST, LATEST
from ottla.spark.options import SourceOptions
from ottla.spark.source.lookup import Topics
from ottla.spark.source.watching import Watch, Watched
from ottla.wire.messages.metadata import MetadataResponseTopic
from ottla.wire.schema import NO_UUID

P = ParamSpec("P")
T = TypeVar("T")

_SETTLING_MS: Final = 5_000
"""How long a topic may be unknown that somebody has just created."""
_GROUP_TIMEOUT_MS: Final = 5_000


class Brokers:
    """The brokers of one source, as its driver sees them."""

    def __init__(self, options: SourceOptions) -> None:
        """Prepare to ask; nothing is sent yet."""
        self._options = options
        config = options.client_config(
            AdminConfig, {"default.api.timeout.ms": str(max(1, options.retry_timeout_ms))}
        )
        self._engine = Engine(config, real_ports(), client_id=next_client_id("spark-driver"))
        self._driver = Driver(self._engine)
        self._told: Mapping[str, MetadataResponseTopic] = {}
        self._watch = Watch(self._engine, options.is_committed_only)

    def topics(self) -> Topics:
        """What there is to read: of those topics that were chosen, the ones that exist."""
        options = self._options
        told = self._do(_chosen_topics, options)
        self._told = told
        partitions = [
            TopicPartition(name, partition.partition_index)
            for name, topic in told.items()
            for partition in topic.partitions
        ]
        if options.assign is not None:
            partitions = [tp for tp in options.assigned if tp in set(partitions)]
        return Topics(
            self._engine.cluster.cluster_id or "",
            {name: _id_text(topic) for name, topic in sorted(told.items())},
            tuple(sorted(partitions)),
        )

    def settled_topics(self) -> Topics:
        """As `topics`, when the source begins: all that were named must exist.

        Raises:
            UnknownTopicError: One does not, and nobody creates it within some seconds.
        """
        deadline_s = time.monotonic() + min(_SETTLING_MS, self._options.retry_timeout_ms) / 1000
        while True:
            topics = self.topics()
            if not (missing := _missing(self._options, topics)):
                return topics
            if time.monotonic() >= deadline_s:
                detail = f"{missing} does not exist; create it, or choose another"
                raise exception_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)
            time.sleep(0.2)

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return self.offsets(partitions, EARLIEST)

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record that this source may see."""
        is_committed = self._options.is_committed_only
        return self.offsets(partitions, LATEST, is_committed=is_committed)

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record that anybody may see."""
        return self.offsets(partitions, LATEST)

    def offsets(
        self,
        partitions: Collection[TopicPartition],
        timestamp_ms: int,
        *,
        is_committed: bool = False,
    ) -> dict[TopicPartition, int]:
        """The first offset from a time on; `NOT_THERE` if no record is that new.

        Raises:
            UnknownTopicError: A partition does not exist.
        """
        if not partitions:
            return {}
        found = self._do(
            offsets_at, partitions, timestamp_ms, is_committed=is_committed, told=self._told
        )
        return all_or_raise(found)

    def committed(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """What a group has committed, of those partitions where it has."""
        found = self._do(list_group_offsets, group, partitions=partitions, require_stable=True)
        return {tp: at.offset for tp, at in found.items()}

    def commit(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """Commit for a group that nobody is in; gives up after some seconds."""
        self._driver.run_blocking(
            self._called(alter_group_offsets, group, positions), _GROUP_TIMEOUT_MS / 1000
        )

    def offset_bytes(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """About how many bytes an offset has, from there on; nothing of partitions without."""
        return self._driver.run_blocking(self._watch.sample(self._watched(positions)))

    def wait_for_records(self, positions: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        """Return when there is a record at one of these positions, or time is up."""
        self._driver.run_blocking(self._watch.wait(self._watched(positions), timeout_ms))

    def close(self) -> None:
        """Close the connections; twice is no error."""
        self._driver.close_blocking()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _watched(self, positions: Mapping[TopicPartition, int]) -> list[Watched]:
        """Where to look, by what was told last of leaders and ids."""
        found = []
        for tp, offset in positions.items():
            topic = self._told.get(tp.topic)
            for partition in topic.partitions if topic is not None else ():
                if partition.partition_index == tp.partition and partition.leader_id >= 0:
                    assert topic is not None
                    found.append(Watched(tp, offset, partition.leader_id, topic.topic_id))
        return found

    def _do(
        self,
        work: Callable[Concatenate[Caller, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        return self._driver.run_blocking(self._called(work, *args, **kwargs))

    async def _called(
        self,
        work: Callable[Concatenate[Caller, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        caller = Caller(self._engine)
        await self._engine.connect(caller.left_ms)
        return await work(caller, *args, **kwargs)


async def _chosen_topics(
    caller: Caller, options: SourceOptions
) -> dict[str, MetadataResponseTopic]:
    """The topics that exist, of those that were chosen."""
    names: set[str] | None = None
    if options.subscribe_pattern is None:
        names = set(options.subscribe) or {tp.topic for tp in options.assigned}

    async def attempt() -> dict[str, MetadataResponseTopic]:
        found = {}
        for name, topic in (await caller.topics(names)).items():
            is_chosen = not topic.is_internal and options.chooses(TopicPartition(name, 0))
            if names is None and not is_chosen:
                continue
            if topic.error_code == ErrorCode.NONE:
                found[name] = topic
                continue
            error = exception_for(topic.error_code, f"topic {name!r}")
            if not isinstance(error, UnknownTopicError):
                raise error
        return found

    return await caller.repeat(attempt, what="finding out about topics")


def _missing(options: SourceOptions, topics: Topics) -> str:
    """What was named and does not exist, in words; "" if there is all."""
    for topic in options.subscribe:
        if topic not in topics.ids:
            return f"topic {topic!r}"
    for tp in options.assigned:
        if tp not in topics.partitions:
            return f"partition {tp}"
    if not topics.partitions:
        return f"a topic that matches {options.subscribe_pattern!r}"
    return ""


def _id_text(topic: MetadataResponseTopic) -> str:
    return "" if topic.topic_id == NO_UUID else uuid_text(topic.topic_id)
