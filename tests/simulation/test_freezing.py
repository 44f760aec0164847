"""A copy made while the broker works is what its death at that moment would have left.

At the cut, all files are copied by force, as no real disk could: that is the standard.  Then the
freezer takes its time, while clients write transactions, topics come and go, logs roll, are trimmed
and compacted.  In the end, recovery must make the same logs of both.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, NamedTuple

import pytest

from ottla.broker.freezing import Freezer, Frozen
from ottla.broker.server import Server
from ottla.errors import StorageError
from ottla.log import checkpoints, files
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.ports import Disk, Ports
from ottla.testing.disk import SimDisk
from ottla.testing.simulation import Simulation, seeds
from tests.simulation.admin_noise import COMPACTION, Admin, Bounds
from tests.simulation.broker_clients import Spot
from tests.simulation.broker_host import BrokerHost
from tests.simulation.txn_workload import EVENTS, RUN_LIMIT_MS, SETTINGS, TxnWorkload

RUN_COUNT: Final = 5
COPIES_PER_RUN: Final = 8
CHURNED: Final = "churned"
RETAINED: Final = "retained"
OWN_TOPICS: Final = {CHURNED: COMPACTION, RETAINED: {"retention.bytes": "500"}}
FAST: Final = {"log.roll.ms": 60, "log.retention.check.interval.ms": 30}

Key = tuple[str, int]
Files = dict[str, bytes]


def files_of(disk: Disk, folder: str = "") -> Files:
    """Everything below a folder, as a process reads it."""
    found: Files = {}
    for name in disk.names(folder):
        path = f"{folder}/{name}" if folder else name
        try:
            found |= files_of(disk, path)
        except NotADirectoryError:
            file = disk.open(path)
            found[path] = file.read(0, file.size_bytes())
            file.close()
    return found


def disk_with(content: Mapping[str, bytes]) -> SimDisk:
    disk = SimDisk()
    for path, data in content.items():
        folder = path.rpartition("/")[0]
        if folder:
            disk.make_folder(folder)
        disk.open(path, create=True).write(0, data)
    return disk


class Sight(NamedTuple):
    """What recovery makes of a log."""

    start_offset: int
    next_offset: int
    batches: dict[int, bytes]
    """Base offset -> bytes; of those that are whole below the start, none."""
    aborted: list[tuple[int, int, int]]
    producers: bytes


def seen(disk: Disk, key: Key, config: LogConfig, starts: Mapping[Key, int]) -> Sight:
    points = checkpoints.read_offsets(disk, files.RECOVERY_POINTS)
    log = Log.open(
        disk,
        files.folder_of(*key),
        config,
        now_ms=0,
        recovery_point=points.get(key, 0),
        start_offset=starts.get(key, 0),
    )
    aborted = log.aborted_transactions(log.start_offset, log.next_offset)
    return Sight(
        log.start_offset,
        log.next_offset,
        {
            batch.base_offset: bytes(batch.data)
            for segment in log.segments
            for batch in segment.batches()
            if batch.last_offset >= log.start_offset
        },
        sorted((txn.producer_id, txn.first_offset, txn.last_offset) for txn in aborted),
        log.producers.snapshot(),
    )


class Photo(NamedTuple):
    """What there was at a cut."""

    content: Files
    logs: dict[Key, LogConfig]
    starts: dict[Key, int]


class Studio(TxnWorkload):
    """A busy broker that is copied again and again."""

    def __init__(self, sim: Simulation, freezer: type[Freezer]) -> None:
        super().__init__(sim)
        self.host = self._host = BrokerHost(
            sim,
            self.journal,
            serve=self._served,
            settings={**SETTINGS, **FAST},
            freezer=freezer,
            back_up=self._expose,
        )
        self._photo: Photo | None = None
        self.differences: list[str] = []
        self.done: Counter[str] = self.journal.done

    @property
    def server(self) -> Server:
        assert self.host.server is not None
        return self.host.server

    def _expose(self, folder: str) -> None:
        """Called at the cut: before it nothing is in the copy, after it nothing may count."""
        self.done["cut"] += 1
        online = self.server._partitions.all()
        self._photo = Photo(
            {
                path: data
                for path, data in files_of(self.host.disk).items()
                if not path.startswith(folder)
            },
            {(p.topic, p.index): p.config for p in online},
            {(p.topic, p.index): p.log.start_offset for p in online},
        )

    def look(self) -> list[str]:
        """Run it all; return where copies were not what they should be."""
        self._sim.run(self._copies(), limit_ms=RUN_LIMIT_MS)
        return self.differences

    async def _copies(self) -> None:
        self.host.start()
        await self._sim.spawn("founder", self._prepare)
        await self._sim.spawn("renter", self._make_topics)
        self._keeping = asyncio.create_task(self._keep_clients_running())
        self._sim.spawn("admin", self._make_noise)
        rng = self._sim.stream("photographer")
        for _ in range(COPIES_PER_RUN):
            await asyncio.sleep(rng.uniform(0.05, 0.4))
            try:
                frozen = await self.server.freezer().freeze()
            except StorageError as error:
                self.done[f"gave up: {error}"] += 1
                continue
            self._compare(frozen)
            await self.server.freezer().thaw()
            assert not self.host.disk.exists(frozen.folder)
        self._keeping.cancel()

    def _compare(self, frozen: Frozen) -> None:
        assert self._photo is not None
        copy = {
            path: data[: frozen.ends.get(path, len(data))]
            for path, data in (
                (path.removeprefix(f"{frozen.folder}/"), data)
                for path, data in files_of(self.host.disk, frozen.folder).items()
            )
        }
        standard, copied = disk_with(self._photo.content), disk_with(copy)
        starts = checkpoints.read_offsets(copied, files.START_OFFSETS)
        if starts != self._photo.starts:
            self.differences.append(f"starts {starts}, not {self._photo.starts}")
        for key, config in self._photo.logs.items():
            wanted = seen(standard, key, config, self._photo.starts)
            got = seen(copied, key, config, starts)
            self.done["log"] += 1
            self.done["aborted"] += len(got.aborted)
            if config.is_compacted:
                # What was aborted is not there any more, and recovery may not miss it.
                self.done["compacted"] += 1
                got, wanted = got._replace(aborted=[]), wanted._replace(aborted=[])
            if got.start_offset > wanted.start_offset:
                # Records went meanwhile that somebody deleted, or that were too old.
                self.done["trimmed"] += 1
                kept = {at: data for at, data in wanted.batches.items() if at in got.batches}
                wanted = wanted._replace(start_offset=got.start_offset, batches=kept)
                got, wanted = got._replace(aborted=[]), wanted._replace(aborted=[])
            if got != wanted:
                self.differences.append(f"{key}: {got} is not {wanted}")

    async def _make_topics(self, ports: Ports) -> None:
        for topic, settings in OWN_TOPICS.items():
            assert await self._admin(ports).create(topic, 1, settings)

    async def _make_noise(self, ports: Ports) -> None:
        admin = self._admin(ports)
        noise = asyncio.ensure_future(admin.make_noise(altered=CHURNED, trimmed=Spot(EVENTS, 0)))
        while not noise.done():
            await asyncio.sleep(0.01)
            for topic in OWN_TOPICS:
                await self._admin(ports, "filler").fill(topic, -1)

    def _admin(self, ports: Ports, name: str = "admin") -> Admin:
        return Admin(ports, name, self.journal, self._sim.stream(name), Bounds())


def slow(rng: random.Random) -> type[Freezer]:
    """A freezer that rests after each partition, for as long as the broker needs to change."""

    class Slow(Freezer):
        partitions_per_turn = 1

        async def pause(self) -> None:
            await asyncio.sleep(rng.choice((0, 0, 0.001, 0.02)))
            await super().pause()

    return Slow


class Run(NamedTuple):
    differences: list[str]
    done: Counter[str]


def played(seed: int, worse: Callable[[type[Freezer]], type[Freezer]] = lambda kind: kind) -> Run:
    with Simulation(seed) as sim:
        studio = Studio(sim, worse(slow(sim.stream("freezer"))))
        return Run(studio.look(), studio.done)


well = cache(played)


@pytest.mark.parametrize("seed", seeds(RUN_COUNT))
def test_a_copy_is_what_the_death_of_the_broker_would_have_left(seed: int) -> None:
    assert well(seed).differences == []


def test_a_copy_that_has_no_end_is_noticed() -> None:
    def endless(kind: type[Freezer]) -> type[Freezer]:
        class Endless(kind):  # type: ignore[misc, valid-type]
            async def freeze(self) -> Frozen:
                return Frozen((await super().freeze()).folder, {})

        return Endless

    assert any(played(seed, endless).differences for seed in range(RUN_COUNT))


def test_the_copies_are_worth_something() -> None:
    done: Counter[str] = Counter()
    for seed in range(RUN_COUNT):
        done += well(seed).done
    assert done["cut"] > RUN_COUNT * COPIES_PER_RUN, "some were begun anew"
    assert min(done["log"], done["trimmed"], done["compacted"]) > 0, done
