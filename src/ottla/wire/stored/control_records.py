"""Records that end transactions: key and value of the one record in a control batch.

The key is an int16 version and a type, 0 abort or 1 commit; the value is an int16 version and an
`EndTxnMarker`.  Types 2 to 6 are the metadata quorum's own, which Ottla does not have; a reader
skips what it does not know.  A version newer than ours is read as ours.
"""

from ottla.wire.schema import Int16, Int32, message


@message(versions="0")
class ControlRecordTypeSchema:
    type: Int16  # 0: abort, 1: commit


@message(versions="0")
class EndTxnMarker:
    coordinator_epoch: Int32
