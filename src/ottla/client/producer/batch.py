"""One batch on its way: records that wait, then bytes that are sent, perhaps more than once.

Pure, but for the futures of its records (`delivery`).  Records are written as they come, and get
their header when the batch leaves; a batch that is sent again is the same bytes, and so the same
batch to the broker, unless it gets another producer's stamp.
"""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.client.producer.delivery import Delivery
from ottla.records.batch import Batch
from ottla.records.builder import BatchOptions, finish, seal
from ottla.records.kernel import kernel
from ottla.records.layout import (
    CHECKED_FROM,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    PRODUCER_AT,
    TRANSACTIONAL_BIT,
)
from ottla.records.shapes import BATCH_HEADER_BYTES, Encoded, Unwritten

if TYPE_CHECKING:
    from ottla.client.producer.lines import Line
    from ottla.records.plain_writer import Writer

MAX_SEQUENCE: Final = 2**31 - 1
_STAMP: Final = Struct(">qhi")
_LOW_ATTRIBUTES_AT: Final = CHECKED_FROM + 1
"""The second byte of the attributes, which has the bit of transactions."""


class Stamp(NamedTuple):
    """Who wrote a batch, and how many records before it."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    sequence: int = NO_SEQUENCE
    is_transactional: bool = False


NO_STAMP: Final = Stamp()


def sequence_after(sequence: int, record_count: int) -> int:
    """Sequence numbers wrap around, as the protocol says."""
    return (sequence + record_count) & MAX_SEQUENCE


class PendingBatch:
    """Records for one partition, from `send` until somebody knows what became of them."""

    __slots__ = (
        "attempt_count",
        "body_crc",
        "created_ms",
        "data",
        "delivery",
        "encoded",
        "first_index",
        "is_awaited",
        "is_done",
        "is_in_doubt",
        "is_sealed",
        "line",
        "not_before_ms",
        "numbering",
        "order",
        "record_count",
        "size_bytes",
        "stamp",
        "writer",
    )

    def __init__(
        self, line: "Line", number: int, created_ms: float, hasten: Callable[["PendingBatch"], None]
    ) -> None:
        self.line = line
        self.order = (number, 0)
        """Its place in the line; parts of a batch follow each other."""
        self.created_ms = created_ms
        self.delivery = Delivery(line.topic, line.partition, lambda: hasten(self))
        self.first_index = 0
        self.writer: Writer = kernel.Writer(headroom_bytes=BATCH_HEADER_BYTES)
        """Where records go as long as it is open."""
        self.encoded: Encoded | None = None
        """What was written, from when it is closed until it is made ready."""
        self.data: bytearray | None = None
        self.body_crc: int | None = None
        """The checksum of what is behind its header, if it came as bytes."""
        self.is_sealed = False
        """Whether the bytes have their checksum."""
        self.record_count = 0
        """Known when it is closed, or when it came as bytes."""
        self.size_bytes = BATCH_HEADER_BYTES
        """Of the memory that it has; what was written so far may be less."""
        self.stamp: Stamp | None = None
        self.numbering = 0
        """Which numbering of the line its stamp belongs to."""
        self.attempt_count = 0
        self.not_before_ms: float = 0
        self.is_awaited = False
        self.is_in_doubt = False
        """Whether it was sent, and nobody knows whether it was written."""
        self.is_done = False

    @property
    def records(self) -> list[Unwritten]:
        """The records of a batch that is closed, read back from its bytes."""
        self.close()
        data = self.data
        if data is None:
            assert self.encoded is not None
            data = finish(self.encoded, _UNCOMPRESSED)
        return [record[1:] for record in Batch.parse(data).records()]

    @property
    def has_left(self) -> bool:
        """Whether it was sent at least once, or was given up."""
        return self.stamp is not None or self.is_done

    def has_room_for(self, size_bytes: int) -> bool:
        """Whether records of this size fit into a batch of the line; it is open."""
        return self.writer.size_bytes + size_bytes <= self.line.limit_bytes

    def close(self) -> int:
        """Let nothing more in; returns how much of its memory it does not need."""
        if self.data is not None or self.encoded is not None:
            return 0
        self.encoded = self.writer.encoded()
        self.record_count = self.encoded.record_count
        spare_bytes = max(0, self.size_bytes - len(self.encoded.data))
        self.size_bytes -= spare_bytes
        return spare_bytes

    def made_ready(self, stamp: Stamp, options: BatchOptions) -> None:
        """Give it a stamp for good, and a header if it has none; `options` say how to compress."""
        if self.data is None:
            assert self.encoded is not None, "it is open"
            self.data = finish(self.encoded, options)
            self.encoded = None
        if not self.is_sealed or stamp != self.stamp:
            write_stamp(self.data, stamp, self.body_crc)
            self.is_sealed = True
        self.stamp = stamp

    def forget(self) -> None:
        """Let go of the records, when it is known what became of them."""
        self.writer, self.encoded, self.data = _NOTHING, None, None

    def halves(self) -> "tuple[PendingBatch, PendingBatch]":
        """Two batches in its place, for a broker that finds it too large."""
        records = self.records
        assert len(records) > 1, "one record cannot be split"
        middle = len(records) // 2
        self.delivery.split()
        return self._part(0, records[:middle]), self._part(middle, records[middle:])

    def _part(self, start: int, records: list[Unwritten]) -> "PendingBatch":
        number, _ = self.order
        part = PendingBatch(self.line, number, self.created_ms, lambda _: None)
        part.delivery = self.delivery
        part.first_index = self.first_index + start
        part.order = (number, part.first_index)
        part.writer.extend(records)
        part.record_count = len(records)
        first_share = self.size_bytes * (start or len(records)) // self.record_count
        part.size_bytes = self.size_bytes - first_share if start else first_share
        part.attempt_count = self.attempt_count
        return part


_NOTHING: Final = kernel.Writer()
_UNCOMPRESSED: Final = BatchOptions()


def write_stamp(data: bytearray, stamp: Stamp, body_crc: int | None = None) -> None:
    """Write into a batch who sends it, and seal it."""
    _STAMP.pack_into(data, PRODUCER_AT, stamp.producer_id, stamp.producer_epoch, stamp.sequence)
    if stamp.is_transactional:
        data[_LOW_ATTRIBUTES_AT] |= TRANSACTIONAL_BIT
    else:
        data[_LOW_ATTRIBUTES_AT] &= ~TRANSACTIONAL_BIT
    seal(data, body_crc)
