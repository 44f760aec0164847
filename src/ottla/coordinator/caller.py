"""Who asks a coordinator."""

from ottla.values import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: as it calls itself, where it is, and in which version it speaks."""

    client_id: str
    client_host: str
    version: int
