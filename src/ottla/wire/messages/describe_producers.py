"""DescribeProducers (key 61): the producers that a partition remembers, and their transactions.

v0  the only version                                      (KIP-664)

It goes to the leader of the partition, and finds transactions that hold consumers back.
"""

from ottla.wire.schema import Int16, Int32, Int64, String, message, struct


@struct
class TopicRequest:
    name: String
    partition_indexes: tuple[Int32, ...]


@message(key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    topics: tuple[TopicRequest, ...]


@struct
class ProducerState:
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1  # in ms
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1  # -1: no transaction


@struct
class PartitionResponse:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: tuple[ProducerState, ...]


@struct
class TopicResponse:
    name: String
    partitions: tuple[PartitionResponse, ...]


@message(key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[TopicResponse, ...]
