"""What lies next to a segment: aborted transactions, and producers.

`AbortedTxn` is one entry of a `.txnindex` file: an int16 version and then the body, 34 bytes each,
appended when the marker that aborts the transaction is written to the segment.  A transaction may
have begun in an earlier segment.

`ProducerSnapshot` is a whole `.snapshot` file, named by an offset: what was known of producers when
the log ended there.  An int16 version comes first, then the CRC-32C of all bytes after it: of the
producer entries, but not of the version.  Recovery reads the newest snapshot that is intact, and
then the log from there on.
"""

from ottla.wire.schema import Int16, Int32, Int64, UInt32, message, struct


@message(versions="0")
class AbortedTxn:
    producer_id: Int64
    first_offset: Int64
    last_offset: Int64  # of the marker
    last_stable_offset: Int64  # when the marker was written


@struct
class ProducerEntry:
    producer_id: Int64
    epoch: Int16
    last_sequence: Int32  # -1: none
    last_offset: Int64
    offset_delta: Int32  # of the last batch: last offset - first offset
    timestamp: Int64  # in ms, the largest of the last batch
    coordinator_epoch: Int32  # of the last marker
    current_txn_first_offset: Int64  # -1: no transaction


@message(versions="1")
class ProducerSnapshot:
    crc: UInt32  # CRC-32C of what follows
    producer_entries: tuple[ProducerEntry, ...]
