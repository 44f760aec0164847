"""The table of what a broker serves, beside the handlers and the messages that there are."""

import pkgutil
from inspect import signature

import pytest

from ottla.broker import handlers
from ottla.broker.dispatch import SERVED, load_handler, routes
from ottla.wire.registry import ApiKey, api
from ottla.wire.schema import Versions


def test_every_handler_is_in_the_table_and_has_its_module() -> None:
    modules = {module.name for module in pkgutil.iter_modules(handlers.__path__)}
    assert {key.name.lower() for key in SERVED} == modules
    assert list(SERVED) == sorted(SERVED)


@pytest.mark.parametrize("key", SERVED)
def test_a_handler_takes_a_request_and_what_it_may_use(key: ApiKey) -> None:
    assert list(signature(load_handler(key)).parameters) == ["request", "context"]


@pytest.mark.parametrize("key", SERVED)
def test_only_declared_versions_are_served(key: ApiKey) -> None:
    served, declared = Versions.parse(SERVED[key]), api(key).versions
    assert declared.low <= served.low <= served.high <= declared.high


def test_a_route_finds_its_handler_when_it_is_first_called() -> None:
    route = routes()[ApiKey.HEARTBEAT]
    stand_in = route.handler
    with pytest.raises(AttributeError):
        route.handler(None, None)
    assert route.handler is load_handler(ApiKey.HEARTBEAT) is not stand_in
    assert routes()[ApiKey.HEARTBEAT].handler is not route.handler, "brokers share no routes"
