"""Consume, transform, produce under kills: what comes out is what went in, each record once.

A real client copies one topic to another in transactions, in a process of its own.  Each round
kills it, or the broker, or both, at a step that is drawn; then what was killed comes back.  Readers
of committed records must see a prefix of the input at every moment, and all of it in the end.

A few rounds run by default; `OTTLA_KILL_ROUNDS=50` asks for more, and `OTTLA_KILL_SEED` for others.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from tests.broker.served import ServedBroker
from tests.broker.txn_copier import CopierSettings, transformed
from tests.broker.txn_wire import committed
from tests.broker.wire_client import WireClient, batch_of

ROUND_COUNT = int(os.environ.get("OTTLA_KILL_ROUNDS", "10"))
SEED = int(os.environ.get("OTTLA_KILL_SEED", "1"))
SOURCE, TARGET, PARTITION_COUNT = "source", "target", 3
RECORDS_A_ROUND = 20
"""In each partition."""
MAX_STEPS = 30
SECONDS_PER_ROUND = 30

pytestmark = pytest.mark.timeout(120 + ROUND_COUNT * SECONDS_PER_ROUND)


class CopierProcess:
    """A running copier."""

    def __init__(self, settings: CopierSettings) -> None:
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed by `kill`)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.broker.txn_copier", settings.as_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )
        assert self._process.stdout is not None
        self._steps = self._process.stdout

    def next_step(self) -> str:
        """The step that it has done next; an empty text if it has ended."""
        return self._steps.readline().strip()

    def do_steps(self, count: int) -> bool:
        """Wait until it has done so many steps; False if it has ended before."""
        return all(self.next_step() for _ in range(count))

    def kill(self) -> str:
        """End it without warning, if it has not ended by itself: what it complained about.

        Killing twice is no error.
        """
        if self._complaints.closed:
            return ""
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=SECONDS_PER_ROUND)
        with self._complaints:
            self._complaints.seek(0)
            return self._complaints.read()


class Copied:
    """The two topics, and what was put into the first."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self._inputs: list[list[bytes]] = [[] for _ in range(PARTITION_COUNT)]

    def create(self) -> None:
        with WireClient(self.address) as client:
            for name in (SOURCE, TARGET):
                error = client.create_topic(name, partition_count=PARTITION_COUNT)
                assert error == ErrorCode.NONE

    def feed(self, count: int) -> None:
        """Write so many records to each partition of the first topic."""
        with WireClient(self.address) as client:
            for partition, known in enumerate(self._inputs):
                numbers = range(len(known), len(known) + count)
                values = [b"%d/%d" % (partition, number) for number in numbers]
                result = client.produce(SOURCE, batch_of(*values), partition=partition)
                assert result.error_code == ErrorCode.NONE
                known += values

    def outputs(self) -> list[list[bytes | None]]:
        """What readers of committed records find in the second topic."""
        with WireClient(self.address) as client:
            return [committed(client, TARGET, partition=n) for n in range(PARTITION_COUNT)]

    def expected(self) -> list[list[bytes | None]]:
        return [[transformed(value) for value in values] for values in self._inputs]

    def is_prefix(self) -> bool:
        """Whether nothing was doubled, lost, torn out of its order, or made up so far."""
        pairs = zip(self.outputs(), self.expected(), strict=True)
        return all(found == wanted[: len(found)] for found, wanted in pairs)

    def is_complete(self) -> bool:
        return self.outputs() == self.expected()


@contextmanager
def unused_port() -> Iterator[int]:
    """A port that stays ours, because a broker that comes back wants the same."""
    with socket.socket() as claim:
        claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        claim.bind(("127.0.0.1", 0))
        port: int = claim.getsockname()[1]
    yield port


def serve(data_dir: Path, port: int) -> ServedBroker:
    return ServedBroker(data_dir, port=port, log_flush_offset_checkpoint_interval_ms=50)


class Scene:
    """A broker and a copier, either of which may be killed and comes back."""

    def __init__(self, data_dir: Path, port: int, seed: int) -> None:
        self._data_dir, self._port = data_dir, port
        self.rng = random.Random(seed)
        self.copied = Copied(port)
        self.settings = CopierSettings(
            bootstrap_servers=self.copied.address, source=SOURCE, target=TARGET
        )
        self.broker = serve(data_dir, port)
        self.copied.create()
        self.copier = self.new_copier()
        self.complaints: list[str] = []

    def new_copier(self) -> CopierProcess:
        return CopierProcess(replace(self.settings, seed=self.rng.randrange(2**32)))

    def play(self) -> None:
        """One round."""
        self.copied.feed(RECORDS_A_ROUND)
        victims = self.rng.choice((("copier",), ("broker",), ("broker", "copier")))
        is_alive = self.copier.do_steps(self.rng.randrange(MAX_STEPS))
        if "broker" in victims:
            self.broker.kill()
            self.broker = serve(self._data_dir, self._port)
        if "copier" in victims:
            self.copier.kill()
            self.copier = self.new_copier()
        elif not is_alive:
            self._replace_copier()
        assert self.copied.is_prefix()

    def finish(self) -> None:
        """Let the copier do the rest."""
        while not self.copied.is_complete():
            assert self.copied.is_prefix()
            if not self.copier.next_step():
                self._replace_copier()

    def _replace_copier(self) -> None:
        """It has ended by itself, as it does when it does not know what to do."""
        self.complaints.append(self.copier.kill())
        self.copier = self.new_copier()

    def close(self) -> None:
        self.copier.kill()
        self.broker.kill()


def test_a_copy_has_each_record_once_though_client_and_broker_are_killed(tmp_path: Path) -> None:
    with unused_port() as port:
        scene = Scene(tmp_path / "data", port, SEED)
        try:
            for _ in range(ROUND_COUNT):
                scene.play()
            scene.finish()
        finally:
            scene.close()
    # A client that gives up is replaced; if most did, the kills would not be what is tested.
    assert len(scene.complaints) <= ROUND_COUNT // 2, scene.complaints


def test_without_transactions_a_kill_copies_twice(tmp_path: Path) -> None:
    """That this is able to show it."""
    with unused_port() as port, serve(tmp_path / "data", port):
        copied = Copied(port)
        copied.create()
        copied.feed(RECORDS_A_ROUND)
        careless = CopierSettings(
            bootstrap_servers=copied.address, source=SOURCE, target=TARGET, is_transactional=False
        )
        for hangs_after in ("sent", ""):
            copier = CopierProcess(replace(careless, hangs_after=hangs_after))
            steps = [copier.next_step()]
            while steps[-1] not in ("sent", ""):
                steps.append(copier.next_step())
            copier.kill()
            assert steps[-1] == "sent"
        assert not copied.is_prefix()
