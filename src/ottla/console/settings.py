"""What a console is told when it starts."""

import secrets
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from ottla.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """Where the cluster is, where the console listens, and who may do what."""

    bootstrap_servers: str
    client: dict[str, Any] = field(default_factory=dict)
    """More settings of the clients: TLS, SASL."""
    host: str = "127.0.0.1"
    port: int = 8080
    is_read_only: bool = False
    password: str | None = None
    """None: everybody may come in, which is allowed on the loopback address only."""
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
