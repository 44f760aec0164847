"""One story of many accidents, told once; each test looks at what came of one of them.

Drivers take half a minute to start, so three of them do it all.  The *victims* stop, each query at
another point of its second batch, and are killed there.  The *stale* ones stop likewise, but live.
The *successor* finishes the work of both; in the middle of that the broker is killed, and started
again.  Then the stale ones are let go.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import pytest

from ottla.spark.sink.decisions import read_ledger
from ottla.spark.sink.faults import FOLDER_VARIABLE, REACHED, RESUME
from tests.broker.served import ServedBroker
from tests.spark.sink_world import World, order

START_S: Final = 600
"""How long drivers may take until they are where they shall be, on a machine with more to do."""
ROW_COUNT: Final = 6
"""In each partition: three batches of two, in topics of three partitions."""

PAUSES: Final[Mapping[str, str]] = {
    "w2-task": "task1.among",
    "w3-undecided": "commit.before.Decide",
    "w4-open-decision": "commit.before.EndRound",
    "w5-decided": "commit.after.EndRound",
    "w5-half-ended": "commit.among.End",
    "w6-ended": "commit.after.Fence",
    "w4-one-phase": "commit.before.End",
    "w6-one-phase": "commit.after.End",
    "stale-undecided": "commit.before.Decide",
    "stale-decided": "commit.after.EndRound",
    "stale-task": "task1.among",
    "stale-one-phase": "commit.before.End",
}
"""Query -> where it stops, in its second batch."""
IDLE: Final = "w1-idle"
VICTIMS: Final = (*(name for name in PAUSES if not name.startswith("stale")), IDLE)
STALE: Final = tuple(name for name in PAUSES if name.startswith("stale"))
BROKER_KILLED: Final = "broker-killed"
ALL: Final = (BROKER_KILLED, *VICTIMS, *STALE)
AT_A_TIME: Final = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is to be seen of one query when all is over."""

    wanted: list[str]
    output: list[str]
    group_offsets: list[int]
    batch_ids: list[int]


@dataclass
class Story:
    """What came of it."""

    world: World
    wanted: dict[str, list[str]] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    ended: dict[str, dict[str, str]] = field(default_factory=dict)
    """Driver -> query -> why it failed, "" if it did not."""
    paused_at: dict[str, set[str]] = field(default_factory=dict)
    """Query -> the checkpoint's files when its first driver stopped."""
    open_ids: list[str] = field(default_factory=list)


class Program:
    """A driver program, in a process of its own."""

    def __init__(self, world: World, names: Sequence[str], at_a_time: int) -> None:
        self._output: IO[str] = (world.folder / f"{names[0]}.jsonl").open("w+")
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.spark.windows.program"),
                *(world.servers, str(world.folder), str(at_a_time), *names),
            ],
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """`kill -9` of the driver, its JVM and its Python workers, all at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(START_S)

    def ended(self) -> dict[str, str]:
        """Query -> why it failed; waits until all are over."""
        self._process.wait(START_S)
        lines = [line for line in self.said().splitlines() if line.startswith("{")]
        return {told["name"]: told["trouble"] for told in map(json.loads, lines)}

    def said(self) -> str:
        self._output.seek(0)
        return self._output.read()

    def close(self) -> None:
        self.kill()
        self._output.close()


def tell(folder: Path) -> Story:
    """Let it all happen."""
    (folder / "faults").mkdir()
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv(FOLDER_VARIABLE, str(folder / "faults"))
        return _tell(folder, stack)


def _tell(folder: Path, stack: ExitStack) -> Story:
    data, port = folder / "broker", _claimed_port(stack)
    broker = _served(data, stack, port)
    story = Story(World(broker.bootstrap_servers, folder))
    world = story.world
    for name in ALL:
        rows = range(0 if name == IDLE else ROW_COUNT)
        story.wanted[name] = world.fill(f"{name}-in", partitions=_partitions(name), rows=rows)
        world.make(f"{name}-out", 2)
    reached = {name: order(point, name, "1 pause") for name, point in PAUSES.items()}
    first = world.checkpoint(IDLE) / "commits" / "0"
    victims = _program(world, VICTIMS, len(VICTIMS), stack)
    stops = [first, *(reached[name] for name in VICTIMS if name != IDLE)]
    _wait_until(lambda: all(path.exists() for path in stops), victims)
    stale = _program(world, STALE, len(STALE), stack)
    _wait_until(lambda: all(reached[name].exists() for name in STALE), stale)
    victims.kill()
    story.paused_at = {name: _files(world.checkpoint(name)) for name in (*VICTIMS, *STALE)}
    story.wanted[IDLE] = world.fill(f"{IDLE}-in", partitions=3, rows=range(ROW_COUNT))

    killed = order("commit.after.Decide", BROKER_KILLED, f"1 kill {broker.pid}")
    successor = _program(world, ALL, AT_A_TIME, stack)
    _wait_until(killed.exists, successor)
    broker.kill()  # it is dead; this waits for it
    broker = _served(data, stack, port)
    story.ended["successor"] = successor.ended()
    for path in reached.values():
        path.with_name(path.name.removesuffix(REACHED) + RESUME).touch()
    story.ended["stale"] = stale.ended()
    _look(story)
    return story


def _partitions(name: str) -> int:
    """A query whose topic has one partition has batches of one task."""
    return 1 if "one-phase" in name else 3


def _claimed_port(stack: ExitStack) -> int:
    """A port that nobody else gets while the broker is down: not even for the end of a client."""
    claim = stack.enter_context(socket.socket())
    claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    claim.bind(("127.0.0.1", 0))
    port: int = claim.getsockname()[1]
    return port


def _served(data: Path, stack: ExitStack, port: int) -> ServedBroker:
    broker = ServedBroker(data, port=port, transaction_two_phase_commit_enable="true")
    return stack.enter_context(broker)


def _program(world: World, names: Sequence[str], at_a_time: int, stack: ExitStack) -> Program:
    program = Program(world, names, at_a_time)
    stack.callback(program.close)
    return program


def _files(checkpoint: Path) -> set[str]:
    found = (*checkpoint.glob("offsets/[0-9]*"), *checkpoint.glob("commits/[0-9]*"))
    return {f"{path.parent.name}/{path.name}" for path in found}


def _wait_until(is_so: Callable[[], bool], *programs: Program) -> None:
    deadline_s = time.monotonic() + START_S
    while not is_so():
        over = next((program for program in programs if program.is_over), None)
        if over is not None or time.monotonic() > deadline_s:
            said = (over or programs[0]).said()[-6000:]
            raise AssertionError(f"the drivers did not get where they should:\n{said}")
        time.sleep(0.1)


def _look(story: Story) -> None:
    world = story.world
    for name in ALL:
        story.outcomes[name] = Outcome(
            wanted=story.wanted[name],
            output=world.committed(f"{name}-out"),
            group_offsets=sorted(world.group_offsets(f"{name}-group").values()),
            batch_ids=[decision.batch_id for decision in read_ledger(world.servers, name)],
        )
    story.open_ids = [entry.transactional_id for entry in world.open_transactions()]
