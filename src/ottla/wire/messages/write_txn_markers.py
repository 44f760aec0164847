"""WriteTxnMarkers (key 27): a coordinator tells partitions how a transaction ended.

v1  the oldest version since Kafka 4.0; first flexible version  (KIP-896)
v2  adds transaction_version, by which the epoch is checked     (KIP-1228)

Spoken between brokers, and by admin clients that abort a hanging transaction (KIP-664).
"""

from ottla.wire.schema import Bool, Int8, Int16, Int32, Int64, String, at, message, struct


@struct
class WritableTxnMarkerTopic:
    name: String
    partition_indexes: tuple[Int32, ...]


@struct
class WritableTxnMarker:
    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool  # true: committed
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: Int32
    transaction_version: Int8 = at("2+", default=0, ignorable=True)  # 0 or 1: v1, 2: v2


@message(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest:
    markers: tuple[WritableTxnMarker, ...]


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class WritableTxnMarkerTopicResult:
    name: String
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]


@struct
class WritableTxnMarkerResult:
    producer_id: Int64
    topics: tuple[WritableTxnMarkerTopicResult, ...]


@message(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse:
    markers: tuple[WritableTxnMarkerResult, ...]
