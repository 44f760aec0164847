"""The demo of the pipeline, from the first order over a `kill -9` to the proof.

Here it has a package beside it that Spark cannot import, and so no format of Python is found: a
pipeline knows that of Ottla anyway.  It is a process of its own, as for whoever types `ottla demo`:
what it says shall be its own words.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(900)
def test_the_demo_kills_the_driver_and_proves_that_every_order_counts_once(tmp_path: Path) -> None:
    (tmp_path / "pyspark_broken.py").write_text("raise ImportError('by intent')\n")
    given = os.environ.get("PYTHONPATH")
    shown = subprocess.run(
        [sys.executable, "-m", "ottla", "demo", "pipeline", "--seconds", "0"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(tmp_path), given)))},
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert (shown.returncode, shown.stderr) == (0, ""), shown.stderr + shown.stdout
    assert "kill -9 of the Spark driver" in shown.stdout
    assert (shown.stdout.count("✓"), shown.stdout.count("✗")) == (5, 0)
    assert "Traceback" not in shown.stdout
