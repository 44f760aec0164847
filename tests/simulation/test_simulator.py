"""The simulator itself: the same seed is the same run, and sabotage does not go unnoticed."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.ports import Ports
from ottla.testing.disk import PowerLoss
from ottla.testing.history import Outcome, check
from ottla.testing.loop import Order, StuckError
from ottla.testing.simulation import Simulation, seeds
from tests.simulation.determinism import hashes_elsewhere
from tests.simulation.little_log import Sabotage, play

SABOTAGED_SEEDS = range(30)


@pytest.mark.parametrize("seed", seeds(40))
@pytest.mark.parametrize("order", list(Order))
def test_a_sound_log_passes(seed: int, order: Order) -> None:
    with Simulation(seed, order=order) as sim:
        history = play(sim)
        assert check(history) == []
        assert sum(operation.outcome is Outcome.OK for operation in history) > 50


@pytest.mark.parametrize(
    ("sabotage", "least"),
    [
        (Sabotage.ACK_BEFORE_SYNC, 20),
        (Sabotage.NEVER_SYNC_THE_FOLDER, 10),
        (Sabotage.SHOW_BEFORE_SYNC, 1),
        (Sabotage.KEEP_TORN_TAILS, 2),
    ],
)
def test_sabotage_is_found(sabotage: Sabotage, least: int) -> None:
    found = 0
    for seed in SABOTAGED_SEEDS:
        with Simulation(seed) as sim:
            found += bool(check(play(sim, sabotage)))
    assert found >= least, f"found in {found} of {len(SABOTAGED_SEEDS)} runs"


def trace_hash(seed: int) -> str:
    with Simulation(seed) as sim:
        play(sim)
        return sim.trace_hash


def test_the_same_seed_is_the_same_run() -> None:
    hashes = [trace_hash(seed) for seed in range(5)]
    assert hashes == [trace_hash(seed) for seed in range(5)]
    assert len(set(hashes)) == 5


def test_a_run_does_not_depend_on_the_order_of_sets() -> None:
    elsewhere = hashes_elsewhere(
        "play(sim)",
        module="tests.simulation.little_log",
        seeds=(1, 2, 3),
        hash_seeds=("0", "1", "random"),
    )
    assert elsewhere == {tuple(trace_hash(seed) for seed in (1, 2, 3))}


async def idle(ports: Ports) -> None:
    await asyncio.get_running_loop().create_future()


def test_a_failing_run_says_how_to_replay_it() -> None:
    async def fail(ports: Ports) -> None:
        ports.disk.open("a", create=True)
        raise LookupError("a bug")

    def run() -> None:
        with Simulation(4711) as sim:
            sim.spawn("node", fail)
            sim.run_for(10)

    with pytest.raises(LookupError, match="a bug") as failure:
        run()
    notes = "\n".join(failure.value.__notes__)
    assert "make sim SEED=4711" in notes
    assert "disk node create a" in notes


@pytest.mark.parametrize("wait", [lambda sim: sim.run_for(10), lambda sim: None])
def test_an_error_in_a_forgotten_task_fails_the_run(wait: Callable[[Simulation], None]) -> None:
    async def main(ports: Ports) -> None:
        asyncio.get_running_loop().call_soon(int, "not a number")
        await idle(ports)

    def run() -> None:
        with Simulation(1) as sim:
            sim.spawn("node", main)
            sim.loop.run_for(10)
            wait(sim)

    with pytest.raises(ValueError, match="not a number"):
        run()


def test_a_crash_takes_effect_before_any_finally() -> None:
    events: list[str] = []

    async def main(ports: Ports) -> None:
        file = ports.disk.open("a", create=True)
        file.sync()
        ports.disk.sync_folder("")
        try:
            await idle(ports)
        finally:
            events.append("finally")
            file.write(0, b"saved")

    async def look(ports: Ports) -> None:
        events.append(f"size {ports.disk.open('a').size_bytes()}")

    with Simulation(1) as sim:
        sim.spawn("node", main)
        sim.run_for(10)
        sim.crash("node")
        sim.run_for(10)
        sim.spawn("node", look)
        sim.run_for(10)
        assert events == ["size 0"]


@pytest.mark.parametrize("seed", seeds(20))
def test_power_may_be_lost_in_the_midst_of_an_operation(seed: int) -> None:
    events: list[str] = []

    async def main(ports: Ports) -> None:
        file = ports.disk.open("a", create=True)
        ports.disk.sync_folder("")
        try:
            file.write(0, b"never")
            events.append("not reached")
        except PowerLoss:
            ports.disk.rename("a", "b")
        finally:
            asyncio.get_running_loop().call_soon(events.append, "not reached either")

    with Simulation(seed) as sim:
        sim.node("node").disk.crash_at = 2
        sim.spawn("node", main)
        sim.run_for(10)
        assert not sim.node("node").is_running
        assert sim.node("node").disk.names("") == ["a"]
        assert sim.node("node").disk.open("a").size_bytes() == 0
        assert events == []
        sim.spawn("node", idle)
        sim.run_for(10)
        assert sim.node("node").is_running


def test_killing_a_process_loses_no_data() -> None:
    async def main(ports: Ports) -> None:
        ports.disk.lock()
        file = ports.disk.open("a", create=True)
        file.write(file.size_bytes(), b"x")
        await idle(ports)

    with Simulation(1) as sim:
        for _ in range(3):
            sim.spawn("node", main)
            sim.run_for(10)
            sim.kill("node")
        assert sim.node("node").disk.open("a").size_bytes() == 3


def test_a_process_that_ends_takes_everything_it_began_with_it() -> None:
    events: list[str] = []

    async def linger() -> None:
        await asyncio.sleep(0.001)
        events.append("lingered")

    async def main(ports: Ports) -> None:
        ports.disk.lock()
        events.append("began")
        asyncio.get_running_loop().create_task(linger())

    with Simulation(1) as sim:
        for _ in range(2):
            sim.spawn("node", main)
            sim.run_for(100)
        assert events == ["began", "began"]
        assert not sim.node("node").is_running


def test_nodes_have_clocks_of_their_own() -> None:
    with Simulation(1) as sim:
        sim.node("late").clock.offset_ms = -5000
        sim.run_for(1234)
        clocks = [sim.node(name).ports.clock.now_ms() for name in ("right", "late")]
        assert clocks[0] - clocks[1] == 5000


def test_a_run_that_takes_too_long_is_ended_and_says_who_waits() -> None:
    def run() -> None:
        with Simulation(1) as sim:

            def tick() -> None:
                sim.loop.call_later(1, tick)

            tick()
            sim.spawn("node", idle)
            sim.run(asyncio.Event().wait(), limit_ms=60_000)

    with pytest.raises(StuckError, match=r"(?s)at 60000.000 ms.*node#1 of node#1.*run of world"):
        run()


def test_the_environment_asks_for_the_whole_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_SIM_TRACE", str(tmp_path / "trace"))
    for seed in (1, 2):
        with Simulation(seed) as sim:
            sim.note("something happens")
    first, event, *rest = (tmp_path / "trace").read_text().splitlines()
    assert first.startswith("# seed 1, time in ms")
    assert event == "0.000000 something happens"
    assert len(rest) == 2


def test_the_environment_chooses_the_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_SIM_SEED", raising=False)
    monkeypatch.delenv("OTTLA_SIM_SEEDS", raising=False)
    assert seeds(3) == [0, 1, 2]
    monkeypatch.setenv("OTTLA_SIM_SEEDS", "5")
    assert seeds(3) == [0, 1, 2, 3, 4]
    monkeypatch.setenv("OTTLA_SIM_SEED", "17")
    assert seeds(3) == [17]
