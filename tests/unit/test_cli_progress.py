"""What is shown while work goes on, to those who watch."""

import sys

import pytest

from ottla.cli.bench.rates import Meter
from ottla.cli.output import Output
from ottla.cli.progress import LiveLine, live_line, progress_bar


class Heard(LiveLine):
    """Remembers what it was told to show."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def show(self, text: str) -> None:
        self.shown.append(text)


def test_a_bar_is_for_those_who_watch(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("orders.ndjson", 1000, is_watched=True) as bar:
        bar.advance(500)
        bar.advance(500)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "orders.ndjson" in shown.err
    assert "1,000/1,000 bytes" in shown.err


def test_nobody_watching_sees_nothing_and_needs_no_rich(capsys: pytest.CaptureFixture[str]) -> None:
    before = set(sys.modules)
    with progress_bar("orders.ndjson", 1000, is_watched=False) as bar, live_line(False) as line:
        bar.advance(1000)
        line.show("figures")
    assert capsys.readouterr().err == ""
    assert not [name for name in set(sys.modules) - before if name.startswith("rich")]


def test_a_live_line_is_shown_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with live_line(True) as line:
        line.show("52,000 records/s")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "52,000 records/s" in shown.err


def test_a_meter_shows_the_rate_of_the_last_moment() -> None:
    line, now = Heard(), iter([0.0, 0.1, 1.0, 1.1, 2.0])
    meter = Meter("produce", line, clock=lambda: next(now))
    meter.count(10, 10_000_000)
    meter.count(90, 90_000_000)
    meter.count(0, 0)
    meter.count(50, 0)
    assert line.shown == [
        "produce: 100 records · 100 records/s · 100.0 MB/s",
        "produce: 150 records · 50 records/s · 0.0 MB/s",
    ]


def test_a_meter_tells_the_rate_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    now = iter([0.0, 0.1, 4.0])
    meter = Meter("consume", LiveLine(), clock=lambda: next(now))
    meter.count(2_000, 8_000_000)
    meter.tell(Output())
    assert capsys.readouterr().out.splitlines()[1].split() == [
        "consume",
        "2000",
        "4.0",
        "500",
        "2.0",
    ]
