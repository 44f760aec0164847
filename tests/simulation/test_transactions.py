"""Transactions under faults: all of one or nothing of it, each input copied once, nothing hangs."""

from collections import Counter
from functools import cache
from typing import NamedTuple

import pytest

from ottla.testing.simulation import Simulation, seeds
from tests.simulation.determinism import hashes_elsewhere
from tests.simulation.nemesis import Fault
from tests.simulation.txn_nemesis import EVERY_END, ClientFault, Trouble
from tests.simulation.txn_workload import TxnWorkload

COMPARED_SEEDS = (1, 2)
TORN_WITHIN = range(30)
LATE_ENDS = Trouble(
    faults=frozenset(),
    client_faults=frozenset(),
    echoed=EVERY_END,
    echo_chance=0.4,
    sync_delays_ms=((0.2, 4.0),),
)
RUN_COUNT = 16
WORTHY_COUNT = 24
"""Runs among which every answer is found; some are rare."""
TEARS = ("aborted read", "lost write", "unseen")


class Run(NamedTuple):
    """What is left of a run."""

    wrong: list[str]
    done: Counter[str]
    trace_hash: str


@cache
def played(seed: int) -> Run:
    with Simulation(seed) as sim:
        workload = TxnWorkload(sim)
        return Run(workload.play(), workload.journal.done, sim.trace_hash)


@pytest.mark.parametrize("seed", seeds(RUN_COUNT))
def test_transactions_are_whole_and_inputs_copied_once_whatever_breaks(seed: int) -> None:
    assert played(seed).wrong == []


@pytest.mark.parametrize("seed", seeds(2))
def test_without_syncs_transactions_survive_as_long_as_the_machine_does(seed: int) -> None:
    with Simulation(seed) as sim:
        assert TxnWorkload(sim, flush="os", loses_power=False).play() == []


def test_a_late_commit_tears_the_next_transaction_in_version_1_and_not_in_version_2() -> None:
    """KAFKA-17754: in version 1 nothing tells whose commit it is."""

    def wrong(seed: int, version: int) -> str:
        with Simulation(seed) as sim:
            workload = TxnWorkload(sim, versions=(version,), trouble=LATE_ENDS)
            return "\n".join(workload.play())

    torn = next(seed for seed in TORN_WITHIN if any(tear in wrong(seed, 1) for tear in TEARS))

    assert wrong(torn, 2) == ""


def test_a_run_of_transactions_does_not_depend_on_the_order_of_sets() -> None:
    elsewhere = hashes_elsewhere(
        "TxnWorkload(sim).play()", module="tests.simulation.txn_workload", seeds=COMPARED_SEEDS
    )
    assert elsewhere == {tuple(played(seed).trace_hash for seed in COMPARED_SEEDS)}


def test_the_runs_of_transactions_are_worth_something() -> None:
    """Every fault strikes, clients are refused for every reason, and yet get on with their work."""
    done: Counter[str] = Counter()
    for seed in range(WORTHY_COUNT):
        done += played(seed).done
    missing = [fault.value for fault in (*Fault, *ClientFault) if not done[f"fault {fault.value}"]]
    assert missing == []
    for what in (
        "nap",
        "gave up",
        "timed out",
        "echo of Produce",
        "echo of EndTxn",
        "echo of TxnOffsetCommit",
        "detour of Produce",
        "produce INVALID_PRODUCER_EPOCH",
        "produce NOT_ENOUGH_REPLICAS",
        "transaction unknown",
    ):
        assert done[what] > 0, what
    assert any(what.startswith("refused") for what in done)  # about one run in three has any
    assert done["transaction ok"] > WORTHY_COUNT * 10
    assert done["transaction failed"] > WORTHY_COUNT * 5
    assert done["offset fetched"] > WORTHY_COUNT * 15
    assert done["poll"] > WORTHY_COUNT * 40
