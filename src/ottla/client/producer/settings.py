"""The settings of a producer as its constructor takes them, for type checkers.

What each of them means stands in `config`; a test compares the two.
"""

from collections.abc import Sequence
from typing import Any, Literal

from ottla.client.options import ClientOptions
from ottla.client.producer.config import Partitioner


class ProducerSettings(ClientOptions, total=False):
    """What a producer takes beside that."""

    acks: Literal["all", 0, 1, -1]
    enable_idempotence: bool
    transactional_id: str
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool
    linger_ms: float
    batch_size: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    delivery_timeout_ms: int
    retries: int
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    partitioner: Partitioner | Literal["murmur2", "consistent_random", "round_robin", "sticky"]
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    partitioner_rack_aware: bool
    client_rack: str
    metadata_max_idle_ms: int
    allow_auto_create_topics: bool
    interceptors: Sequence[Any]
