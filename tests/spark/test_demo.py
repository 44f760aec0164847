"""The demo of the pipeline, from the first order over a `kill -9` to the proof.

Here it has a package beside it that Spark cannot import, and so no format of Python is found: a
pipeline knows that of Ottla anyway.
"""

import os
from pathlib import Path

import pytest

from ottla.cli import main as cli


@pytest.mark.timeout(900)
def test_the_demo_kills_the_driver_and_proves_that_every_order_counts_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pyspark_broken.py").write_text("raise ImportError('by intent')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    code = cli.run(["demo", "pipeline", "--seconds", "0"])
    shown = capsys.readouterr()
    assert (code, shown.err) == (cli.OK, ""), shown.err + shown.out
    assert "kill -9 of the Spark driver" in shown.out
    assert (shown.out.count("✓"), shown.out.count("✗")) == (5, 0)
    assert "Traceback" not in shown.out
