"""Two clusters, what is in them, and a mirror between them."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import ottla
from ottla.client.consumer.until import batches_until
from ottla.errors import UnknownTopicError
from ottla.mirror.mirror import Mirror
from ottla.mirror.progress import MirrorProgress
from ottla.mirror.selection import Selection
from ottla.mirror.settings import MirrorSettings
from ottla.model import TopicPartition

PATIENCE_S = 120.0

Content = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]
"""Key, value, headers and timestamp: what must arrive as it was."""


class Pair(NamedTuple):
    """Where both clusters are."""

    source: str
    target: str

    def settings(
        self,
        *topics: str,
        exclude: tuple[str, ...] = (),
        prefix: str = "",
        renames: Mapping[str, str] | None = None,
        **others: Any,
    ) -> MirrorSettings:
        """A mirror that runs once, of these topics and no groups, unless told otherwise."""
        selection = Selection(
            topics=topics, exclude=exclude, prefix=prefix, renames=dict(renames or {})
        )
        defaults: dict[str, Any] = {
            "is_once": True,
            "groups": (),
            "name": topics[0].strip("*"),
            "interval_s": 0.05,
            "look_interval_s": 0.2,
            "timeout_s": PATIENCE_S,
        }
        return MirrorSettings(
            source=self.source,
            target=self.target,
            selection=selection,
            source_config={},
            target_config={},
            **{**defaults, **others},
        )

    def mirror(self, *topics: str, **others: Any) -> MirrorProgress:
        """Copy what is there."""
        return Mirror(self.settings(*topics, **others)).run()

    def told(self, *topics: str, **others: Any) -> list[str]:
        """Copy what is there; what was said about it."""
        said: list[str] = []
        Mirror(self.settings(*topics, **others), say=said.append).run()
        return said

    @contextmanager
    def following(self, *topics: str, **others: Any) -> Iterator["Following"]:
        """A mirror at work; it is stopped in good order, and what it raised is raised."""
        following = Following(self.settings(*topics, is_once=False, **others))
        try:
            yield following
        finally:
            following.mirror.stop()
            following.join()


class Following:
    """A mirror on a thread of its own."""

    def __init__(self, settings: MirrorSettings) -> None:
        self.said: list[str] = []
        self.seen: list[MirrorProgress] = []
        self.error: BaseException | None = None
        self.mirror = Mirror(settings, say=self.said.append, watch=self.seen.append)
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.mirror.run()
        except BaseException as error:
            self.error = error

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert self.is_over, "the mirror does not stop"
        if self.error is not None:
            raise self.error


def until(condition: Callable[[], bool], why: str = "it never came to be so") -> None:
    """Wait for something that happens by itself; nothing is so of a topic that is not there."""
    never, deadline_s = threading.Event(), time.monotonic() + PATIENCE_S
    while not _is_so(condition):
        assert time.monotonic() < deadline_s, why
        never.wait(0.02)


def _is_so(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except UnknownTopicError:
        return False


def create(bootstrap: str, topic: str, partitions: int = 1, **config: str | int) -> None:
    """Create a topic; underscores in names of settings stand for dots."""
    with ottla.Admin(bootstrap) as admin:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        admin.create_topic(topic, partitions=partitions, config=settings)


def write(
    bootstrap: str, topic: str, values: Iterable[bytes | None], *, partition: int = 0
) -> None:
    """Append records without keys."""
    with ottla.Producer(bootstrap) as producer:
        for value in values:
            producer.send(topic, value, partition=partition)


def write_committed(bootstrap: str, topic: str, *lots: list[bytes], aborted: set[int]) -> None:
    """Append each lot in a transaction of its own; those whose number is in `aborted` are."""
    with ottla.Producer(bootstrap, transactional_id=f"writer-of-{topic}") as producer:
        for number, lot in enumerate(lots):
            try:
                with producer.transaction() as tx:
                    for value in lot:
                        tx.send(topic, value, partition=0).result()
                    if number in aborted:
                        raise _ChangedMindError
            except _ChangedMindError:
                pass
    until(lambda: is_settled(bootstrap, topic))


def is_settled(bootstrap: str, topic: str) -> bool:
    """Whether no transaction is open: one is over a moment after its end was acknowledged."""
    with ottla.Admin(bootstrap) as admin:
        partitions = admin.list_partitions([topic])
        ends = admin.list_offsets(partitions)
        return ends == admin.list_offsets(partitions, isolation_level="read_committed")


class _ChangedMindError(Exception):
    pass


def contents(bootstrap: str, topic: str) -> dict[int, list[Content]]:
    """Partition -> all that was committed, in order."""
    with ottla.Admin(bootstrap) as admin:
        partitions = admin.list_partitions([topic])
        starts = admin.list_offsets(partitions, at="earliest")
        ends = admin.list_offsets(partitions)
    found: dict[int, list[Content]] = {tp.partition: [] for tp in partitions}
    wanted = {tp: ends[tp] or 0 for tp in partitions if (starts[tp] or 0) < (ends[tp] or 0)}
    with ottla.Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="none"
    ) as consumer:
        consumer.assign({tp: starts[tp] or 0 for tp in wanted})
        for batch in batches_until(wanted, consumer, PATIENCE_S):
            for record in batch:
                found[record.partition].append(
                    (record.key, record.value, tuple(record.headers), record.timestamp_ms)
                )
    return found


def values(bootstrap: str, topic: str, partition: int = 0) -> list[bytes | None]:
    """The values of one partition."""
    return [content[1] for content in contents(bootstrap, topic)[partition]]


def commit(bootstrap: str, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit for a group that nobody is in."""
    with ottla.Admin(bootstrap) as admin:
        admin.alter_group_offsets(group, offsets)


def committed(bootstrap: str, group: str) -> dict[TopicPartition, int]:
    """What a group has committed."""
    with ottla.Admin(bootstrap) as admin:
        return {tp: at.offset for tp, at in admin.list_group_offsets(group).items()}


def next_value(bootstrap: str, group: str, topic: str) -> bytes | None:
    """The value of the record that a member of the group would be handed first."""
    with ottla.Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="none",
        isolation_level="read_committed",
        enable_auto_commit=False,
    ) as consumer:
        return next(consumer).value
