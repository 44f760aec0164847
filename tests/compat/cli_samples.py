"""Running `ottla` in tests: inside this process, and as a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner, Result

from ottla.cli import main as cli

PATIENCE_S = 120

Run = Callable[..., Result]
"""Runs a command against the broker of a test."""


@click.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def _whole(arguments: tuple[str, ...]) -> None:
    """The whole program, exit codes and error lines included."""
    sys.exit(cli.run(list(arguments)))


def ottla(*arguments: object, stdin: bytes = b"") -> Result:
    """Run one command here."""
    return CliRunner().invoke(_whole, ["--", *map(str, arguments)], input=stdin)


def facts(result: Result) -> list[dict[str, Any]]:
    """The lines that a command with `-o json` printed."""
    assert result.exit_code == cli.OK, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def spawn(*arguments: object) -> "subprocess.Popen[str]":
    """Start a command as a process of its own, which must flush by itself what others wait for."""
    return subprocess.Popen(
        [sys.executable, "-m", "ottla", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port at which nobody listens, and nobody else can begin to."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def line_of(process: "subprocess.Popen[str]") -> str:
    """The next line that a process prints."""
    assert process.stdout is not None
    return process.stdout.readline()


class Served:
    """A broker that runs as a process of its own."""

    def __init__(self, *options: object) -> None:
        self.process = spawn("serve", "--port", 0, "-o", "json", *options)
        told = line_of(self.process)
        assert told, self.process.communicate(timeout=PATIENCE_S)[1]
        self.told: dict[str, Any] = json.loads(told)

    @property
    def bootstrap(self) -> str:
        return str(self.told["bootstrap_servers"])

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal and wait: the exit code, and what was said on stderr."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said


@contextmanager
def served(data_dir: Path | None, *options: object) -> Iterator[Served]:
    """A broker that is gone in the end, however the test went."""
    where = ("--ephemeral",) if data_dir is None else ("--data-dir", data_dir)
    broker = Served(*where, *options)
    try:
        yield broker
    finally:
        if broker.process.poll() is None:
            broker.process.kill()
            broker.process.communicate(timeout=PATIENCE_S)
