"""Spark's own Kafka connector, from Maven, with our broker: it takes it for Kafka."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.testing import TestBroker
from tools.maven import UnavailableError
from tools.spark_connector import connector_jars

ROOT = Path(__file__).parents[2]
JOB = "tests.kafka.spark_job"
TIMEOUT_S = 600


@pytest.fixture(scope="module")
def connector(pytestconfig: pytest.Config) -> str:
    """Its jars, as Spark wants to be told of them."""
    if pytestconfig.getoption("--kafka") is None:
        pytest.skip("needs jars from Maven: run `make compat-kafka`")
    try:
        return connector_jars()
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


def abort(producer: ottla.Producer) -> None:
    with producer.transaction() as dropped:
        dropped.send("in", b"aborted", partition=1)
        raise ZeroDivisionError


@pytest.mark.timeout(TIMEOUT_S)
def test_it_reads_and_writes_batches_and_streams(
    broker: TestBroker, connector: str, tmp_path: Path
) -> None:
    broker.create_topic("in", partitions=2)
    with ottla.Producer(broker.bootstrap_servers) as plain:
        for number in range(100):
            plain.send("in", b"%d" % number, partition=0, headers={"n": b"x"})
    with ottla.Producer(broker.bootstrap_servers, transactional_id="t") as producer:
        with producer.transaction() as kept:
            kept.send("in", b"committed", partition=1)
        with pytest.raises(ZeroDivisionError):
            abort(producer)

    done = subprocess.run(
        [sys.executable, "-m", JOB, broker.bootstrap_servers, str(tmp_path), connector],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr + (tmp_path / "spark.log").read_text("utf-8")
    expected = [[0, number, str(number), 1] for number in range(100)]
    assert json.loads(done.stdout) == [*expected, [1, 0, "committed", None]]
    values = sorted([b"%d" % number for number in range(100)] + [b"committed"])
    assert sorted(record.value or b"" for record in broker.records("out")) == values
    assert sorted(record.value or b"" for record in broker.records("streamed")) == values
    (seven,) = [record for record in broker.records("out") if record.value == b"7"]
    assert list(seven.headers) == [("n", b"x")]
