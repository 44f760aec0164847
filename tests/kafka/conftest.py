"""One guarded Kafka for all tests of this folder; without `--kafka` they are skipped."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

import pytest

import ottla
from tests.kafka.guarded import PASSWORD, USER, Door, guarded
from tools.maven import UnavailableError

_numbers = count(1)


@pytest.fixture(scope="session")
def door(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    version: str | None = pytestconfig.getoption("--kafka")
    if version is None:
        pytest.skip("needs Apache Kafka: run `make compat-kafka`")
    with ExitStack() as running:
        try:
            kafka = running.enter_context(guarded(version))
        except UnavailableError as error:
            pytest.skip(f"needs Apache Kafka: {error}")
        with ottla.Admin(kafka.bootstrap_servers) as admin:
            admin.set_scram_password(USER, PASSWORD, mechanism="SCRAM-SHA-256")
            admin.set_scram_password(USER, PASSWORD, mechanism="SCRAM-SHA-512")
        yield Door(kafka, tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def admin(door: Door) -> Iterator[ottla.Admin]:
    """The administrator, who may do everything."""
    with ottla.Admin(door.kafka.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def topic(admin: ottla.Admin) -> str:
    name = f"guarded-{next(_numbers)}"
    admin.create_topic(name)
    return name
