"""A console beside a broker: `ottla serve --console` starts it, and it ends with the broker."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

import ottla

WAIT_S = 60


@pytest.fixture
def served(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    arguments = ["serve", "--port", "0", "--data-dir", str(tmp_path), "-o", "json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", *arguments, "--console", "--console-port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.wait(WAIT_S)
    assert process.stdout is not None
    process.stdout.close()


def told_by(lines: IO[str] | None) -> tuple[str, str]:
    """The addresses that broker and console say they have; the broker speaks first."""
    assert lines is not None
    told = [json.loads(lines.readline()) for _ in range(2)]
    assert [line["event"] for line in told] == ["ready", "ready"]
    return str(told[0]["bootstrap_servers"]), str(told[1]["url"])


def is_there(url: str) -> bool:
    """Whether the console answers; it may go at any byte of a connection or of an answer."""
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=WAIT_S) as answer:
            return bool(answer.status == 200)
    except (OSError, http.client.HTTPException):
        return False


def wait_until_gone(url: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while is_there(url):
        assert time.monotonic() < deadline_s, "the console outlived its broker"
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_the_console_lives_as_long_as_the_broker(
    served: "subprocess.Popen[str]", how: signal.Signals
) -> None:
    _, url = told_by(served.stdout)
    deadline_s = time.monotonic() + WAIT_S
    while not is_there(url):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    os.kill(served.pid, how)
    assert served.wait(WAIT_S) == (0 if how is signal.SIGTERM else -how)
    wait_until_gone(url)


def test_the_console_shows_how_long_the_broker_takes_to_write(
    served: "subprocess.Popen[str]",
) -> None:
    servers, url = told_by(served.stdout)
    deadline_s = time.monotonic() + 2 * WAIT_S
    with ottla.Producer(servers) as producer:
        while True:
            producer.send("orders", b"espresso").result()
            with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
                shown = answer.read().decode()
            if re.search(r"Produce p99</span><b>[\d,.]+ ms</b>", shown):
                break
            assert time.monotonic() < deadline_s, shown
