"""From what a program sends to what a batch holds: interceptors, serdes, headers, timestamps."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ottla.client.headers import NO_HEADERS, Headers, HeadersLike, Pair, header_pairs
from ottla.client.results import RecordMetadata
from ottla.client.serdes import BYTES, SerContext, Serde
from ottla.errors import DeliveryError, OttlaError, SerializationError
from ottla.records.shapes import MAX_HEADER_OVERHEAD_BYTES, MAX_RECORD_OVERHEAD_BYTES, Unwritten
from ottla.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.producer.delivery import Delivery

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record on its way out, as interceptors see it: key and value are bytes already."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: Headers = NO_HEADERS
    timestamp_ms: int | None = None

    def with_header(self, key: str, value: str | bytes | None) -> Self:
        """The same record with one more header."""
        return replace(self, headers=self.headers.plus(key, value))


class SentBatch(NamedTuple):
    """What became of records that traveled together."""

    topic: str
    partition: int
    headers: tuple[Headers, ...]
    """Of each record, in the order in which they were sent."""
    began_ms: int
    """When the first of them was sent."""
    base_offset: int
    """Of the first of them; -1 if nobody was told (`acks=0`), or it failed."""
    error: OttlaError | None


class SendingRows:
    """The rows of one `send_arrow`, on their way out, as interceptors see them."""

    def __init__(self, topic: str, rows: "pa.RecordBatch | pa.Table") -> None:
        self.topic = topic
        self.rows = rows
        """Of the columns key, value, timestamp and headers, those that there are.

        An interceptor may put others in their place, as many as these.
        """
        self.listeners: list[Callable[[Exception | None], None]] = []

    def when_answered(self, listener: "Callable[[Exception | None], None]") -> None:
        """Have it called once all rows are written, or with the first reason why some are not."""
        self.listeners.append(listener)


class ProducerInterceptor:
    """Sees each record before it is sent, and what became of it (KIP-42); override what you need.

    What it raises is logged, and the record goes on as if it were not there.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Called in the thread that sends; returns what is to be sent."""
        return record

    def on_ack(self, metadata: RecordMetadata | None, error: DeliveryError | None) -> None:
        """Called on the I/O thread."""

    def on_batch(self, batch: SentBatch) -> None:
        """Called on the I/O thread, once for all records of a batch.

        A record that is sent while its batch is just being answered may come in a call of its own.
        """

    def on_send_arrow(self, sending: SendingRows) -> None:
        """Called for each `send_arrow`, in the thread that sends; what is in it goes past the rest.

        `sending.when_answered` calls on the I/O thread.
        """


class Ready(NamedTuple):
    """A record that can be put into a batch."""

    topic: str
    partition: int | None
    record: Unwritten
    size_bytes: int


def milliseconds(timestamp: datetime | int) -> int:
    """A timestamp as records carry it.

    Raises:
        ValueError: It is a `datetime` without time zone, or negative.
    """
    if isinstance(timestamp, datetime):
        if timestamp.tzinfo is None:
            raise ValueError(f"timestamp {timestamp} has no time zone")
        timestamp = round(timestamp.timestamp() * 1000)
    if timestamp < 0:
        raise ValueError(f"timestamp {timestamp} is before 1970")
    return timestamp


class _Watched:
    """Records that travel together, and that interceptors are told of together."""

    __slots__ = ("began_ms", "first_index", "pairs")

    def __init__(self, began_ms: int, index: int, pairs: tuple[Pair, ...]) -> None:
        self.began_ms = began_ms
        self.first_index = index
        self.pairs = [pairs]
        """The headers of each."""

    def add(self, index: int, pairs: tuple[Pair, ...]) -> None:
        self.first_index = min(self.first_index, index)  # threads may come in another order
        self.pairs.append(pairs)


class Outgoing:
    """What a producer does to each record before it goes into a batch.  Safe from any thread."""

    def __init__(
        self,
        key_serde: Serde[Any],
        value_serde: Serde[Any],
        interceptors: Sequence[Any],
        now_ms: Callable[[], int],
    ) -> None:
        self._key = key_serde
        self._value = value_serde
        # To call what does nothing, for each record, would cost more than to send it.
        self._senders = [it for it in interceptors if _overrides(it, "on_send")]
        self._listeners = [it for it in interceptors if _overrides(it, "on_ack")]
        self._watchers = [it for it in interceptors if _overrides(it, "on_batch")]
        self._now_ms = now_ms
        self.has_interceptors = bool(interceptors)
        self.is_plain = key_serde is BYTES and value_serde is BYTES and not interceptors
        """Whether bytes go out as they came."""
        self._watched: dict[Delivery, _Watched] = {}
        """Batches that are on their way."""
        self._lock = threading.Lock()

    def ready(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: HeadersLike = (),
        timestamp: datetime | int | None = None,
    ) -> Ready:
        """Serialize a record, and let interceptors see it.

        Raises:
            SerializationError: Key or value could not be turned into bytes.
            TypeError: Headers are not names and bytes.
            ValueError: The timestamp cannot be one.
        """
        if (
            self.is_plain
            and value.__class__ is bytes
            and (key is None or key.__class__ is bytes)
            and not headers
            and timestamp is None
        ):
            size_bytes = MAX_RECORD_OVERHEAD_BYTES + len(key or b"") + len(value)
            return Ready(topic, partition, (self._now_ms(), key, value, ()), size_bytes)
        pairs = headers.pairs if isinstance(headers, Headers) else header_pairs(headers)
        wrapped = Headers.of_pairs(pairs) if pairs else NO_HEADERS
        raw_key = _dumped(self._key, key, topic, "key", wrapped)
        raw_value = _dumped(self._value, value, topic, "value", wrapped)
        timestamp_ms = None if timestamp is None else milliseconds(timestamp)
        if self._senders:
            seen = self._intercepted(
                ProducerRecord(topic, raw_value, raw_key, partition, wrapped, timestamp_ms)
            )
            topic, partition, timestamp_ms = seen.topic, seen.partition, seen.timestamp_ms
            raw_key, raw_value, pairs = seen.key, seen.value, seen.headers.pairs
        if timestamp_ms is None:
            timestamp_ms = self._now_ms()
        record = (timestamp_ms, raw_key, raw_value, pairs)
        return Ready(topic, partition, record, size_of(raw_key, raw_value, pairs))

    def follow(self, delivery: "Delivery", index: int, record: Unwritten) -> None:
        """Have interceptors told what becomes of a record that was put into a batch."""
        if self._listeners:
            delivery.follow(index, record[0], self.acknowledge)
        if not self._watchers:
            return
        pairs: Any = record[3]  # as `ready` made them
        with self._lock:
            if (watched := self._watched.get(delivery)) is not None:
                watched.add(index, pairs)
                return
            self._watched[delivery] = _Watched(self._now_ms(), index, pairs)
        delivery.listen(self._tell_of_batch)

    def _tell_of_batch(self, delivery: "Delivery") -> None:
        with self._lock:
            watched = self._watched.pop(delivery)
        batch = SentBatch(
            topic=delivery.topic,
            partition=delivery.partition,
            headers=tuple(
                [Headers.of_pairs(pairs) if pairs else NO_HEADERS for pairs in watched.pairs]
            ),
            began_ms=watched.began_ms,
            base_offset=delivery.offset_of(watched.first_index),
            error=delivery.error,
        )
        for interceptor in self._watchers:
            try:
                interceptor.on_batch(batch)
            except Exception:
                log.exception("interceptor failed: %s.on_batch", type(interceptor).__name__)

    def acknowledge(self, metadata: RecordMetadata | None, error: DeliveryError | None) -> None:
        """Tell interceptors what became of a record."""
        for interceptor in self._listeners:
            try:
                interceptor.on_ack(metadata, error)
            except Exception:
                log.exception("interceptor failed: %s.on_ack", type(interceptor).__name__)

    def _intercepted(self, record: ProducerRecord) -> ProducerRecord:
        for interceptor in self._senders:
            try:
                record = interceptor.on_send(record)
            except Exception:
                log.exception("interceptor failed: %s.on_send", type(interceptor).__name__)
        return record


def _overrides(interceptor: Any, name: str) -> bool:
    """Whether an interceptor has a method of its own: ours do nothing."""
    method = getattr(interceptor, name, None)
    ours = getattr(ProducerInterceptor, name)
    return method is not None and getattr(method, "__func__", method) is not ours


def size_of(key: bytes | None, value: bytes | None, pairs: tuple[Pair, ...]) -> int:
    """The most bytes that a record takes in a batch."""
    size_bytes = MAX_RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in pairs:
        size_bytes += MAX_HEADER_OVERHEAD_BYTES + len(name.encode()) + len(content or b"")
    return size_bytes


def _dumped(
    serde: Serde[Any], value: Any, topic: str, field: Any, headers: Headers
) -> bytes | None:
    try:
        data: Any = serde.dumps(value, SerContext(topic, field, headers))
    except OttlaError:
        raise
    except Exception as error:
        raise SerializationError(f"{field} for topic {topic!r}: {error}") from error
    if data is not None and not isinstance(data, bytes):
        kind = type(data).__name__
        raise SerializationError(f"{field} for topic {topic!r}: the serde made {kind}, not bytes")
    made: bytes | None = data
    return made
