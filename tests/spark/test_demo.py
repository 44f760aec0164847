"""The demo of the pipeline, from the first order over a `kill -9` to the proof."""

import pytest

from ottla.cli import main as cli


@pytest.mark.timeout(900)
def test_the_demo_kills_the_driver_and_proves_that_every_order_counts_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = cli.run(["demo", "pipeline", "--seconds", "0"])
    shown = capsys.readouterr()
    assert (code, shown.err) == (cli.OK, ""), shown.err + shown.out
    assert "kill -9 of the Spark driver" in shown.out
    assert (shown.out.count("✓"), shown.out.count("✗")) == (5, 0)
    assert "Traceback" not in shown.out
