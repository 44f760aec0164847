"""The keyword arguments that every client takes, for type checkers and editors.

They are the settings of `config.ClientConfig` under their Python names, and a test holds the two
together.  Each client adds its own.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

from ottla.client.config import TokenSource

if TYPE_CHECKING:
    from ssl import SSLContext

Servers: TypeAlias = str | Sequence[str]
"""Brokers to ask first: `host:port`, one or several."""


class ClientOptions(TypedDict, total=False):
    """Settings of all clients; `docs/reference/settings.md` says what they mean."""

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
    sasl_oauth_token: TokenSource
    ssl_cafile: str | PathLike[str]
    ssl_certfile: str | PathLike[str]
    ssl_keyfile: str | PathLike[str]
    ssl_key_password: str
    ssl_cipher_suites: str
    ssl_endpoint_identification_algorithm: Literal["https", "none", ""]
    ssl_context: "SSLContext"
    config: Mapping[str, object]
    """Settings under Kafka's dotted names."""
