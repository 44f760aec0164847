"""The pytest plugin: `ottla_broker`, `ottla_topic`, `ottla_group`, the marker and the options.

It is loaded in every test run of whoever has Ottla installed, so nothing but pytest is imported
here: the broker comes with the first test that asks for it.
"""

import re
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

if TYPE_CHECKING:
    from ottla.testing.broker import TestBroker

Settings = tuple[tuple[str, Any], ...]

_BROKER: Final = pytest.StashKey["TestBroker"]()
"""The broker that runs now."""
_SETTINGS: Final = pytest.StashKey[dict[Settings, Settings]]()
"""Equal settings are one object, so that pytest sees that tests can share a broker."""

_ILLEGAL_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_PART: Final = 100
_NO_ID: Final = getattr(pytest, "HIDDEN_PARAM", "ottla")  # since pytest 8.4


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    group = parser.getgroup("ottla", "Ottla: a Kafka broker for tests")
    group.addoption(
        "--ottla-scope",
        default="session",
        choices=["session", "module", "function"],
        help="how long a broker lives (default: session)",
    )
    group.addoption(
        "--ottla-bootstrap",
        metavar="HOST:PORT",
        help="use this cluster, not a broker of our own; tests of faults and time are skipped",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "ottla(**settings): give ottla_broker these settings, e.g. ottla(num_partitions=3) or "
        'ottla(**{"num.partitions": 3})',
    )
    config.stash[_SETTINGS] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tell the broker of a marked test its settings."""
    settings: dict[str, Any] = {}
    for marker in reversed(list(metafunc.definition.iter_markers("ottla"))):
        if marker.args:
            raise pytest.UsageError(
                f"{metafunc.definition.nodeid}: the marker ottla takes settings by name only"
            )
        settings |= {name.replace("_", "."): value for name, value in marker.kwargs.items()}
    if not settings:
        return
    if "ottla_broker" not in metafunc.fixturenames:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: has the marker ottla, but does not use ottla_broker"
        )
    wanted = tuple(sorted(settings.items()))
    shared = metafunc.config.stash[_SETTINGS].setdefault(wanted, wanted)
    metafunc.parametrize("ottla_broker", [shared], indirect=True, ids=[_NO_ID])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End what the test did to a broker that others use, before its fixtures are torn down."""
    broker = item.config.stash.get(_BROKER, None)
    if broker is not None:
        broker.reset()


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    return config.getoption("--ottla-scope")


@pytest.fixture(scope=_scope)
def ottla_broker(request: pytest.FixtureRequest) -> Iterator["TestBroker"]:
    """A broker: `bootstrap_servers` for any client, `produce`, `records`, `faults`, `advance`.

    It lives as long as --ottla-scope says; with pytest-xdist each worker has its own.
    """
    settings: Settings = getattr(request, "param", ())
    bootstrap: str | None = request.config.getoption("--ottla-bootstrap")
    if bootstrap is not None:
        if settings:
            pytest.skip("needs settings of its own, and --ottla-bootstrap names another cluster")
        from ottla.testing.external import ExternalCluster

        with ExternalCluster(bootstrap) as cluster:
            yield cast("TestBroker", cluster)
        return
    from ottla.testing.broker import TestBroker

    with TestBroker(config=dict(settings)) as broker:
        request.config.stash[_BROKER] = broker
        yield broker
        del request.config.stash[_BROKER]


@pytest.fixture
def ottla_topic(request: pytest.FixtureRequest, ottla_broker: "TestBroker") -> str:
    """The name of a topic that no other test uses; nobody has created it yet."""
    return _unused_name(request)


@pytest.fixture
def ottla_group(request: pytest.FixtureRequest, ottla_broker: "TestBroker") -> str:
    """The id of a consumer group that no other test uses."""
    return _unused_name(request)


def _unused_name(request: pytest.FixtureRequest) -> str:
    """Made from the name of the test, for those who read logs, and chance."""
    readable = _ILLEGAL_IN_NAMES.sub("-", request.node.name)[:_LONGEST_PART]
    return f"{readable}-{secrets.token_hex(4)}"
