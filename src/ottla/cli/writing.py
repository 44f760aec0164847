"""Sending records to one topic, and counting what became of each.

Records with a key go where Java's producer sends them; records without take turns.  Nothing is lost
in silence: a record that was not acknowledged is counted as refused, or, where nobody knows, as one
that may be written.
"""

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.connection import Connection
from ottla.cli.inputs import Outgoing
from ottla.errors import BrokerError, DeliveryError, ErrorCode, RequestError
from ottla.values import dataclass

if TYPE_CHECKING:
    from ottla.client.producer.producer import Producer
    from ottla.client.results import RecordMetadata

BATCH_BYTES: Final = 1_000_000
"""Below max.message.bytes as it is by default, 1,048,588."""

MAX_RECORD_BYTES: Final = 100 * 1024 * 1024
"""As much as a broker reads in one request; how large a record may be, the topic says."""

CREATION_WAIT_S: Final = 15.0
LINGER_MS: Final = 100
"""Who has no more lines for the moment says so, and nothing waits; so batches may fill."""


@dataclass(slots=True)
class Tally:
    """How far it came."""

    record_count: int = 0
    """Acknowledged, or with acks=0 sent."""
    later_count: int = 0
    """Those of them that came after the first failure."""
    doubtful_count: int = 0
    """Sent without an answer: they may be written or not."""
    value_bytes: int = 0
    """Of keys and values, of all that was sent."""
    failure: DeliveryError | None = None
    """Why the first record was not written that was not."""

    def note(self, _metadata: "RecordMetadata | None", error: DeliveryError | None) -> None:
        """What became of one record; called by the producer's own thread."""
        if error is None:
            self.record_count += 1
            self.later_count += self.failure is not None
            return
        self.failure = self.failure or error
        self.doubtful_count += is_doubtful(error)


def is_doubtful(error: DeliveryError) -> bool:
    """Whether the record may be written all the same: nobody refused it."""
    refused = isinstance(error.cause, BrokerError)
    return not refused or error.code is ErrorCode.REQUEST_TIMED_OUT


class Turns:
    """The partitioner of records without a key: one after the other."""

    def __init__(self) -> None:
        self._numbers = count()

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int]
    ) -> int:
        from ottla.client.producer.partitioners import murmur2

        number = next(self._numbers) if key is None else murmur2(key)
        return partitions[number % len(partitions)]


class Writer:
    """Writes records to one topic.  `flush` before you look at `tally`."""

    def __init__(self, producer: "Producer[Any, Any]", topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._partitions: Sequence[int] = ()
        self.tally = Tally()

    def find_topic(self, timeout_s: float) -> None:
        """Wait for the topic; a broker that creates topics on demand gets a moment for it.

        Raises:
            UnknownTopicError: There is no such topic, and it is not created.
        """
        wait_s = min(timeout_s, CREATION_WAIT_S)
        self._partitions = self._producer.partitions_for(self._topic, wait_s)

    def add(self, record: Outgoing, partition: int | None = None) -> None:
        """Send a record; raises the failure of an earlier one, if there is one."""
        if partition is not None and partition not in self._partitions:
            raise RequestError(
                ErrorCode.INVALID_PARTITIONS,
                f"topic {self._topic!r} has no partition {partition}, "
                f"only 0 to {len(self._partitions) - 1}",
            )
        self._raise_failure()
        timestamp_ms, key, value, headers = record
        self._producer.send(
            self._topic,
            value,
            key=key,
            partition=partition,
            headers=headers,
            timestamp=timestamp_ms if timestamp_ms >= 0 else None,
            on_delivery=self.tally.note,
        )
        self.tally.value_bytes += len(value or b"") + len(key or b"")

    def flush(self) -> None:
        """Wait until it is known what became of every record; raise the first failure."""
        self.settle()
        self._raise_failure()

    def settle(self) -> None:
        """As `flush`, but raise nothing: `tally` has it."""
        self._producer.flush()

    @property
    def sent_bytes(self) -> int:
        """Of batches, as they went over the wire."""
        return int(self._producer.metrics().get("byte-total", 0))

    def _raise_failure(self) -> None:
        if self.tally.failure is not None:
            raise self.tally.failure


def producer_for(
    connection: Connection, *, acks: Any, compression: Any, batch_bytes: int = BATCH_BYTES
) -> "Producer[Any, Any]":
    """A producer for large batches, of records of any size."""
    return connection.producer(
        acks=acks,
        compression_type=compression,
        batch_size=batch_bytes,
        linger_ms=LINGER_MS,
        max_request_size=MAX_RECORD_BYTES,
        buffer_memory=MAX_RECORD_BYTES + batch_bytes,
        partitioner=Turns(),
    )
