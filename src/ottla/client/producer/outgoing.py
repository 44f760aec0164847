"""From what a program sends to what a batch holds: interceptors, serdes, headers, timestamps."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple, Self

from ottla.client.headers import NO_HEADERS, Headers, HeadersLike, Pair, header_pairs
from ottla.client.results import RecordMetadata
from ottla.client.serdes import BYTES, Functions, SerContext, Serde
from ottla.errors import ConfigError, DeliveryError, OttlaError, SerializationError
from ottla.records.shapes import MAX_HEADER_OVERHEAD_BYTES, MAX_RECORD_OVERHEAD_BYTES, Unwritten
from ottla.values import dataclass

log = logging.getLogger(__name__)

UNSET: Final[Any] = object()
"""For a serde that was not given."""


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


class ProducerInterceptor:
    """Sees each record before it is sent, and what became of it (KIP-42); override what you need.

    What it raises is logged, and the record goes on as if it were not there.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Called in the thread that sends; returns what is to be sent."""
        return record

    def on_ack(self, metadata: RecordMetadata | None, error: DeliveryError | None) -> None:
        """Called on the I/O thread."""


class Ready(NamedTuple):
    """A record that can be put into a batch."""

    topic: str
    partition: int | None
    record: Unwritten
    size_bytes: int


def serde_of(
    field: str, serde: Any, serializer: Callable[[Any], bytes | None] | None
) -> Serde[Any]:
    """The serde that was asked for, as one or as a function."""
    if serializer is not None:
        if serde is not UNSET:
            raise ConfigError(f"give {field}_serde or {field}_serializer, not both")
        if not callable(serializer):
            raise ConfigError(f"{field}_serializer = {serializer!r} is not a function")
        return Functions(dumps=serializer)
    if serde is UNSET:
        return BYTES
    if not callable(getattr(serde, "dumps", None)):
        raise ConfigError(f"{field}_serde = {serde!r} has no method dumps")
    made: Serde[Any] = serde
    return made


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
        self._interceptors = tuple(interceptors)
        self._now_ms = now_ms
        self.is_plain = key_serde is BYTES and value_serde is BYTES and not self._interceptors
        """Whether bytes go out as they came."""
        self.has_interceptors = bool(self._interceptors)

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
        pairs = headers.pairs if isinstance(headers, Headers) else header_pairs(headers)
        wrapped = Headers.of_pairs(pairs) if pairs else NO_HEADERS
        raw_key = _dumped(self._key, key, topic, "key", wrapped)
        raw_value = _dumped(self._value, value, topic, "value", wrapped)
        timestamp_ms = None if timestamp is None else milliseconds(timestamp)
        if self._interceptors:
            seen = self._intercepted(
                ProducerRecord(topic, raw_value, raw_key, partition, wrapped, timestamp_ms)
            )
            topic, partition, timestamp_ms = seen.topic, seen.partition, seen.timestamp_ms
            raw_key, raw_value, pairs = seen.key, seen.value, seen.headers.pairs
        if timestamp_ms is None:
            timestamp_ms = self._now_ms()
        record = (timestamp_ms, raw_key, raw_value, pairs)
        return Ready(topic, partition, record, size_of(raw_key, raw_value, pairs))

    def acknowledge(self, metadata: RecordMetadata | None, error: DeliveryError | None) -> None:
        """Tell interceptors what became of a record."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_ack(metadata, error)
            except Exception:
                log.exception("interceptor failed: %s.on_ack", type(interceptor).__name__)

    def _intercepted(self, record: ProducerRecord) -> ProducerRecord:
        for interceptor in self._interceptors:
            try:
                record = interceptor.on_send(record)
            except Exception:
                log.exception("interceptor failed: %s.on_send", type(interceptor).__name__)
        return record


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
