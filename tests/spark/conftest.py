"""One Spark and one broker for all tests here that do not kill them.

A JVM takes ten seconds and a gigabyte: all tests of a process share one session, and all tests of a
file run in one process (`--dist loadfile`).
"""

import os
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.spark.sink.faults import FOLDER_VARIABLE
from ottla.testing import TestBroker
from tests.kafka_cluster import OpenBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
TIMEOUT_S = 300
"""Of one test: the first one in a process waits for Java, on a machine that has more to do."""

_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


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
        process.wait(60)
        del os.environ[FOLDER_VARIABLE]


@pytest.fixture(scope="session")
def broker(open_broker: OpenBroker) -> Iterator[TestBroker]:
    """A broker for all tests of this folder; with `--kafka=VERSION` it is Apache Kafka."""
    with open_broker({}) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    """The name of a topic that does not exist yet."""
    return f"spark-topic-{next(_numbers)}"
