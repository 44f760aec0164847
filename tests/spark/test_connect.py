"""`format("ottla")` and pipelines with a session of Spark Connect.

It needs packages that our other tests do without: `make compat-connect` has them, and where they
are missing, this is skipped.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipeline.state import STATE_VARIABLE
from ottla.testing import TestBroker
from tests.spark.connect_packages import needs_connect

TIMEOUT_S = 600


@needs_connect
@pytest.mark.timeout(TIMEOUT_S + 60)
def test_a_session_of_spark_connect_reads_writes_streams_and_runs_pipelines(tmp_path: Path) -> None:
    values = ['{"id": 1, "amount": 5}', '{"id": 2, "amount": 0}', "nonsense"]
    with TestBroker() as broker:
        for topic in ("in", "batch", "stream"):
            broker.create_topic(topic)
        broker.produce("in", *values)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.spark.connect_job"),
                *(broker.bootstrap_servers, str(tmp_path)),
            ],
            env={**os.environ, STATE_VARIABLE: str(tmp_path / "state")},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-6000:]
        assert done.stdout.splitlines()[-1] == "3 1 1"
        whole = [value.encode() for value in values]
        assert [record.value for record in broker.records("batch")] == whole
        assert [record.value for record in broker.records("stream")] == whole
        assert [record.value for record in broker.records("large")] == [b'{"id":1,"amount":5.0}']
        assert [record.value for record in broker.records("bad")] == [b"nonsense"]
