"""Settings of admin clients."""

from dataclasses import dataclass

from ottla.client.config import ClientConfig
from ottla.config import INT32_MAX, MINUTE_MS, Kind, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig(ClientConfig):
    """How an admin client asks, and how often."""

    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms", 5 * MINUTE_MS, kind=Kind.LONG, low=-1
    )
    """A connection that nobody used for so long is closed; -1 keeps it."""

    retries: int = setting("retries", INT32_MAX, low=0)
    """How often a request that failed is repeated, within the timeout of the call."""
