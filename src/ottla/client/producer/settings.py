"""The settings of a producer as its constructor takes them, for type checkers.

What each of them means stands in `config`; a test compares the two.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from ottla.client.producer.config import Partitioner

if TYPE_CHECKING:
    from ssl import SSLContext

    from ottla.client.config import TokenSource

Servers: TypeAlias = str | Sequence[str]


class CommonSettings(TypedDict, total=False):
    """What every client takes."""

    client_id: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    metadata_recovery_rebootstrap_trigger_ms: int
    metadata_cluster_check_enable: bool
    max_in_flight_requests_per_connection: int
    receive_message_max_bytes: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    sasl_username: str
    sasl_password: str
    sasl_oauth_token: "TokenSource"
    ssl_cafile: str | PathLike[str]
    ssl_certfile: str | PathLike[str]
    ssl_keyfile: str | PathLike[str]
    ssl_key_password: str
    ssl_cipher_suites: str
    ssl_endpoint_identification_algorithm: Literal["https", "none", ""]
    ssl_context: "SSLContext"
    config: Mapping[str, object]
    """Settings under Kafka's dotted names."""


class ProducerSettings(CommonSettings, total=False):
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
    interceptors: Sequence[Any]
