"""The whole broker under faults: nothing it promised may be lost, shown twice, or taken back."""

from collections import Counter

import pytest

from ottla.broker.flusher import Flusher
from ottla.testing.simulation import Simulation, seeds
from tests.simulation.determinism import hashes_elsewhere
from tests.simulation.nemesis import Fault
from tests.simulation.workload import Workload

COMPARED_SEEDS = (1, 2, 3)


@pytest.mark.parametrize("seed", seeds(160))
def test_what_was_acknowledged_survives_power_loss(seed: int) -> None:
    with Simulation(seed) as sim:
        assert Workload(sim).play() == []


class NeverWaits(Flusher):
    """Begins a second sync for the smallest batch, as the real one does for large ones."""

    much_bytes = 1


@pytest.mark.parametrize("seed", seeds(60))
def test_what_was_acknowledged_survives_where_syncs_overlap(seed: int) -> None:
    with Simulation(seed) as sim:
        assert Workload(sim, flusher=NeverWaits).play() == []


@pytest.mark.parametrize("seed", seeds(60))
def test_without_syncs_everything_survives_as_long_as_the_machine_does(seed: int) -> None:
    with Simulation(seed) as sim:
        assert Workload(sim, flush="os", loses_power=False).play() == []


@pytest.mark.parametrize("seed", seeds(40))
def test_without_syncs_power_loss_takes_the_newest_records_and_nothing_else(seed: int) -> None:
    with Simulation(seed) as sim:
        assert Workload(sim, flush="os").play() == []


def trace_hash(seed: int) -> str:
    with Simulation(seed) as sim:
        Workload(sim).play()
        return sim.trace_hash


def test_a_run_does_not_depend_on_the_order_of_sets() -> None:
    elsewhere = hashes_elsewhere(
        "Workload(sim).play()",
        module="tests.simulation.workload",
        seeds=COMPARED_SEEDS,
        hash_seeds=("0", "1", "random"),
    )
    assert elsewhere == {tuple(trace_hash(seed) for seed in COMPARED_SEEDS)}


def test_the_runs_are_worth_something() -> None:
    """Every fault strikes, every kind of noise is made, and clients get on with their work."""
    done: Counter[str] = Counter()
    for seed in range(25):
        with Simulation(seed) as sim:
            workload = Workload(sim)
            workload.play()
            done += workload.journal.done
    missing = [fault for fault in Fault if not done[f"fault {fault.value}"]]
    assert missing == []
    for what in ("create NONE", "delete NONE", "delete records NONE", "alter NONE"):
        assert done[what] > 0, what
    for what in ("broker failed", "storage error", "jump", "retention", "gap"):
        assert done[what] > 0, what
    assert done["send ok"] > 25 * 30
    assert done["poll"] > 25 * 20
