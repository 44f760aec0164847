"""Accidents that only a cluster has: copies of slow tasks, and executors that die with a shuffle.

The numbers of windows are those of the table in docs/explanation/exactly-once-spark.md.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.sink.decisions import read_ledger
from ottla.spark.sink.faults import FOLDER_VARIABLE
from tests.broker.served import ServedBroker
from tests.spark.sink_world import World
from tests.spark.windows import cluster

PATIENCE_S = 900
ROWS = range(8)

pytestmark = pytest.mark.timeout(PATIENCE_S + 60)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is left when the program is over."""

    world: World
    wanted: dict[str, list[str]]
    told: dict[str, dict[str, Any]]
    """Query -> what the program said of it."""
    events: list[dict[str, Any]]
    """What Spark wrote down."""

    def assert_exact(self, name: str) -> None:
        assert self.told[name] == {"name": name, "trouble": "", "happened": True, "open": []}
        assert self.world.committed(f"{name}-out") == self.wanted[name]
        (decision,) = read_ledger(self.world.servers, name)
        assert sorted(p.partition for p in decision.participants) == [0, 1, 2]
        assert decision.row_count == len(self.wanted[name])


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """The whole program, once; the first test waits for it."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "faults").mkdir()
    with ServedBroker(folder / "broker", transaction_two_phase_commit_enable="true") as broker:
        world = World(broker.bootstrap_servers, folder)
        wanted = {}
        for name in (cluster.WARM_UP, cluster.W10, cluster.W12):
            wanted[name] = world.fill(f"{name}-in", partitions=cluster.TASK_COUNT, rows=ROWS)
            world.make(f"{name}-out", 2)
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.windows.cluster", world.servers, str(folder)],
            env={**os.environ, FOLDER_VARIABLE: str(folder / "faults")},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"[-6000:]
        told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        yield Seen(world, wanted, {one["name"]: one for one in told}, events_of(folder))


def events_of(folder: Path) -> list[dict[str, Any]]:
    (written,) = (folder / cluster.EVENTS).iterdir()
    return [json.loads(line) for line in written.read_text("utf-8").splitlines()]


def test_w10_a_speculative_copy_wins_and_what_the_slow_task_wrote_is_aborted(seen: Seen) -> None:
    copies = [
        event["Task Info"]["Index"]
        for event in seen.events
        if event["Event"] == "SparkListenerTaskStart" and event["Task Info"]["Speculative"]
    ]

    assert 1 in copies  # the other attempt stood still until the query was over
    seen.assert_exact(cluster.W10)


def test_w12_a_stage_is_run_again_and_each_of_its_tasks_counts_once(seen: Seen) -> None:
    attempts = [
        event["Stage Info"]["Stage Attempt ID"]
        for event in seen.events
        if event["Event"] == "SparkListenerStageCompleted"
    ]
    reasons = [
        event["Task End Reason"]["Reason"]
        for event in seen.events
        if event["Event"] == "SparkListenerTaskEnd"
    ]

    assert "ExecutorLostFailure" in reasons
    assert "FetchFailed" in reasons
    assert max(attempts) > 0
    seen.assert_exact(cluster.W12)
