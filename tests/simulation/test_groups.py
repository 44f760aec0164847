"""A consumer group under faults: what it may never get wrong, and how soon it must recover."""

from collections import Counter
from functools import cache

import pytest

from ottla.testing.simulation import Simulation, seeds
from tests.simulation.determinism import hashes_elsewhere
from tests.simulation.group_nemesis import MemberFault
from tests.simulation.group_workload import GroupWorkload
from tests.simulation.nemesis import Fault

SEED_COUNT = 20
COMPARED_SEEDS = (1, 2)


@cache
def played(seed: int) -> tuple[list[str], Counter[str]]:
    """What was wrong in a run, and what took place in it."""
    with Simulation(seed) as sim:
        workload = GroupWorkload(sim)
        return workload.play(), workload.journal.done


@pytest.mark.parametrize("seed", seeds(SEED_COUNT))
def test_a_group_keeps_its_promises_and_recovers_from_everything(seed: int) -> None:
    wrong, _ = played(seed)
    assert wrong == []


@pytest.mark.parametrize("seed", seeds(4))
def test_without_syncs_a_group_survives_as_long_as_the_machine_does(seed: int) -> None:
    with Simulation(seed) as sim:
        assert GroupWorkload(sim, flush="os", loses_power=False).play() == []


def trace_hash(seed: int) -> str:
    with Simulation(seed) as sim:
        GroupWorkload(sim).play()
        return sim.trace_hash


def test_a_run_of_a_group_does_not_depend_on_the_order_of_sets() -> None:
    elsewhere = hashes_elsewhere(
        "GroupWorkload(sim).play()", module="tests.simulation.group_workload", seeds=COMPARED_SEEDS
    )
    assert elsewhere == {tuple(trace_hash(seed) for seed in COMPARED_SEEDS)}


def test_the_runs_of_groups_are_worth_something() -> None:
    """Every fault strikes, members are refused for every reason, and yet get on with their work."""
    done: Counter[str] = Counter()
    for seed in range(SEED_COUNT):
        done += played(seed)[1]
    missing = [fault.value for fault in (*Fault, *MemberFault) if not done[f"fault {fault.value}"]]
    assert missing == []
    for what in ("nap", "left", "fenced", "heartbeat REBALANCE_IN_PROGRESS"):
        assert done[what] > 0, what
    stale = ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID")
    assert sum(done[f"commit {code}"] for code in stale) > 3
    assert done["assigned"] > SEED_COUNT * 6
    assert done["commit NONE"] > SEED_COUNT * 15
    assert done["offset fetched"] > SEED_COUNT * 10
    assert done["send ok"] > SEED_COUNT * 20
