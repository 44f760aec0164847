"""`Producer`: the blocking face.

`send` is the hot path of every program that writes: plain bytes go through a `Door`, and whatever
else there is goes the longer way, through `Outgoing`.

What a producer works with is imported when one is made: to import the name is cheap.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from ottla.client.headers import HeadersLike
from ottla.client.serdes import UNSET, K, Serde, V, serde_of
from ottla.errors import MisuseError, OttlaError

if TYPE_CHECKING:
    from concurrent.futures import Future
    from datetime import datetime
    from typing import Unpack

    import pyarrow as pa

    from ottla.client.options import Servers
    from ottla.client.producer.delivery import OnDelivery
    from ottla.client.producer.settings import ProducerSettings
    from ottla.client.records import Batch, Commitable, GroupMetadata
    from ottla.client.results import RecordMetadata

ValueFormat = Literal["bytes", "json", "arrow"]


class Producer(Generic[K, V]):
    """Sends records.  Safe from any thread; belongs to one process.

        with ottla.Producer("localhost:9092", value_serde=ottla.JSON) as producer:
            producer.send("orders", {"id": 1}, key=b"table-7")

    Leaving the block waits until every record is delivered, and raises if one was not.
    """

    def __init__(
        self,
        bootstrap_servers: "Servers | None" = None,
        *,
        key_serde: Serde[K] = UNSET,
        value_serde: Serde[V] = UNSET,
        key_serializer: Callable[[K], bytes | None] | None = None,
        value_serializer: Callable[[V], bytes | None] | None = None,
        **config: "Unpack[ProducerSettings]",
    ) -> None:
        """Prepare a producer; nothing is connected before `with`, or the first call.

        Args:
            bootstrap_servers: The brokers to ask first; by default OTTLA_BOOTSTRAP, or localhost.
            key_serde: How keys become bytes; by default they are bytes.
            value_serde: The same for values.
            key_serializer: A function in place of `key_serde`.
            value_serializer: A function in place of `value_serde`.
            config: Settings, see docs/reference/settings.md; `config=` takes dotted names.

        Raises:
            ConfigError: A setting is unknown, out of range, or contradicts another.
        """
        from ottla.client.producer.config import ProducerConfig
        from ottla.client.producer.core import Core
        from ottla.client.producer.delivery import DeliveryFuture

        key = serde_of("key", key_serde, key_serializer)
        value = serde_of("value", value_serde, value_serializer)
        self._core = Core(ProducerConfig.of(bootstrap_servers, **config))
        self._outgoing = self._core.outgoing(key, value)
        if self._outgoing.is_plain:
            self._core.door.open(DeliveryFuture)
        self._put = self._core.door.put
        self._metadata = self._core.engine.metadata
        self._future = DeliveryFuture

    def send(
        self,
        topic: str,
        value: V,
        *,
        key: K | None = None,
        partition: int | None = None,
        headers: HeadersLike = (),
        timestamp: "datetime | int | None" = None,
        on_delivery: "OnDelivery | None" = None,
    ) -> "Future[RecordMetadata]":
        """Send a record; it is on its way when this returns.

        It blocks only for metadata of a new topic and for room in the buffer, up to max.block.ms.

        Args:
            topic: Where to send it.
            value: The payload; None is a tombstone, which deletes `key` on compaction.
            key: Records with equal keys go to the same partition, in order.
            partition: To choose it yourself.
            headers: Names and bytes, or text.
            timestamp: Milliseconds since 1970, or a `datetime` with a time zone; by default now.
            on_delivery: Called on the I/O thread with what became of it.

        Returns:
            A future of where it was written.  Who does not look at it, and gives no callback, is
            told of a failure by `flush`, `close`, or the end of the `with` block.

        Raises:
            SerializationError: Key or value could not be turned into bytes.
            RequestError: No request can be so large.
            DeadlineError: Neither metadata nor room within max.block.ms.
            MisuseError: Outside of a transaction, with a transactional id; in a forked process.
            ClosedError: The producer was closed.
        """
        sent: Future[RecordMetadata] | None
        sent = self._put(topic, value, key, partition, headers, timestamp, on_delivery)
        if sent is None:
            sent = self._send(topic, value, key, partition, headers, timestamp, on_delivery)
        return sent

    def _send(
        self,
        topic: str,
        value: V,
        key: K | None,
        partition: int | None,
        headers: HeadersLike,
        timestamp: "datetime | int | None",
        on_delivery: "OnDelivery | None",
    ) -> "Future[RecordMetadata]":
        core = self._core
        topic, partition, record, size_bytes = self._outgoing.ready(
            topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp
        )
        route, deadline_s = core.routes.get(topic), None
        if (
            route is None
            or route.cluster is not self._metadata.cluster
            or (partition is not None and partition >= route.partition_count)
        ):
            deadline_s = core.intake.deadline_s()
            route = core.route(topic, partition)
        batch, index = core.intake.put(route, record, size_bytes, partition, deadline_s)
        delivery, timestamp_ms = batch.delivery, record[0]
        if self._outgoing.has_interceptors:
            self._outgoing.follow(delivery, index, record)
        if on_delivery is not None:
            delivery.call_back(index, timestamp_ms, on_delivery)
        return self._future(delivery, index, timestamp_ms)

    def send_many(
        self, topic: str, values: Iterable[V | tuple[K, V]], /, *, headers: HeadersLike = ()
    ) -> int:
        """Send values, or pairs of key and value, and return how many; much faster than `send`.

        Failures are told by `flush`, `close`, or the end of the `with` block.  Raises what `send`
        raises; what came before it in `values` is on its way.
        """
        from ottla.client.producer.many import Sorter

        return Sorter(self._core, self._outgoing, self._core.route(topic), headers).send(values)

    def send_arrow(
        self,
        topic: str,
        data: "pa.RecordBatch | pa.Table",
        *,
        key: str | None = None,
        value: str | Sequence[str] | None = None,
        value_format: ValueFormat = "bytes",
        partition: str | None = None,
    ) -> "Future[Mapping[int, range]]":
        """Send the rows of an Arrow table, one record each, without a Python object for any.

        Args:
            topic: Where to send them.
            data: The rows.  Without `key` and `value` its columns are those of
                `Consumer.poll_arrow`: key, value, timestamp, headers, as far as they are there.
            key: The column of keys, text or binary.
            value: The column of values, or the columns that become values.
            value_format: bytes: the column is text or binary; json: an object of the columns for
                each row; arrow: all rows of a partition in one record, as an Arrow IPC stream.
            partition: The column of partitions, integers; a row without goes where its key says.

        Returns:
            A future: partition -> the offsets that the records got.

        Raises:
            ModuleNotFoundError: `pyarrow` is not installed: `pip install 'ottla[arrow]'`.
            TypeError: A column cannot be written.
            ValueError: There is no such column, or no such partition.
            RequestError: No request, or no buffer, can hold one of the rows; those before it may be
                sent.
            DeadlineError: There was no memory for max.block.ms.
        """
        from ottla.client.producer.arrow import send_arrow

        return send_arrow(
            self._core,
            self._core.route(topic),
            data,
            key=key,
            value=value,
            value_format=value_format,
            partition=partition,
        )

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is delivered.

        Raises:
            DeliveryErrors: Records that nobody looked at were not delivered.
            DeadlineError: It took longer than `timeout` seconds; the rest is still on its way.
        """
        self._core.driver.run_blocking(self._core.flush(), timeout)
        self._core.failures.tell()

    @contextmanager
    def transaction(
        self, consumed: "Batch[Any, Any] | None" = None
    ) -> "Iterator[Transaction[K, V]]":
        """A transaction: all of it is written when the block ends, or nothing if it raises.

        With `consumed`, the offsets of that batch are committed with it; if the transaction fails,
        its consumer goes back to the beginning of the batch.

        Raises:
            FencedError: A newer producer with this transactional id took over; stop.
            CommitFailedError: The group gave the partitions to another consumer.
            OttlaError: What made the transaction fail; with `abort_required`, try again.
        """
        core = self._core
        tx = Transaction(self)
        try:
            core.driver.call_blocking(lambda: core.begin_transaction(tx))
            if consumed is not None:
                tx.add_offsets(consumed)
            yield tx
            if not tx.is_prepared:
                core.driver.call_blocking(core.coordination.commit)
        except BaseException as error:
            core.shut()
            tx._undo(error, consumed)
            raise
        finally:
            core.shut()

    def complete(self, prepared: str) -> bool:
        """Commit a transaction that was prepared, here or in another process.

        With `transaction.two.phase.commit.enable` it never expires (KIP-939, Ottla); elsewhere it
        has to happen within `transaction.timeout.ms`, before a producer of that id begins anew.

        Returns:
            False if there is no such transaction any more: it was ended before.
        """
        core = self._core
        return core.driver.run_blocking(core.end_prepared(prepared, commits=True))

    def abort(self, prepared: str) -> bool:
        """Abort a transaction that was prepared; see `complete`."""
        core = self._core
        return core.driver.run_blocking(core.end_prepared(prepared, commits=False))

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """The partitions of a topic; waits for it up to `timeout` seconds, or max.block.ms."""
        return self._core.driver.run_blocking(self._core.partitions_for(topic, timeout))

    def metrics(self) -> Mapping[str, float]:
        """What the producer counts about itself, under Kafka's names."""
        return self._core.metrics()

    def connect(self, timeout: float | None = None, *, once: bool = False) -> None:
        """Reach a broker now; without, `with` or the first call does.

        Args:
            timeout: For how many seconds to try; by default `default_api_timeout_ms`.
            once: Try each address once, and not again and again.

        Raises:
            ConnectError: No broker can be reached; it says why.
            DeadlineError: Somebody is there, but does not answer in time.
        """
        self._core.driver.run_blocking(self._core.open(timeout, once=once))

    def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, for up to `timeout` seconds, and let go of everything.

        An open transaction is aborted.  Closing twice is no error.

        Raises:
            DeliveryErrors: Records that nobody looked at were not delivered.
        """
        core = self._core
        is_first = not core.is_closed
        core.shut(is_closed=True)
        if is_first:
            core.close_blocking(timeout)
            self._core.failures.tell()

    def __enter__(self) -> Self:
        try:
            self.connect()
        except BaseException as error:
            self.__exit__(type(error), error, None)  # nobody else will
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            # An interrupt should not wait for brokers that do not answer.
            self.close(None if isinstance(error, Exception) else 0)
        except (OttlaError, ExceptionGroup) as failure:
            error.add_note(f"moreover, when the producer was closed: {failure}")


class Transaction(Generic[K, V]):
    """An open transaction of a `Producer`."""

    def __init__(self, producer: Producer[K, V]) -> None:
        self._producer = producer
        self.is_prepared: bool = False
        """Whether its end was left to whoever has the token."""

    def send(
        self,
        topic: str,
        value: V,
        *,
        key: K | None = None,
        partition: int | None = None,
        headers: HeadersLike = (),
        timestamp: "datetime | int | None" = None,
        on_delivery: "OnDelivery | None" = None,
    ) -> "Future[RecordMetadata]":
        """As `Producer.send`; what it returns is final only when the transaction is committed."""
        return self._producer.send(
            topic,
            value,
            key=key,
            partition=partition,
            headers=headers,
            timestamp=timestamp,
            on_delivery=on_delivery,
        )

    def send_many(
        self, topic: str, values: Iterable[V | tuple[K, V]], /, *, headers: HeadersLike = ()
    ) -> int:
        """As `Producer.send_many`."""
        return self._producer.send_many(topic, values, headers=headers)

    def send_arrow(
        self,
        topic: str,
        data: "pa.RecordBatch | pa.Table",
        *,
        key: str | None = None,
        value: str | Sequence[str] | None = None,
        value_format: ValueFormat = "bytes",
        partition: str | None = None,
    ) -> "Future[Mapping[int, range]]":
        """As `Producer.send_arrow`."""
        return self._producer.send_arrow(
            topic, data, key=key, value=value, value_format=value_format, partition=partition
        )

    def add_offsets(self, what: "Commitable", group: "GroupMetadata | None" = None) -> None:
        """Commit offsets of a consumer with the transaction; `group` is needed without a batch."""
        from ottla.client.records import offsets_of

        if offsets := offsets_of(what):  # a batch without records may come from nobody
            self._producer._core.coordination.add_offsets(group_of(what, group), offsets)

    def prepare(self) -> str:
        """Write everything, and leave it to `complete` or `abort` to end the transaction.

        Returns:
            A token, for this producer or one in another process with the same transactional id.
        """
        core = self._producer._core
        token = core.driver.run_blocking(core.coordination.prepare())
        core.shut()
        self.is_prepared = True
        return str(token)

    def _undo(self, error: BaseException, consumed: "Batch[Any, Any] | None") -> None:
        """Abort it, and send the consumer back; `error` is raised by the caller."""
        core = self._producer._core
        try:
            is_prepared = self.is_prepared
            core.driver.call_blocking(
                lambda: core.coordination.undo(self, keeps_prepared=is_prepared)
            )
        except OttlaError as failure:
            error.add_note(f"moreover, when the transaction was aborted: {failure}")
        source = None if consumed is None else consumed.source
        if consumed is not None and source is not None and core.coordination.is_undone(self):
            source.rewind(consumed)


def group_of(what: "Commitable", group: "GroupMetadata | None") -> "GroupMetadata":
    """Whose offsets these are."""
    from ottla.client.records import Batch

    if group is not None:
        return group
    if isinstance(what, Batch) and what.source is not None:
        return what.source.group_metadata
    raise MisuseError("which group's offsets? give a batch of a consumer, or group=")
