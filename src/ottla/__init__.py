"""Kafka's little sister: a streaming log that speaks the Apache Kafka protocol.

    with ottla.Broker() as broker:
        ...  # any Kafka client, at broker.bootstrap_servers

The clients will be importable from here too.  Names are imported when they are first used, so
importing this package stays free of heavy imports: no asyncio, click, pyarrow or compression
wheels.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ottla.broker.embedded import Broker

__all__ = ["Broker", "__version__"]

__version__ = "0.1.0.dev0"

_HOMES: Final = {"Broker": "ottla.broker.embedded"}


def __getattr__(name: str) -> Any:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    found = getattr(import_module(home), name)
    globals()[name] = found
    return found
