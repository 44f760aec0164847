"""One Spark and one broker for all tests here that do not kill them.

A JVM takes ten seconds and a gigabyte: all tests of a process share one session, and all tests of a
file run in one process (`--dist loadfile`).
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.runner import runtestprotocol

from ottla.spark.sink.brokers import close_kept
from ottla.spark.sink.faults import FOLDER_VARIABLE
from ottla.spark.source.fetching import close_clients
from ottla.testing import TestBroker
from tests.kafka_cluster import OpenBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
TIMEOUT_S = 900
"""Of one test: the first one in a process waits for Java, on a machine that has more to do."""
MAX_ATTEMPTS = 5
TOO_SLOW = "failed to connect back"
"""What Spark says of a Python process that took more than ten seconds to start.

It has no setting for that, and on a loaded machine it happens.
"""
CALM_S = 2.0
MAX_LOOKS = 20

_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test again that Spark ended because a process was `TOO_SLOW`, and for nothing else."""
    if HERE not in item.path.parents:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for _ in range(MAX_ATTEMPTS):
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if not any(report.failed and TOO_SLOW in report.longreprtext for report in reports):
            break
        wait_for_calm()
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def wait_for_calm() -> None:
    """Wait until such a process starts in good time, but not for ever."""
    for _ in range(MAX_LOOKS):
        began_s = time.monotonic()
        subprocess.run([sys.executable, "-c", "import pyspark.sql"], check=True, timeout=TIMEOUT_S)
        if time.monotonic() - began_s < CALM_S:
            return


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """A session on this machine with two threads; a task that fails is tried three times."""
    from pyspark import SparkContext

    from ottla.spark.session import QUICK_START, session

    folder = tmp_path_factory.mktemp("spark")
    # Java and the Python workers inherit it: tests of the sink order accidents there.
    os.environ[FOLDER_VARIABLE] = str(tmp_path_factory.mktemp("faults"))
    made = session(
        "ottla tests",
        master="local[2,3]",
        config={
            **QUICK_START,
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
        },
        log_file=folder / "spark.log",
    )
    gateway = SparkContext._gateway
    assert gateway is not None
    process: subprocess.Popen[bytes] = gateway.proc
    try:
        yield made
    finally:
        made.stop()
        gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None
        if process.stdin is not None:
            process.stdin.close()  # the JVM ends with it
        process.wait(TIMEOUT_S / 3)
        del os.environ[FOLDER_VARIABLE]


@pytest.fixture(autouse=True)
def no_task_leaves_a_client() -> Iterator[None]:
    """Tests do what processes of Spark do, and live on after it."""
    yield
    close_clients()
    close_kept()


@pytest.fixture(scope="session")
def broker(open_broker: OpenBroker) -> Iterator[TestBroker]:
    """A broker for all tests of this folder; with `--kafka=VERSION` it is Apache Kafka."""
    with open_broker({}) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    """The name of a topic that does not exist yet."""
    return f"spark-topic-{next(_numbers)}"
