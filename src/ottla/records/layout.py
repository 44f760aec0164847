"""What lies where in the header of a batch, and what its numbers mean.

The checksum covers everything from the attributes on; base offset and leader epoch lie before it,
so that a broker can set them in place without touching the rest.

    0        8        12       16  17    21         23                 27
    base     batch    leader   ma- crc   attributes last offset delta  base timestamp ...
    offset   length   epoch    gic
    ... 27             35            43           51              53             57            61
        base timestamp max timestamp producer id  producer epoch  base sequence  record count  ...
"""

from struct import Struct
from typing import Final

HEADER: Final = Struct(">qiibIhiqqqhii")
"""All of it, in the order above."""

LOG_OVERHEAD_BYTES: Final = 12
"""Base offset and batch length: what the batch length does not count."""

LENGTH_AT: Final = 8
MAGIC_AT: Final = 16
CRC_AT: Final = 17
CHECKED_FROM: Final = 21
"""Where the attributes lie, and where the part begins that the checksum covers."""
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_AT: Final = 43
"""Where producer id, epoch and base sequence lie, one after the other."""

MAGIC: Final = 2
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

COMPRESSION_BITS: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
