"""How hard property tests search, which broker the tests of our clients have, and who closes them.

Property tests are quick by default, and the same search every time, so that a change breaks the
build only if it broke the code.  `HYPOTHESIS_PROFILE=search` looks elsewhere each time, and ten
times longer.

Our clients have our own broker, in this process; with `--kafka=VERSION` they have Apache Kafka.
"""

import logging
import os
import pkgutil
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from tests.kafka_cluster import Brokers, OpenBroker
from tests.open_clients import left_open, open_clients

UNTIMED: Final[dict[str, Any]] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
"""How long something takes says more about the machine, and what else it does just now."""

settings.register_profile("quick", max_examples=50, derandomize=True, database=None, **UNTIMED)
settings.register_profile("search", max_examples=500, **UNTIMED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


for library in ("aiokafka", "kafka"):
    # What they leave behind may complain while a later test looks at what is logged.
    logging.getLogger(library).propagate = False

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start what runs in the background this way; tests press Ctrl-C all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)


PARSES_ALONE: Final = sys.version_info < (3, 11, 8) or (3, 12) <= sys.version_info < (3, 12, 2)
"""Python's bug 106905: a parse fails if another thread parses at the same time.

And pytest parses what it imports of us, since our distribution has a plugin of its own.
"""
IN_THREADS: Final = ("broker", "client", "cluster", "coordinator", "log", "runtime")
"""The packages of which brokers and clients import something when they first need it."""


def pytest_collection_finish() -> None:
    """Import what threads would import: then at most one thread does."""
    if not PARSES_ALONE:
        return
    for name in IN_THREADS:
        package = import_module(f"ottla.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kafka",
        metavar="VERSION",
        help="test our clients with this version of Apache Kafka, not with our own broker",
    )


@pytest.fixture(scope="module", autouse=True)
def no_client_is_left_open(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a module that leaves clients behind: they would complain in the middle of others."""
    before = open_clients()
    yield
    left = left_open(before)
    assert not left, f"{request.node.nodeid} has not closed {', '.join(left)}"


@pytest.fixture(scope="session")
def open_broker(request: pytest.FixtureRequest) -> Iterator[OpenBroker]:
    """Opens brokers for tests of our clients: `with open_broker(settings) as broker:`."""
    with Brokers(request.config.getoption("--kafka")) as brokers:
        yield brokers.open
