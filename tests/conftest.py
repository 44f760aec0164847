"""How hard property tests search, and which broker the tests of our clients have.

Property tests are quick by default, and the same search every time, so that a change breaks the
build only if it broke the code.  `HYPOTHESIS_PROFILE=search` looks elsewhere each time, and ten
times longer.

Our clients have our own broker, in this process; with `--kafka=VERSION` they have Apache Kafka.
"""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.kafka_cluster import Brokers, OpenBroker

settings.register_profile("quick", max_examples=50, deadline=None, derandomize=True, database=None)
settings.register_profile(
    "search", max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start what runs in the background this way; tests press Ctrl-C all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kafka",
        metavar="VERSION",
        help="test our clients with this version of Apache Kafka, not with our own broker",
    )


@pytest.fixture(scope="session")
def open_broker(request: pytest.FixtureRequest) -> Iterator[OpenBroker]:
    """Opens brokers for tests of our clients: `with open_broker(settings) as broker:`."""
    with Brokers(request.config.getoption("--kafka")) as brokers:
        yield brokers.open
