"""The tutorial can be followed word by word: its files, its commands, and what they print.

Three things differ from what a reader does.  The broker takes free ports, because others may have
the usual ones here; pipelines run in the session that all tests share, because a Java for each
would take most of the time; and the broker is stopped at the end.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla import pipeline
from ottla.client.config import BOOTSTRAP_VARIABLE
from ottla.pipeline.state import STATE_VARIABLE
from tests.docs.pages import DOCS, Block, Shown, blocks, commands
from tests.spark.sink_world import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = DOCS / "tutorial.md"
RUNS_A_PIPELINE = "ottla pipeline run shop.py --once"
PATIENCE_S = 240


class Reader:
    """Somebody who does in a folder of his own what the page says."""

    def __init__(self, folder: Path, environment: Mapping[str, str], spark: "SparkSession") -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._spark = spark
        self.pipeline_runs = 0

    @contextmanager
    def runs_a_broker(self, command: str) -> Iterator[str]:
        """Start what the page starts in a terminal of its own; its address."""
        words = [*command.split(), "--port", "0", "--console-port", "0", "-o", "json"]
        with (self._folder / "broker.log").open("wb") as log:
            process = subprocess.Popen(
                words,
                cwd=self._folder,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said, (self._folder / "broker.log").read_text("utf-8")
            yield json.loads(said)["bootstrap_servers"]
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)

    def follows(self, block: Block, servers: str) -> None:
        self._environment[BOOTSTRAP_VARIABLE] = servers
        if block.title is not None:
            (self._folder / block.title).write_text(block.text, "utf-8")
            return
        assert block.language == "console", block
        for shown in commands(block):
            with ottla.Admin(servers) as admin:
                settle(admin)  # a reader takes longer to the next command
            if shown.command == RUNS_A_PIPELINE:
                self._run_pipeline(servers)
            else:
                self._run(shown)

    def _run_pipeline(self, servers: str) -> None:
        how = pipeline.Run(bootstrap=servers, once=True)
        pipeline.run(pipeline.load(self._folder / "shop.py"), spark=self._spark, how=how)
        self.pipeline_runs += 1

    def _run(self, shown: Shown) -> None:
        ran = subprocess.run(
            ["bash", "-o", "pipefail", "-c", shown.command],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        said = f"line {shown.line_number}: $ {shown.command}\n{ran.stdout}"
        assert ran.returncode == 0, said
        assert shown.is_output(ran.stdout), said


@pytest.mark.timeout(900)
def test_the_first_hour_goes_as_told(
    tmp_path: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    reader = Reader(tmp_path, os.environ | {"PATH": path, "HOME": str(tmp_path)}, spark)
    install, start, *rest = blocks(PAGE)
    assert install.language == "sh"
    (serve,) = commands(start)
    with reader.runs_a_broker(serve.command) as servers:
        for block in rest:
            reader.follows(block, servers)
    assert reader.pipeline_runs == 2
