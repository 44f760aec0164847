"""What a console is told when it starts."""

import secrets
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final

from ottla.errors import ConfigError

MAX_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """Where the cluster is, where the console listens, and who may do what."""

    bootstrap_servers: str
    client: dict[str, Any] = field(default_factory=dict)
    """More settings of the clients: TLS, SASL."""
    metrics_url: str | None = None
    """The page for Prometheus of a broker of ours, which tells bytes that were read and times."""
    host: str = "127.0.0.1"
    port: int = 8080
    is_read_only: bool = False
    password: str | None = None
    """None: everybody may come in, which is allowed on the loopback address only."""
    timeout_s: float = MAX_TIMEOUT_S
    """How long a page waits for an answer of the cluster."""
    interval_s: float = 2.0
    search_s: float = 5.0
    """For so long a search for records looks at most; then the page shows how far it came."""

    def __post_init__(self) -> None:
        if self.password is None and not self.is_loopback:
            raise ConfigError(f"{self.host} can be reached from elsewhere: a password is needed")
        if self.password == "":
            raise ConfigError("an empty password is none")

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def client_options(self) -> dict[str, Any]:
        """For clients that whoever looks at a page waits for: they give up soon, and say so."""
        timeout_ms = round(self.timeout_s * 1000)
        timeouts = {"request_timeout_ms": timeout_ms, "default_api_timeout_ms": timeout_ms}
        return {**timeouts, **self.client}


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def new_password() -> str:
    """A password for whoever did not bring one."""
    return secrets.token_urlsafe(12)
