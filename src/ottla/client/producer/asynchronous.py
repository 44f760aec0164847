"""`AsyncProducer`: the asyncio face.

The same methods as `Producer`; `send` waits for the record to be written, `enqueue` only for room
in the buffer.  Records are put into batches in the caller's loop, which never blocks.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from ottla.client.headers import HeadersLike
from ottla.client.options import Servers
from ottla.client.producer.batch import PendingBatch
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.core import Core
from ottla.client.producer.kernel import kernel
from ottla.client.producer.many import Sorter
from ottla.client.producer.producer import ValueFormat, group_of
from ottla.client.producer.settings import ProducerSettings
from ottla.client.records import Batch, Commitable, GroupMetadata, offsets_of
from ottla.client.results import RecordMetadata
from ottla.client.serdes import UNSET, K, Serde, V, serde_of
from ottla.errors import DeadlineError, OttlaError

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow as pa


class AsyncProducer(Generic[K, V]):
    """Sends records from an event loop.

        async with ottla.AsyncProducer("localhost:9092") as producer:
            written = await producer.send("orders", b"espresso")

    Leaving the block waits until every record is delivered, and raises if one was not that nobody
    looked at.
    """

    def __init__(
        self,
        bootstrap_servers: Servers | None = None,
        *,
        key_serde: Serde[K] = UNSET,
        value_serde: Serde[V] = UNSET,
        key_serializer: Callable[[K], bytes | None] | None = None,
        value_serializer: Callable[[V], bytes | None] | None = None,
        **config: "Unpack[ProducerSettings]",
    ) -> None:
        """Prepare a producer; see `Producer` for what it takes."""
        key = serde_of("key", key_serde, key_serializer)
        value = serde_of("value", value_serde, value_serializer)
        self._core = self._made(ProducerConfig.of(bootstrap_servers, **config))
        self._outgoing = self._core.outgoing(key, value)
        if self._outgoing.is_plain:
            self._core.door.open(kernel.Receipt)

    def _made(self, config: ProducerConfig) -> Core:
        """The producer behind this face; simulations give it other ports."""
        return Core(config)

    async def send(
        self,
        topic: str,
        value: V,
        *,
        key: K | None = None,
        partition: int | None = None,
        headers: HeadersLike = (),
        timestamp: datetime | int | None = None,
    ) -> RecordMetadata:
        """Send a record, and wait until it is written.

        Concurrent sends share requests, so await many at once rather than one after another.  See
        `Producer.send` for the arguments and for what it raises.

        Raises:
            DeliveryError: It was not written, or nobody knows; its cause says why.
        """
        batch, index, timestamp_ms = await self._put(
            topic, value, key, partition, headers, timestamp, is_awaited=True
        )
        return await batch.delivery.awaitable(index, timestamp_ms)

    async def enqueue(
        self,
        topic: str,
        value: V,
        *,
        key: K | None = None,
        partition: int | None = None,
        headers: HeadersLike = (),
        timestamp: datetime | int | None = None,
    ) -> "asyncio.Future[RecordMetadata]":
        """Send a record, wait only for room in the buffer, and return a future of the rest."""
        put: kernel.Receipt | None
        put = self._core.door.put(topic, value, key, partition, headers, timestamp, None)
        if put is not None:
            return put.delivery.awaitable(put.index, put.timestamp_ms)
        batch, index, timestamp_ms = await self._put(
            topic, value, key, partition, headers, timestamp
        )
        return batch.delivery.awaitable(index, timestamp_ms)

    async def send_many(
        self, topic: str, values: Iterable[V | tuple[K, V]], /, *, headers: HeadersLike = ()
    ) -> int:
        """Send values, or pairs of key and value, and return how many; see `Producer.send_many`."""
        route = await self._core.route_async(topic)
        sorter = Sorter(self._core, self._outgoing, route, headers)
        return await asyncio.to_thread(sorter.send, values)

    async def send_arrow(
        self,
        topic: str,
        data: "pa.RecordBatch | pa.Table",
        *,
        key: str | None = None,
        value: str | Sequence[str] | None = None,
        value_format: ValueFormat = "bytes",
        partition: str | None = None,
    ) -> Mapping[int, range]:
        """Send the rows of an Arrow table, and wait until they are written.

        See `Producer.send_arrow`.
        """
        from ottla.client.producer.arrow import send_arrow

        route = await self._core.route_async(topic)
        sent = await asyncio.to_thread(
            send_arrow,
            self._core,
            route,
            data,
            key=key,
            value=value,
            value_format=value_format,
            partition=partition,
        )
        return await asyncio.wrap_future(sent)

    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109, as `Producer`
        """Wait until everything sent so far is delivered; see `Producer.flush`."""
        deadline = asyncio.timeout(timeout)
        try:
            async with deadline:
                await self._core.driver.run_async(self._core.flush())
        except TimeoutError:
            if not deadline.expired():
                raise
            raise DeadlineError(f"not delivered within {timeout:g} s") from None
        # Futures of this loop are told in its next turn; who awaits them looks after that.
        await asyncio.sleep(0)
        self._core.failures.tell()

    @asynccontextmanager
    async def transaction(
        self, consumed: Batch[Any, Any] | None = None
    ) -> "AsyncIterator[AsyncTransaction[K, V]]":
        """A transaction; see `Producer.transaction`."""
        core = self._core
        tx = AsyncTransaction(self)
        try:
            await core.driver.run_async(core.begin_transaction(tx))
            if consumed is not None:
                tx.add_offsets(consumed)
            yield tx
            if not tx.is_prepared:
                await core.driver.run_async(core.coordination.commit())
        except BaseException as error:
            core.shut()
            await tx._undo(error, consumed)
            raise
        finally:
            core.shut()

    async def complete(self, prepared: str) -> bool:
        """Commit a transaction that was prepared; see `Producer.complete`."""
        core = self._core
        return await core.driver.run_async(core.end_prepared(prepared, commits=True))

    async def abort(self, prepared: str) -> bool:
        """Abort a transaction that was prepared; see `Producer.complete`."""
        core = self._core
        return await core.driver.run_async(core.end_prepared(prepared, commits=False))

    async def partitions_for(
        self,
        topic: str,
        timeout: float | None = None,  # noqa: ASYNC109, as `Producer`
    ) -> list[int]:
        """The partitions of a topic; see `Producer.partitions_for`."""
        return await self._core.driver.run_async(self._core.partitions_for(topic, timeout))

    def metrics(self) -> Mapping[str, float]:
        """What the producer counts about itself, under Kafka's names."""
        return self._core.metrics()

    async def connect(
        self,
        timeout: float | None = None,  # noqa: ASYNC109, as `Producer`
        *,
        once: bool = False,
    ) -> None:
        """Reach a broker now; see `Producer.connect`."""
        await self._core.driver.run_async(self._core.open(timeout, once=once))

    async def aclose(self, timeout: float | None = None) -> None:  # noqa: ASYNC109, as `Producer`
        """Deliver what was sent, for up to `timeout` seconds, and let go; see `Producer.close`."""
        core = self._core
        is_first = not core.is_closed
        core.shut(is_closed=True)
        if is_first:
            await core.close_async(timeout)
            await asyncio.sleep(0)
            self._core.failures.tell()

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException as error:
            await self.__aexit__(type(error), error, None)  # nobody else will
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.aclose()
            return
        try:
            await self.aclose(None if isinstance(error, Exception) else 0)
        except (OttlaError, ExceptionGroup) as failure:
            error.add_note(f"moreover, when the producer was closed: {failure}")

    async def _put(
        self,
        topic: str,
        value: V,
        key: K | None,
        partition: int | None,
        headers: HeadersLike,
        timestamp: datetime | int | None,
        *,
        is_awaited: bool = False,
    ) -> tuple[PendingBatch, int, int]:
        core, outgoing = self._core, self._outgoing
        topic, partition, record, size_bytes = outgoing.ready(
            topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp
        )
        deadline_s = asyncio.get_running_loop().time() + core.config.max_block_ms / 1000
        route = core.routes.get(topic)
        if (
            route is None
            or route.cluster is not core.engine.metadata.cluster
            or (partition is not None and partition >= route.partition_count)
        ):
            route = await core.route_async(topic, partition)
        put = core.intake.try_put
        placed = put(route, record, size_bytes, partition, is_awaited=is_awaited)
        while placed is None:
            await core.intake.room(size_bytes, deadline_s)
            placed = put(route, record, size_bytes, partition, is_awaited=is_awaited)
        batch, index = placed
        if outgoing.has_interceptors:
            outgoing.follow(batch.delivery, index, record)
        return batch, index, record[0]


class AsyncTransaction(Generic[K, V]):
    """An open transaction of an `AsyncProducer`."""

    def __init__(self, producer: AsyncProducer[K, V]) -> None:
        self._producer = producer
        self.is_prepared: bool = False
        """Whether its end was left to whoever has the token."""

    async def send(
        self,
        topic: str,
        value: V,
        *,
        key: K | None = None,
        partition: int | None = None,
        headers: HeadersLike = (),
        timestamp: datetime | int | None = None,
    ) -> "asyncio.Future[RecordMetadata]":
        """As `AsyncProducer.enqueue`: the end of the transaction waits for all of them."""
        return await self._producer.enqueue(
            topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp
        )

    async def send_many(
        self, topic: str, values: Iterable[V | tuple[K, V]], /, *, headers: HeadersLike = ()
    ) -> int:
        """As `AsyncProducer.send_many`."""
        return await self._producer.send_many(topic, values, headers=headers)

    def add_offsets(self, what: Commitable, group: GroupMetadata | None = None) -> None:
        """Commit offsets of a consumer with the transaction; `group` is needed without a batch."""
        if offsets := offsets_of(what):  # a batch without records may come from nobody
            self._producer._core.coordination.add_offsets(group_of(what, group), offsets)

    async def prepare(self) -> str:
        """Write everything, and leave the end to who has the token; see `Transaction.prepare`."""
        core = self._producer._core
        token = await core.driver.run_async(core.coordination.prepare())
        core.shut()
        self.is_prepared = True
        return str(token)

    async def _undo(self, error: BaseException, consumed: Batch[Any, Any] | None) -> None:
        core = self._producer._core
        try:
            undone = core.coordination.undo(self, keeps_prepared=self.is_prepared)
            await core.driver.run_async(undone)
        except OttlaError as failure:
            error.add_note(f"moreover, when the transaction was aborted: {failure}")
        source = None if consumed is None else consumed.source
        if consumed is not None and source is not None and core.coordination.is_undone(self):
            rewound = source.rewind(consumed)
            if isawaitable(rewound):
                await rewound
