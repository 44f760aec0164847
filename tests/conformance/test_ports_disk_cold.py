"""What every disk promises about reads at once, and about what it shall bring into memory."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.broker.cold_reads import without_blocking
from ottla.ports import ColdReadError, Disk
from ottla.runtime.disk import RealDisk
from ottla.testing.disk import SimDisk
from tests.page_cache import ATTEMPTS, CONTENT, END, chill


@dataclass(frozen=True, slots=True)
class Machine:
    """A disk with CONTENT in the file `old`, and a way to have its memory emptied."""

    disk: Disk
    chill: Callable[[], None]


@pytest.fixture(params=["real", "simulated"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    if request.param == "simulated":
        simulated = SimDisk()
        simulated.warm_delay_ms = (0.0, 0.0)
        simulated.open("old", create=True).write(0, CONTENT)
        yield Machine(simulated, simulated.chill)
        return
    (tmp_path / "old").write_bytes(CONTENT)
    real = RealDisk(tmp_path)
    yield Machine(real, lambda: chill(tmp_path / "old"))
    real.close()


def at_once(disk: Disk, path: str, position: int, size_bytes: int) -> bytes:
    file = disk.open(path)
    try:
        return disk.at_once(lambda: file.read(position, size_bytes))
    finally:
        file.close()


def test_what_is_in_memory_is_read_at_once(machine: Machine) -> None:
    machine.disk.open("old").read(0, END)

    assert at_once(machine.disk, "old", 0, END) == CONTENT
    assert at_once(machine.disk, "old", END - 6, 6) == CONTENT[-6:]
    assert at_once(machine.disk, "old", END - 6, 100) == CONTENT[-6:]
    assert at_once(machine.disk, "old", END, 100) == b""


@pytest.mark.parametrize(
    ("position", "size_bytes"),
    [
        pytest.param(0, 100, id="a few bytes"),
        pytest.param(END // 2 - 50, 100, id="on two pages"),
        pytest.param(0, END, id="all"),
        pytest.param(END - 10, 1000, id="the end"),
    ],
)
def test_what_shall_be_read_at_once_does_not_wait(
    machine: Machine, position: int, size_bytes: int
) -> None:
    missing = refused(machine, position, size_bytes)

    assert (missing.path, missing.position, missing.size_bytes) == ("old", position, size_bytes)


def refused(machine: Machine, position: int, size_bytes: int) -> ColdReadError:
    """What is said of a read that finds nothing in memory."""
    for _ in range(ATTEMPTS):
        machine.chill()
        try:
            at_once(machine.disk, "old", position, size_bytes)
        except ColdReadError as missing:
            return missing
    pytest.fail("what is not in memory was read at once")


def test_other_reads_wait(machine: Machine) -> None:
    refused(machine, 0, 10)

    assert machine.disk.open("old").read(0, END) == CONTENT


def test_what_was_warmed_is_read_at_once(machine: Machine) -> None:
    machine.chill()

    asyncio.run(machine.disk.warm("old", 5000, 300_000))

    assert at_once(machine.disk, "old", 5000, 300_000) == CONTENT[5000:305_000]


def test_more_can_be_warmed_than_there_is(machine: Machine) -> None:
    machine.chill()

    asyncio.run(machine.disk.warm("old", END - 100, 10 * END))
    asyncio.run(machine.disk.warm("old", 10 * END, END))

    assert at_once(machine.disk, "old", END - 100, 100) == CONTENT[-100:]


def test_a_file_that_is_gone_can_be_warmed_in_vain(machine: Machine) -> None:
    asyncio.run(machine.disk.warm("never there", 0, 100))
    asyncio.run(machine.disk.warm("old/never there", 0, 100))


def test_many_warm_at_the_same_time_and_some_lose_interest(machine: Machine) -> None:
    machine.chill()

    async def scenario() -> None:
        parts = range(0, END, END // 64)
        tasks = [asyncio.ensure_future(machine.disk.warm("old", at, END // 64)) for at in parts]
        await asyncio.sleep(0)
        for task in tasks[1::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [task.cancelled() for task in tasks] == [False, True] * 32

    asyncio.run(scenario())
    assert at_once(machine.disk, "old", 0, END // 64) == CONTENT[: END // 64]


def test_what_was_just_written_is_in_memory(machine: Machine) -> None:
    file = machine.disk.open("new", create=True)
    file.write(0, b"espresso")

    assert machine.disk.at_once(lambda: file.read(0, 8)) == b"espresso"


def test_the_loop_goes_on_while_what_is_not_in_memory_is_read(machine: Machine) -> None:
    async def has_waited() -> bool:
        machine.chill()
        file = machine.disk.open("old")
        reading = asyncio.ensure_future(without_blocking(machine.disk, lambda: file.read(0, END)))
        await asyncio.sleep(0)
        is_waiting = not reading.done()
        assert await reading == CONTENT
        return is_waiting

    assert any(asyncio.run(has_waited()) for _ in range(ATTEMPTS))
