"""The coordinators of one kind: a shard for each partition of the internal topic they write.

The topic is created when its first user comes, with Kafka's settings for it.  A key, such as the
name of a group, belongs to the partition that its hash says, and whoever leads that partition
coordinates it; on one node that is always us.

A shard whose log cannot be read or written answers NOT_COORDINATOR, as in Kafka, which sends
clients looking for the coordinator again; it is loaded anew after a pause.  Where nobody asks, it
is loaded anew all the same: members may be silent and transactions may have to end.
"""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from ottla.broker.partition import Partition
from ottla.broker.shard import Decision, Shard, UnansweredError
from ottla.cluster.topics import NewTopic
from ottla.errors import ErrorCode, StorageError
from ottla.model import coordinator_partition

if TYPE_CHECKING:
    from ottla.broker.context import Node

log = logging.getLogger(__name__)

_RELOAD_PAUSE_MS: Final = 1_000
"""How long a shard that broke as soon as it was loaded is left alone."""

_UNASKED_RELOAD_PAUSE_MS: Final = 10_000
"""How long a shard that broke is left alone if nobody asks for it."""

S = TypeVar("S", bound=Shard)
A = TypeVar("A")


class Coordinators(Generic[S]):
    """Finds the shard of a key, creating and loading what is missing."""

    topic: ClassVar[str]
    """The internal topic."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._shards: dict[int, S] = {}
        self._loading: dict[asyncio.Task[None], None] = {}
        """In order: they are canceled in it, and a simulation shall be the same every time."""
        self._creation: asyncio.Task[None] | None = None
        self._next_try: dict[int, float] = {}
        """When a shard may be loaded again, by the time of the loop."""
        self._reloads: dict[int, asyncio.TimerHandle] = {}
        self._is_closed = False

    @abstractmethod
    def _new_topic(self) -> NewTopic:
        """How the topic is created."""

    @abstractmethod
    def _new_shard(self, partition: Partition) -> S:
        """A shard that has loaded nothing yet."""

    def start(self) -> None:
        """Begin to load the shards of a topic that exists; requests need not wait for all."""
        if self.topic in self._node.controller.image.topics:
            self._open_shards()

    async def ensure_topic(self) -> None:
        """Create the topic if this is its first use."""
        if self._creation is None or self._creation.done():
            if self.topic in self._node.controller.image.topics:
                return
            self._creation = asyncio.get_running_loop().create_task(self._create_topic())
        # Others wait for it too: it goes on when the client that asked first is gone.
        await asyncio.shield(self._creation)

    def index_of(self, key: str) -> int | None:
        """The partition that a key belongs to; None before the topic exists."""
        topic = self._node.controller.image.topics.get(self.topic)
        return None if topic is None else coordinator_partition(key, len(topic.partitions))

    def loaded(self, key: str) -> S | None:
        """The shard of a key, if it can be asked at once."""
        index = self.index_of(key)
        shard = None if index is None else self._shards.get(index)
        return shard if shard is not None and shard.is_loaded else None

    async def find(self, key: str) -> S | ErrorCode:
        """The shard of a key, or the error code to answer.  Waits for the topic alone."""
        await self.ensure_topic()
        index = self.index_of(key)
        if index is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        shard = self._open(index)
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    async def ask(
        self, key: str, decision: Callable[[S], Decision], refuse: Callable[[ErrorCode], A]
    ) -> A:
        """Put a question to the shard of a key; `refuse` makes the answer if there is none."""
        shard = await self.find(key)
        if isinstance(shard, ErrorCode):
            return refuse(shard)
        try:
            answer: A = await shard.ask(decision(shard))
        except UnansweredError as error:
            return refuse(error.code)
        return answer

    def all_loaded(self) -> list[S] | ErrorCode:
        """All shards, for requests about all keys; without those that cannot be had."""
        shards = [shard for shard in self._shards.values() if not shard.is_broken]
        if any(not shard.is_loaded for shard in shards):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return shards

    def on_topic_deleted(self, name: str) -> None:
        """A topic is gone: if it was ours, nothing is known any more."""
        if name == self.topic:
            for shard in self._shards.values():
                shard.give_up(StorageError("its topic was deleted"))
            self._next_try.clear()

    def on_topics_changed(self) -> None:
        """Topics came, grew or went; most coordinators need not know."""

    def close(self) -> None:
        """Stop all shards; what they persisted is in their logs."""
        self._is_closed = True
        if self._creation is not None:
            self._creation.cancel()
        for task in self._loading:
            task.cancel()
        for reload in self._reloads.values():
            reload.cancel()
        for shard in self._shards.values():
            shard.close()

    async def _create_topic(self) -> None:
        (outcome,) = await self._node.controller.create_topics([self._new_topic()])
        if outcome.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            log.error(
                "topic not created: topic=%s error=%s %s",
                self.topic,
                outcome.error.name,
                outcome.message,
            )
            return
        self._open_shards()
        if self._loading:
            await asyncio.wait(self._loading)

    def _open_shards(self) -> None:
        for partition in self._node.controller.image.topics[self.topic].partitions:
            self._open(partition.index)

    def _open(self, index: int) -> S | None:
        """The shard of a partition, which may have to load; None if its log cannot be had now.

        One that broke is tried again, but not by every request: each try reads the whole log.
        """
        current = self._shards.get(index)
        if current is not None and not current.is_broken:
            return current
        loop = asyncio.get_running_loop()
        found = self._node.partitions.find(self.topic, index)
        if isinstance(found, ErrorCode) or loop.time() < self._next_try.get(index, 0.0):
            return None
        self._next_try[index] = loop.time() + _RELOAD_PAUSE_MS / 1000
        shard = self._shards[index] = self._new_shard(found)
        shard.when_broken = partial(self._reload_later, index)
        task = loop.create_task(shard.load())
        self._loading[task] = None
        task.add_done_callback(partial(self._on_load_ended, shard))
        return shard

    def _reload_later(self, index: int) -> None:
        if self._is_closed:
            return
        if (reload := self._reloads.pop(index, None)) is not None:
            reload.cancel()
        loop = asyncio.get_running_loop()
        pause_s = _UNASKED_RELOAD_PAUSE_MS / 1000
        self._reloads[index] = loop.call_later(pause_s, self._reload, index)

    def _reload(self, index: int) -> None:
        del self._reloads[index]
        self._open(index)

    def _on_load_ended(self, shard: S, task: "asyncio.Task[None]") -> None:
        self._loading.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("coordinator not loaded: topic=%s", self.topic, exc_info=error)
            shard.give_up(StorageError(f"its log cannot be read: {error}"))
