"""One batch on its way: records that wait, then bytes that are sent, perhaps more than once.

Pure, but for the futures of its records (`delivery`).  Bytes are made once, when the batch leaves;
a batch that is sent again is the same bytes, and so the same batch to the broker, unless it gets
another producer's stamp.
"""

from collections.abc import Callable
from dataclasses import replace
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.client.producer.delivery import Delivery
from ottla.records.builder import BatchOptions, build
from ottla.records.kernel import kernel
from ottla.records.layout import (
    CHECKED_FROM,
    CRC_AT,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    PRODUCER_AT,
    TRANSACTIONAL_BIT,
)
from ottla.records.shapes import BATCH_HEADER_BYTES, Unwritten

if TYPE_CHECKING:
    from ottla.client.producer.lines import Line

MAX_SEQUENCE: Final = 2**31 - 1
_STAMP: Final = Struct(">qhi")
_UINT16: Final = Struct(">H")
_UINT32: Final = Struct(">I")


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
        "created_ms",
        "data",
        "delivery",
        "first_index",
        "is_awaited",
        "is_done",
        "is_in_doubt",
        "line",
        "not_before_ms",
        "numbering",
        "order",
        "record_count",
        "records",
        "size_bytes",
        "stamp",
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
        self.records: list[Unwritten] = []
        self.data: bytearray | None = None
        self.record_count = 0
        """Known when it leaves, or when it came as bytes."""
        self.size_bytes = BATCH_HEADER_BYTES
        self.stamp: Stamp | None = None
        self.numbering = 0
        """Which numbering of the line its stamp belongs to."""
        self.attempt_count = 0
        self.not_before_ms: float = 0
        self.is_awaited = False
        self.is_in_doubt = False
        """Whether it was sent, and nobody knows whether it was written."""
        self.is_done = False

    def made_ready(self, stamp: Stamp, options: BatchOptions) -> None:
        """Give it a stamp for good, and bytes if it has none; `options` say how to compress."""
        if self.data is None:
            stamped = replace(
                options,
                producer_id=stamp.producer_id,
                producer_epoch=stamp.producer_epoch,
                base_sequence=stamp.sequence,
                is_transactional=stamp.is_transactional,
            )
            self.data = build(self.records, stamped)
        elif stamp != (self.stamp or NO_STAMP):
            write_stamp(self.data, stamp)
        self.stamp = stamp

    def halves(self) -> "tuple[PendingBatch, PendingBatch]":
        """Two batches in its place, for a broker that finds it too large."""
        assert len(self.records) > 1, "one record cannot be split"
        middle = len(self.records) // 2
        self.delivery.split()
        return self._part(0, self.records[:middle]), self._part(middle, self.records[middle:])

    def _part(self, start: int, records: list[Unwritten]) -> "PendingBatch":
        number, _ = self.order
        part = PendingBatch(self.line, number, self.created_ms, lambda _: None)
        part.delivery = self.delivery
        part.first_index = self.first_index + start
        part.order = (number, part.first_index)
        part.records = records
        part.record_count = len(records)
        first_share = self.size_bytes * (start or len(records)) // len(self.records)
        part.size_bytes = self.size_bytes - first_share if start else first_share
        part.attempt_count = self.attempt_count
        return part


def write_stamp(data: bytearray, stamp: Stamp) -> None:
    """Write into a finished batch who sends it, and its checksum."""
    _STAMP.pack_into(data, PRODUCER_AT, stamp.producer_id, stamp.producer_epoch, stamp.sequence)
    (attributes,) = _UINT16.unpack_from(data, CHECKED_FROM)
    attributes &= ~TRANSACTIONAL_BIT
    if stamp.is_transactional:
        attributes |= TRANSACTIONAL_BIT
    _UINT16.pack_into(data, CHECKED_FROM, attributes)
    with memoryview(data) as view:
        _UINT32.pack_into(data, CRC_AT, kernel.crc32c(view[CHECKED_FROM:]))
