"""API key -> handler, and what ApiVersions says of it.

A handler takes the decoded request and a `Context` and returns the response, or an awaitable of
it if it has to wait.  It is declared with the versions it serves:

    @handles(HeartbeatRequest, versions="0-4")
    def heartbeat(request: HeartbeatRequest, context: Context) -> HeartbeatResponse: ...

The handlers of a broker are exactly the modules of `ottla.broker.handlers`.
"""

import pkgutil
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeVar

from ottla.values import dataclass
from ottla.wire.registry import Api, ApiKey, api
from ottla.wire.schema import Versions, api_of

Handler = Callable[[Any, Any], Any | Awaitable[Any]]
H = TypeVar("H", bound=Handler)


@dataclass(frozen=True, slots=True)
class Route:
    """How one API is served."""

    api: Api
    versions: Versions
    handler: Handler


_routes: Final[dict[ApiKey, Route]] = {}


def handles(request: type[Any], *, versions: str) -> Callable[[H], H]:
    """Declare a function as the handler of `request`, in the versions it serves."""
    number = api_of(request).key
    assert number is not None, f"{request.__name__} is not a request"
    key = ApiKey(number)
    served = Versions.parse(versions)
    declared = api_of(request).versions
    assert declared.low <= served.low <= served.high <= declared.high, f"{key.name} {versions}"

    def register(handler: H) -> H:
        assert key not in _routes, f"{key.name} has two handlers"
        _routes[key] = Route(api(key), served, handler)
        return handler

    return register


def routes() -> Mapping[int, Route]:
    """All routes, by API key; imports the handlers on first use."""
    _import_handlers()
    return dict(sorted(_routes.items()))


@cache
def _import_handlers() -> None:
    package = import_module("ottla.broker.handlers")
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"ottla.broker.handlers.{module.name}")
