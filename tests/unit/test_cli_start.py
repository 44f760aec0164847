"""The short cut of `ottla serve`: what it reads, it reads as the command itself does."""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import click
import pytest

from ottla.cli import main as cli
from ottla.cli import start
from ottla.cli.output import Output
from ottla.cli.serve import command
from ottla.cli.serving import FLUSHES
from ottla.cli.start import usual_serve

USUAL = [
    "",
    "--port 0",
    "--port=19092 --host ::1",
    "--host=",
    "--port 0 --port 1",
    "--data-dir . --flush os",
    "--data-dir=not-there-yet --flush=commit",
    "--ephemeral --console --insecure",
    "--console --console-port 0 --metrics-port 65535",
    "-X num.partitions=6 -X log.retention.hours=1",
    "--advertise example.org:9092 -v",
    "-o json --verbose",
    "--output text",
]

UNUSUAL = [
    "--port",
    "--port none",
    "--port 65536",
    "--port -1",
    "--port ٣",
    "--flush never",
    "--data-dir {file}",
    "--config {file}",
    "-Xnum.partitions=6",
    "-ojson",
    "-vojson",
    "-o yaml",
    "--output=json",
    "--console=yes",
    "--help",
    "--hos 127.0.0.1",
    "--host --port 1",
    "word",
    "--",
]


@pytest.mark.parametrize("line", USUAL)
def test_usual_options_are_read_as_the_command_reads_them(line: str) -> None:
    read = usual_serve(line.split())
    assert read is not None
    output, options = read
    # The names of `--help` as the whole program has them: a command keeps those that it sees first.
    names = ["-h", "--help"]
    with click.Context(command, obj=Output(), help_option_names=names) as around:
        context = command.make_context("serve", line.split(), parent=around)
    assert asdict(options) == context.params
    assert output == context.obj


@pytest.mark.parametrize("line", UNUSUAL)
def test_whatever_is_not_plain_is_left_to_the_command(line: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert usual_serve(line.format(file=file).split()) is None


def test_every_option_of_the_command_is_usual_or_left_to_it() -> None:
    names = {name for parameter in command.params for name in parameter.opts}
    tried = {word.partition("=")[0] for line in [*USUAL, *UNUSUAL] for word in line.split()}
    assert names - {"--help", "-h"} <= tried
    assert set(FLUSHES) == {"commit", "os"}


PROGRAM = """
import sys
from ottla.cli import start
start.put_off()
from ottla.cli import serving
read = start.usual_serve(["--port", "0", "--ephemeral", "-o", "json"])
serving.import_asyncio()
import ottla.broker.embedded, ottla.runtime.supervisor, ottla.runtime.disk
present = set(sys.modules)
import ssl
print(*sorted(present))
"""

DISPENSABLE = {
    "click",
    "rich",
    "ssl",
    "_ssl",
    "hashlib",
    "pathlib",
    "tempfile",
    "uuid",
    "ottla.broker.fetch_sessions",
    "ottla.broker.groups",
    "ottla.broker.handlers",
    "ottla.broker.metrics",
    "ottla.broker.transactions",
    "ottla.cluster.alterations",
    "ottla.cluster.topics",
    "ottla.coordinator.group",
    "ottla.coordinator.txn",
    "ottla.client",
    "ottla.log.compaction",
    "ottla.log.retention",
    "ottla.quantities",
    "ottla.snapshot",
}
if sys.version_info < (3, 14):  # since then `dataclasses` cannot do without
    DISPENSABLE |= {"ast", "dis"}


def test_a_broker_starts_without_what_its_first_client_does_not_need() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True
    )
    present = set(done.stdout.split())
    assert "asyncio" in present
    assert not present & DISPENSABLE


@pytest.mark.parametrize("line", ["--ephemeral --data-dir x", "-X x", "--host 0.0.0.0"])
def test_what_is_wrong_is_told_as_the_command_tells_it(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for run in (start.main, cli.main):
        with pytest.raises(SystemExit) as ended:
            run(["serve", *line.split()])
        told.append((ended.value.code, capsys.readouterr()))
    assert told[0] == told[1]
    assert told[0][0] == cli.USAGE
