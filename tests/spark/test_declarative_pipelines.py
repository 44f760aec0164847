"""`format("ottla")` in Spark's own declarative pipelines, as source and as sink.

They run through Spark Connect, whose packages our other tests do without: `make compat-connect` has
them, and where they are missing, this is skipped.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.session import prepare
from ottla.testing import TestBroker
from tests.spark.connect_packages import needs_connect

COMMAND = Path(sys.executable).with_name("spark-pipelines")

SPEC = """\
name: shop
storage: file://{folder}/storage
libraries:
  - glob:
      include: flows.py
"""

FLOWS = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
servers = {{"kafka.bootstrap.servers": "{bootstrap}"}}
dp.create_sink("out", "ottla", {{**servers, "topic": "copies"}})


@dp.append_flow(target="out", name="copy")
def copy():
    source = spark.readStream.format("ottla").options(**servers)
    return source.options(subscribe="originals", startingOffsets="earliest").load().select("value")
"""


@needs_connect
@pytest.mark.timeout(600)
def test_a_flow_reads_and_writes_topics_and_goes_on_when_it_is_run_again(tmp_path: Path) -> None:
    environ = dict(os.environ)
    prepare(environ)
    with TestBroker() as broker:
        for topic in ("originals", "copies"):
            broker.create_topic(topic)
        (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(folder=tmp_path))
        flows = FLOWS.format(bootstrap=broker.bootstrap_servers)
        (tmp_path / "flows.py").write_text(flows)
        for value in ("one", "two"):
            broker.produce("originals", value)
            done = subprocess.run(
                [COMMAND, "run", "--spec", "spark-pipeline.yml"],
                cwd=tmp_path,
                env=environ,
                capture_output=True,
                text=True,
                timeout=280,
                check=False,
            )
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        assert [record.value for record in broker.records("copies")] == [b"one", b"two"]
