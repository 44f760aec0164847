"""Other people's record batches, to compare ours with: kafka-python's and aiokafka's."""

import warnings
from collections.abc import Iterable
from typing import Any

from aiokafka.record import default_records as aiokafka_records

with warnings.catch_warnings():
    # kafka-python reads its own schemas with a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as kafka_python_murmur2
    from kafka.record import default_records as kafka_python_records

__all__ = ["PEERS", "aiokafka_records", "kafka_python_murmur2", "kafka_python_records"]

PEERS = {"kafka-python": kafka_python_records, "aiokafka": aiokafka_records}


def peer_batch(
    peer: Any,
    records: Iterable[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    *,
    compression: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    is_transactional: bool = False,
) -> bytes:
    """A batch of `records` as the peer builds it."""
    producer_id, producer_epoch, base_sequence = producer
    builder = peer.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=int(is_transactional),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=1 << 30,
    )
    for offset, (timestamp_ms, key, value, headers) in enumerate(records):
        builder.append(offset, timestamp_ms, key, value, headers)
    return bytes(builder.build())


def read_by_peer(peer: Any, data: bytes) -> list[tuple[Any, ...]]:
    """The records of a batch as the peer reads them."""
    batch = peer.DefaultRecordBatch(bytearray(data))
    assert batch.validate_crc()
    return [
        (
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            tuple((key, value) for key, value in record.headers),
        )
        for record in batch
    ]
