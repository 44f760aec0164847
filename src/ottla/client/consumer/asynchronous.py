"""`ottla.AsyncConsumer`: the same consumer for programs that run in an event loop."""

# ruff: noqa: ASYNC109, because both faces of a consumer have the same parameters

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar

from ottla.client.consumer.face import Face
from ottla.client.consumer.plugs import RebalanceListener
from ottla.client.consumer.reading import Place, places_of
from ottla.client.consumer.subscription import subscription_of
from ottla.client.records import (
    Batch,
    Commitable,
    OffsetAndMetadata,
    Offsets,
    Record,
    as_partitions,
    offsets_of,
)
from ottla.client.serdes import K, V
from ottla.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


P = ParamSpec("P")
T = TypeVar("T")


class AsyncConsumer(Face[K, V]):
    """See `ottla.Consumer`: the same methods, awaited; `close` is `aclose`.

        async with ottla.AsyncConsumer("orders", group_id="billing") as consumer:
            async for record in consumer:
                print(record.key, record.value)

    Heartbeats and fetches run on a thread of the consumer's own, so a loop that is busy delays
    neither.  One task at a time may use it; only `stop` may be called from anywhere.
    """

    _is_async = True

    # Reading.

    def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        """Records, one after the other, until `stop`."""
        return self._each()

    async def __anext__(self) -> Record[K, V]:
        """The next record; waits for it as long as it takes."""
        await self._begin()
        reading = self._reading
        if (cursor := await reading.next_cursor()) is None:
            raise StopAsyncIteration
        record = next(cursor.rest)
        cursor.given_count += 1
        return record if cursor.read is None else cursor.read(record)

    async def _each(self) -> AsyncIterator[Record[K, V]]:
        await self._begin()
        reading = self._reading
        while (cursor := await reading.next_cursor()) is not None:
            read = cursor.read
            for record in cursor.rest:
                cursor.given_count += 1
                yield record if read is None else read(record)
                if reading.is_stopped:
                    reading.put_back(lambda tp: True)

    async def poll(self, timeout: float = 1.0, *, max_records: int | None = None) -> Batch[K, V]:
        """Records, as soon as there are some; an empty batch if there are none in `timeout` s.

        Args:
            timeout: How long to wait for records, in seconds.
            max_records: How many records to return at most; by default `max_poll_records`.

        Raises:
            OttlaError: What the group, a partition's offset or a damaged batch gives cause to.
        """
        await self._begin()
        return await self._reading.poll(timeout, max_records)

    async def batches(
        self, timeout: float = 1.0, *, max_records: int | None = None, idle: bool = False
    ) -> AsyncIterator[Batch[K, V]]:
        """What `poll` returns, again and again, until `stop`; empty batches only if `idle`."""
        while not self._reading.is_stopped:
            batch = await self.poll(timeout, max_records=max_records)
            if batch or (idle and not self._reading.is_stopped):
                yield batch

    async def poll_arrow(
        self,
        timeout: float = 1.0,
        *,
        max_records: int | None = None,
        schema: "pa.Schema | None" = None,
    ) -> "pa.RecordBatch | None":
        """As `poll`, as one Arrow batch; None if there are no records in `timeout` seconds.

        Its columns are topic, partition, offset, timestamp, key, headers and value.  With a
        `schema`, values are JSON objects, and the fields of the schema take the place of value.

        Raises:
            ModuleNotFoundError: `pip install 'ottla[arrow]'` is missing.
        """
        await self._begin()
        return await self._reading.poll_arrow(timeout, max_records, schema)

    # What to read.

    async def subscribe(
        self,
        topics: Collection[str] | str,
        *,
        pattern: bool = False,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics, in place of others; with `pattern`, all whose whole name matches."""
        chosen = subscription_of(topics, is_pattern=pattern)
        self._forget_wish()
        await self._reading.subscribe(chosen, listener)

    async def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group."""
        self._forget_wish()
        await self._reading.unsubscribe()

    async def assign(self, partitions: Collection[TopicPartition] | Offsets) -> None:
        """Read exactly these partitions, without sharing: from given offsets, or committed ones."""
        self._forget_wish()
        await self._reading.assign(places_of(partitions))

    # Offsets.

    async def commit(
        self, what: "Commitable | None" = None, *, timeout: float | None = None
    ) -> None:
        """Commit a record, a batch, an Arrow batch or offsets; by default, all that was handed out.

        Raises:
            CommitFailedError: The group has given the partitions to another member.
            RejoinError: The group is being shared out anew: poll, then commit again.
        """
        await self._begin()
        await self._reading.commit(None if what is None else offsets_of(what), timeout)

    async def commit_async(self, what: "Commitable | None" = None) -> "asyncio.Future[None]":
        """As `commit`, without waiting for it; futures are done in the order of calls."""
        await self._begin()
        reading = self._reading
        offsets = reading.progress.handed_out() if what is None else offsets_of(what)

        async def commit() -> None:  # made when it runs: it may be canceled before
            await self._driver.run_async(self._inquiries.commit(offsets))

        return asyncio.ensure_future(commit())

    async def committed(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; by default for what is assigned."""
        return await self._ask(self._inquiries.committed, partitions)

    async def position(self, tp: TopicPartition, timeout: float = 60.0) -> int:
        """The offset of the next record of a partition."""
        await self._begin()
        return await self._reading.position(TopicPartition(*tp), timeout)

    async def seek(
        self, tp: TopicPartition, offset: int | datetime | Literal["beginning", "end", "committed"]
    ) -> None:
        """Go elsewhere in an assigned partition: an offset, a moment, or one of three places."""
        self._reading.seek({TopicPartition(*tp): offset})

    async def seek_all(
        self, offset: datetime | timedelta | Literal["beginning", "end", "committed"]
    ) -> None:
        """As `seek`, in all assigned partitions; a `timedelta` is so long ago."""
        place: Place = offset
        self._reading.seek(dict.fromkeys(self.assignment, place))

    async def rewind(self, batch: Batch[Any, Any]) -> None:
        """Go back to where a batch began, in those of its partitions that are still assigned."""
        self._reading.rewind(batch)

    async def beginning_offsets(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._ask(self._inquiries.beginning_offsets, partitions)

    async def end_offsets(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition that this consumer may see."""
        return await self._ask(self._inquiries.end_offsets, partitions)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, datetime | int]
    ) -> dict[TopicPartition, int | None]:
        """The first offset from a moment on (or milliseconds since 1970); None if there is none."""
        return await self._ask(self._inquiries.offsets_for_times, times)

    async def lag(self) -> dict[TopicPartition, int]:
        """How many offsets each partition is behind its end, of those whose position is known."""
        return await self._ask(self._inquiries.lag, self._reading.progress.handed_out())

    # Flow.

    async def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these partitions until `resume`; the membership stays alive."""
        self._reading.pause(as_partitions(partitions), is_paused=True)

    async def resume(self, *partitions: TopicPartition) -> None:
        """Hand out records of these partitions again."""
        self._reading.pause(as_partitions(partitions), is_paused=False)

    # Its life.

    async def connect(
        self,
        timeout: float | None = None,
        *,
        once: bool = False,
    ) -> None:
        """Reach a broker now; see `Consumer.connect`."""
        await self._driver.run_async(self._reading.core.connect(timeout, once=once))

    async def aclose(self, timeout: float | None = None) -> None:
        """Commit what is processed, leave the group, and close all connections.

        What was handed out last does not count as processed: nobody asked for more after it.
        Raises what went wrong with that commit, after everything is closed.
        """
        await self._end(is_clean=False, timeout_s=timeout)

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
            await self._begin()
        except BaseException as error:
            await self._leave(error)  # nobody else will
            raise
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._leave(error)

    async def _ask(
        self, ask: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        await self._begin()
        with self._reading.entered():
            return await self._driver.run_async(ask(*args, **kwargs))

    async def _begin(self) -> None:
        """Carry out what the constructor was told."""
        if (subscription := self._wish.subscription) is not None:
            self._forget_wish()
            await self._reading.subscribe(subscription, None)
