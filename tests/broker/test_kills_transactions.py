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
import threading
from collections import Counter
from collections.abc import Callable, Iterator
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
BACKLOG = 100
"""What there is to copy in each partition when a round begins, so that no kill hits idle time."""
PAUSES = 0.2
"""How often the copier pauses in the middle of a transaction, and may be killed."""
SECONDS_PER_ROUND = 60

pytestmark = pytest.mark.timeout(120 + ROUND_COUNT * SECONDS_PER_ROUND)


class CopierProcess:
    """A running copier, and a thread that counts what it does."""

    def __init__(self, settings: CopierSettings) -> None:
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed by `kill`)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.broker.txn_copier", settings.as_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )
        self._counts: Counter[str] = Counter()
        self._released_count = 0
        self._has_ended = False
        self._changed = threading.Condition()
        self._counting = threading.Thread(target=self._count, daemon=True)
        self._counting.start()

    def wait_for(self, step: str) -> bool:
        """Wait until it has done a step; False if it ends before."""
        return self._wait_until(lambda: self._counts[step] > 0)

    def wait_for_anything(self) -> bool:
        """Wait until it has done something, or waits to be released; False if it ends before."""
        target = self._counts.total() + 1
        return self._wait_until(lambda: self.is_paused or self._counts.total() >= target)

    def wait_for_pause(self) -> bool:
        """Wait until it pauses; False if it ends before."""
        return self._wait_until(lambda: self.is_paused)

    def _wait_until(self, is_true: Callable[[], bool]) -> bool:
        with self._changed:
            in_time = self._changed.wait_for(
                lambda: self._has_ended or is_true(), SECONDS_PER_ROUND
            )
            assert in_time, self._counts
            return not self._has_ended

    @property
    def is_paused(self) -> bool:
        return self._counts["paused"] > self._released_count

    def release(self) -> None:
        """Let it go on after a pause."""
        if self.is_paused and not self._has_ended:
            self._released_count += 1
            assert self._process.stdin is not None
            self._process.stdin.write("\n")
            self._process.stdin.flush()

    def kill(self) -> str:
        """End it without warning, if it has not ended by itself: what it complained about.

        Killing twice is no error.
        """
        if self._complaints.closed:
            return ""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(SECONDS_PER_ROUND)
        self._counting.join(SECONDS_PER_ROUND)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        with self._complaints:
            self._complaints.seek(0)
            return self._complaints.read()

    def _count(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._counts[line.strip()] += 1
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()


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

    def feed(self) -> None:
        """Write to the first topic until there is enough to do in each partition."""
        done = [len(found) for found in self.outputs()]
        with WireClient(self.address) as client:
            for partition, known in enumerate(self._inputs):
                numbers = range(len(known), done[partition] + BACKLOG)
                values = [b"%d/%d" % (partition, number) for number in numbers]
                if values:
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
    """A port that stays ours, because a broker that comes back wants the same.

    While it is down, a client that tries to reach it could get that very port for its own end.
    """
    with socket.socket() as claim:
        claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        claim.bind(("127.0.0.1", 0))
        port: int = claim.getsockname()[1]
        if sys.platform != "linux":
            claim.close()  # nobody else could listen there
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
        return CopierProcess(replace(self.settings, pauses=PAUSES, seed=self.rng.randrange(2**32)))

    def play(self) -> None:
        """One round: between two steps of the copier, or right after it goes on, some are killed.

        A step is a pause, because a process does a lot until it is killed.
        """
        self.copied.feed()
        victims = self.rng.choice((("copier",), ("copier",), ("broker",), ("broker", "copier")))
        is_alive = self.copier.wait_for_pause()
        if self.rng.random() < 0.5:
            self.copier.release()
        if "copier" in victims:
            self.copier.kill()
        if "broker" in victims:
            self.broker.kill()
            self.broker = serve(self._data_dir, self._port)
        if "copier" in victims:
            self.copier = self.new_copier()
        elif not is_alive:
            self._replace_copier()
        self.copier.release()
        assert self.copied.is_prefix()

    def finish(self) -> None:
        """Let the copier do the rest."""
        while not self.copied.is_complete():
            assert self.copied.is_prefix()
            self.copier.release()
            if not self.copier.wait_for_anything():
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
        copied.feed()
        careless = CopierSettings(
            bootstrap_servers=copied.address, source=SOURCE, target=TARGET, is_transactional=False
        )
        killed = CopierProcess(replace(careless, hangs_after="sent"))
        assert killed.wait_for("sent")
        killed.kill()
        successor = CopierProcess(careless)
        try:
            while copied.is_prefix():
                assert not copied.is_complete(), "it has copied everything once"
                assert successor.wait_for_anything()
        finally:
            successor.kill()
