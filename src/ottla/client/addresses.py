"""Addresses of brokers, as people write them."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.errors import ConfigError

DEFAULT_PORT: Final = 9092
DEFAULT_BOOTSTRAP: Final = f"localhost:{DEFAULT_PORT}"


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(servers: Iterable[str]) -> list[Address]:
    """The addresses in a list like `localhost:9092`, `[::1]:9093`; the port may be left out."""
    addresses = [_parse_address(part.strip()) for part in servers if part.strip()]
    if not addresses:
        raise ConfigError(f"bootstrap.servers names no broker, like {DEFAULT_BOOTSTRAP}")
    return addresses


def _parse_address(text: str) -> Address:
    host, port = text, str(DEFAULT_PORT)
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        port = rest.removeprefix(":") or port
        if not bracket or (rest and not rest.startswith(":")):
            raise ConfigError(f"{text!r} is not an address like [::1]:{DEFAULT_PORT}")
    elif text.count(":") == 1:
        host, port = text.split(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ConfigError(f"{text!r} is not an address like {DEFAULT_BOOTSTRAP}")
    return Address(host, int(port))
