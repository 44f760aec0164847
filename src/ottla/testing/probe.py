"""What a test writes and reads itself, in one line: `produce`, `records`, `wait_for`.

It asks over the network like any client, so it works with any Kafka cluster.  All of it happens on
one thread of its own: tests may call from any thread, and from inside an event loop.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from ottla.client.basic import topics
from ottla.client.basic.client import BasicClient
from ottla.client.basic.reader import Record, fetch
from ottla.client.basic.writer import Writer
from ottla.errors import DeadlineError, TransportError, UnknownTopicError
from ottla.model import TopicPartition

T = TypeVar("T")

PATIENCE_S: Final = 30.0
_PAUSE_S: Final = 0.01


class Probe:
    """A client of one cluster, for the tests that use it."""

    def __init__(
        self, bootstrap_servers: str, *, client_id: str, now_ms: Callable[[], int]
    ) -> None:
        """Connect.

        Args:
            bootstrap_servers: Where the cluster is.
            client_id: How it is known there.
            now_ms: The clock that gives produced records their time.
        """
        self._bootstrap = bootstrap_servers
        self._client_id = client_id
        self._now_ms = now_ms
        self._client: BasicClient | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ottla-probe")
        try:
            self._ask(lambda client: None)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection and end the thread."""
        self._worker.submit(self._disconnect).result()
        self._worker.shutdown()

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        self._ask(
            lambda client: topics.create_topic(
                client, topic, partition_count=partitions, configs=config
            )
        )

    def produce(
        self, topic: str, values: list[bytes | None], key: bytes | None, partition: int | None
    ) -> None:
        now_ms = self._now_ms()

        def write(client: BasicClient) -> None:
            writer = Writer(client, topics.find_topic(client, topic, create=True))
            for value in values:
                writer.add((now_ms, key, value, ()), partition)
            writer.flush()

        self._ask(write)

    def records(self, topic: str, *, committed: bool) -> list[Record]:
        """Everything that is there now, sorted by partition and offset."""
        return self._ask(lambda client: _read(client, topic, committed))

    def end_offsets(self, topic: str, *, committed: bool) -> dict[int, int]:
        def ends(client: BasicClient) -> dict[int, int]:
            if (found := _find(client, topic)) is None:
                return {}
            offsets = topics.offsets_at(client, [found], topics.LATEST, read_committed=committed)
            return {key.partition: offset for key, offset in sorted(offsets.items())}

        return self._ask(ends)

    def wait_for(
        self, topic: str, count: int, *, timeout_s: float, committed: bool
    ) -> list[Record]:
        """What `records` gives once it is `count` records or more."""
        deadline = time.monotonic() + timeout_s
        ends: dict[int, int] | None = None
        found: list[Record] = []
        while True:
            now_ends = self.end_offsets(topic, committed=committed)
            if now_ends != ends:
                ends, found = now_ends, self.records(topic, committed=committed)
            if len(found) >= count:
                return found
            if time.monotonic() >= deadline:
                raise DeadlineError(
                    f"topic {topic!r} has {len(found)} of {count} records after {timeout_s:g} s"
                )
            time.sleep(_PAUSE_S)

    def _ask(self, work: Callable[[BasicClient], T]) -> T:
        return self._worker.submit(lambda: work(self._connected())).result()

    def _connected(self) -> BasicClient:
        """A client whose connection lives: the cluster may have closed it since the last call."""
        if self._client is not None:
            try:
                self._client.metadata(())
            except TransportError:
                self._disconnect()
        if self._client is None:
            self._client = BasicClient(
                self._bootstrap, timeout_s=PATIENCE_S, client_id=self._client_id
            )
            self._client.metadata(())
        return self._client

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _find(client: BasicClient, topic: str) -> topics.TopicInfo | None:
    try:
        return topics.find_topic(client, topic)
    except UnknownTopicError:
        return None


def _read(client: BasicClient, topic: str, committed: bool) -> list[Record]:
    if (found := _find(client, topic)) is None:
        return []
    leaders = {TopicPartition(topic, p.index): p.leader_id for p in found.partitions}
    ends = topics.offsets_at(client, [found], topics.LATEST, read_committed=committed)
    starts = topics.offsets_at(client, [found], topics.EARLIEST)
    positions = {key: offset for key, offset in starts.items() if offset < ends[key]}
    records: list[Record] = []
    deadline = time.monotonic() + PATIENCE_S
    while positions:
        for fetched in fetch(client, positions, leaders, read_committed=committed):
            key = fetched.partition
            records += [record for record in fetched.records() if record.offset < ends[key]]
            positions[key] = fetched.next_offset
            if fetched.next_offset >= ends[key]:
                del positions[key]
        if time.monotonic() > deadline:
            raise DeadlineError(f"topic {topic!r} could not be read within {PATIENCE_S:g} s")
    return sorted(records, key=lambda record: (record.partition, record.offset))
