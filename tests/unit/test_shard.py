"""What a shard does with the effects of its machine, and in which order.

The machine here decides nothing: each test hands over the effects.  Time is simulated, and syncs
end when the test says so.
"""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.broker.flusher import Flusher, Syncable
from ottla.broker.partition import Partition
from ottla.broker.shard import Shard, UnansweredError
from ottla.coordinator.effects import Alarm, AlarmName, Answer, Effect, Persist, StoredRecord
from ottla.errors import ErrorCode, StorageError
from ottla.log.log import Log
from ottla.records.batch import NO_PRODUCER_ID
from ottla.testing.disk import Operation, SimDisk
from ottla.testing.loop import Order
from ottla.testing.simulation import Simulation
from tests.compaction_samples import compacted_config, end_transaction, put
from tests.log_samples import EPOCH, NOW_MS
from tests.unit.test_flusher import GatedDisk, turn

FOLDER = "__consumer_offsets-0"
BELL: AlarmName = ("bell",)
FIRST, SECOND = StoredRecord(b"a", b"1"), StoredRecord(b"b", b"2")


class Scripted:
    """A machine that remembers what it was told, and decides what a test wrote down for it."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.when_loaded: list[Effect] = []
        self.when_rung: list[Effect] = []

    def apply(self, record: StoredRecord, producer_id: int = NO_PRODUCER_ID) -> None:
        self.told.append(record if producer_id == NO_PRODUCER_ID else (record, producer_id))

    def apply_marker(self, producer_id: int, *, committed: bool) -> None:
        self.told.append(("marker", producer_id, committed))

    def on_loaded(self, now_ms: int) -> list[Effect]:
        self.told.append("loaded")
        return self.when_loaded

    def on_alarm(self, name: AlarmName, now_ms: int) -> list[Effect]:
        self.told.append((name, now_ms))
        return self.when_rung

    def on_clock_set(self, by_ms: int) -> None:
        self.told.append(("clock", by_ms))


class Scene:
    """A shard on a log that waits to be synced, unless the page cache is durable enough."""

    def __init__(self, sim: Simulation, disk: SimDisk, *, flush: str = "commit") -> None:
        self.machine = Scripted()
        self.clock = sim.node("broker").clock
        self.log = Log.open(disk, FOLDER, compacted_config(segment_bytes=400), now_ms=NOW_MS)
        self.flusher: Flusher | None = None
        if flush == "commit":
            self.flusher = Flusher(disk, on_synced=advance, on_failure=lambda error: None)
        self.partition = Partition(
            topic="__consumer_offsets",
            index=0,
            records=self.log,
            leader_epoch=EPOCH,
            config=compacted_config(),
            flusher=self.flusher,
            max_decompressed_bytes=1_000_000,
        )
        self.shard = Shard(self.machine, self.partition, self.clock, disk, self.flusher)

    def ask(self, *effects: Effect) -> Any:
        """Ask; ticket n is the n-th question."""
        return self.shard.ask(lambda ticket, now_ms: list(effects))

    def rung(self) -> list[object]:
        return [told for told in self.machine.told if isinstance(told, tuple)]


def advance(synced: Syncable) -> None:
    assert isinstance(synced, Partition)
    synced.advance()


async def pause(duration_ms: int) -> None:
    """Let simulated time pass."""
    await asyncio.sleep(duration_ms / 1000)


def simulate(scenario: Callable[[Simulation], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(sim)

    with Simulation(seed=1, order=Order.FIFO) as sim:
        sim.run(run())


def test_effects_are_performed_in_their_order() -> None:
    async def scenario(sim: Simulation) -> None:
        scene = Scene(sim, SimDisk(), flush="os")
        await scene.shard.load()
        answer = scene.ask(Persist((FIRST, SECOND)), Answer(1, "both"), Persist((SECOND,)))
        assert answer.result() == "both"
        assert scene.machine.told == ["loaded", FIRST, SECOND, SECOND]
        assert scene.log.next_offset == 3

    simulate(scenario)


def test_what_is_persisted_at_once_is_one_batch() -> None:
    async def scenario(sim: Simulation) -> None:
        scene = Scene(sim, SimDisk(), flush="os")
        scene.shard.tell([Persist((FIRST, SECOND))])
        later = Scene(sim, SimDisk(), flush="os")
        later.shard.tell([Persist((FIRST,)), Persist((SECOND,))])
        assert scene.log.size_bytes < later.log.size_bytes, "two batches have two headers"

    simulate(scenario)


def test_an_answer_leaves_only_when_what_it_tells_of_is_durable() -> None:
    async def scenario(sim: Simulation) -> None:
        disk = GatedDisk()
        scene = Scene(sim, disk)
        answer = scene.ask(Persist((FIRST,)), Answer(1, "written"))
        assert scene.machine.told == [FIRST], "the machine need not wait"
        await turn()
        assert not answer.done()
        disk.gates[0].set_result(None)
        assert await answer == "written"

    simulate(scenario)


def test_an_answer_waits_for_what_another_question_persisted() -> None:
    async def scenario(sim: Simulation) -> None:
        disk = GatedDisk()
        scene = Scene(sim, disk)
        scene.ask(Persist((FIRST,)))
        reader = scene.ask(Answer(2, "what the first one wrote"))
        await turn()
        assert not reader.done()
        disk.gates[0].set_result(None)
        assert await reader == "what the first one wrote"

    simulate(scenario)


def test_an_answer_to_which_nothing_is_owed_leaves_at_once() -> None:
    async def scenario(sim: Simulation) -> None:
        scene = Scene(sim, GatedDisk())
        assert scene.ask(Answer(1, "from memory")).result() == "from memory"

    simulate(scenario)


def test_one_question_may_bring_the_answers_of_others() -> None:
    async def scenario(sim: Simulation) -> None:
        scene = Scene(sim, SimDisk(), flush="os")
        follower = scene.ask()
        assert not follower.done()
        leader = scene.ask(Answer(2, "yours"), Answer(1, "theirs"))
        assert (leader.result(), follower.result()) == ("yours", "theirs")

    simulate(scenario)


def test_the_answer_of_a_client_that_went_away_is_dropped() -> None:
    async def scenario(sim: Simulation) -> None:
        disk = GatedDisk()
        scene = Scene(sim, disk)
        early, late = scene.ask(), scene.ask(Persist((FIRST,)), Answer(2, "late"))
        early.cancel()
        late.cancel()
        others = scene.ask(Answer(1, "early"), Answer(3, "for those who stayed"))
        await turn()
        disk.gates[0].set_result(None)
        assert await others == "for those who stayed"
        assert early.cancelled()
        assert late.cancelled()

    simulate(scenario)


def test_a_failed_sync_is_told_instead_of_the_answer() -> None:
    async def scenario(sim: Simulation) -> None:
        disk = GatedDisk()
        scene = Scene(sim, disk)
        answer = scene.ask(Persist((FIRST,)), Answer(1, "written"))
        await turn()
        disk.gates[0].set_exception(OSError(errno.EIO, "broken"))
        with pytest.raises(UnansweredError, match="broken") as refused:
            await answer
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        with pytest.raises(UnansweredError, match="broken"):
            await scene.ask(Answer(2, "from memory that may be wrong"))

    simulate(scenario)


def test_a_shard_that_cannot_write_gives_up() -> None:
    async def scenario(sim: Simulation) -> None:
        disk = SimDisk()
        scene = Scene(sim, disk, flush="os")
        await scene.shard.load()
        waiting = scene.ask(Alarm(BELL, scene.clock.now_ms() + 1))
        disk.fail(errno.ENOSPC, Operation.WRITE)
        answer = scene.ask(Persist((FIRST,)), Answer(2, "written"))
        for lost in (waiting, answer):
            with pytest.raises(UnansweredError, match="cannot write its log") as refused:
                await lost
            assert refused.value.code is ErrorCode.NOT_COORDINATOR
        assert scene.shard.is_broken
        assert not scene.shard.is_loaded
        await pause(10)
        assert scene.machine.told == ["loaded"], "nothing was applied, nothing rang"

    simulate(scenario)


def test_what_is_too_large_for_a_batch_is_refused_and_the_shard_goes_on() -> None:
    async def scenario(sim: Simulation) -> None:
        scene = Scene(sim, SimDisk(), flush="os")
        await scene.shard.load()
        huge = StoredRecord(b"huge", bytes(scene.partition.config.max_message_bytes))
        answers = [scene.ask(), scene.ask(Persist((FIRST,)), Answer(2, "before it"))]
        at_ms = scene.clock.now_ms() + 1
        refused = scene.ask(
            Persist((huge,)),
            Alarm(BELL, at_ms),
            Alarm(BELL, None),
            Persist((SECOND,)),
            Answer(1, "ok"),
            Answer(3, ""),
        )
        for lost in (answers[0], refused):
            with pytest.raises(UnansweredError, match=r"max\.message\.bytes") as error:
                await lost
            assert error.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert answers[1].result() == "before it"
        assert scene.ask(Persist((SECOND,)), Answer(4, "after it")).result() == "after it"
        await pause(10)
        assert scene.machine.told == ["loaded", FIRST, SECOND, (BELL, at_ms)]
        assert scene.log.next_offset == 2

    simulate(scenario)


def test_a_shard_is_loaded_once_it_has_read_everything() -> None:
    async def scenario(sim: Simulation) -> None:
        disk = SimDisk()
        scene = Scene(sim, disk, flush="os")
        scene.machine.when_loaded = [Persist((SECOND,))]
        records = [StoredRecord(b"key %d" % number, bytes(100)) for number in range(20)]
        for record in records:
            put(scene.log, (record.key, record.value))
        assert len(scene.log.segments) > 1
        loading = asyncio.create_task(scene.shard.load())
        await asyncio.sleep(0)
        seen_while_loading = scene.shard.is_loaded
        await loading
        assert (seen_while_loading, scene.shard.is_loaded) == (False, True)
        assert scene.machine.told == [*records, "loaded", SECOND]

    simulate(scenario)


@pytest.mark.parametrize("is_given_up", [False, True])
def test_a_shard_reads_aside_what_is_not_in_memory(is_given_up: bool) -> None:
    async def scenario(sim: Simulation) -> None:
        disk = SimDisk()
        scene = Scene(sim, disk, flush="os")
        put(scene.log, *((b"key %d" % number, bytes(100)) for number in range(20)))
        disk.chill()
        loading = asyncio.create_task(scene.shard.load())
        await asyncio.sleep(0)
        assert not loading.done()
        if is_given_up:
            scene.shard.give_up(StorageError("its topic was deleted"))
            scene.partition.close()
            disk.remove(f"{FOLDER}/{0:020d}.log")
        await loading
        assert disk.blocking_read_count == 0
        assert scene.shard.is_loaded is not is_given_up
        assert ("loaded" in scene.machine.told) is not is_given_up

    simulate(scenario)


def test_tombstones_are_loaded_and_records_without_a_key_are_not() -> None:
    async def scenario(sim: Simulation) -> None:
        scene = Scene(sim, SimDisk(), flush="os")
        put(scene.log, (b"a", None), (None, b"no key"), (b"b", b"2"))
        await scene.shard.load()
        assert scene.machine.told == [StoredRecord(b"a", None), SECOND, "loaded"]

    simulate(scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_transactions_are_loaded_with_their_producer_and_their_end(commit: bool) -> None:
    async def scenario(sim: Simulation) -> None:
        scene = Scene(sim, SimDisk(), flush="os")
        put(scene.log, (b"a", b"1"), producer_id=7, sequence=0, transactional=True)
        put(scene.log, (b"b", b"2"), producer_id=8, sequence=0)
        end_transaction(scene.log, 7, commit=commit)
        await scene.shard.load()
        assert scene.machine.told == [(FIRST, 7), SECOND, ("marker", 7, commit), "loaded"]

    simulate(scenario)


def test_what_a_shard_wrote_the_next_one_reads() -> None:
    async def scenario(sim: Simulation) -> None:
        disk = SimDisk()
        scene = Scene(sim, disk, flush="os")
        scene.shard.tell([Persist((FIRST, SECOND)), Persist((StoredRecord(b"a", None),))])
        scene.log.close()
        again = Scene(sim, disk, flush="os")
        await again.shard.load()
        assert again.machine.told == [*scene.machine.told, "loaded"]

    simulate(scenario)


def test_an_alarm_rings_once_and_on_time() -> None:
    async def scenario(sim: Simulation) -> None:
        scene = Scene(sim, SimDisk(), flush="os")
        at_ms = scene.clock.now_ms() + 100
        scene.shard.tell([Alarm(BELL, at_ms)])
        await pause(99)
        assert scene.rung() == []
        await pause(200)
        assert scene.rung() == [(BELL, at_ms)]

    simulate(scenario)


def test_an_alarm_of_the_past_rings_at_once() -> None:
    async def scenario(sim: Simulation) -> None:
        scene = Scene(sim, SimDisk(), flush="os")
        now_ms = scene.clock.now_ms()
        scene.shard.tell([Alarm(BELL, now_ms - 1)])
        await pause(1)
        assert scene.rung() == [(BELL, now_ms)]

    simulate(scenario)


def test_an_alarm_can_be_moved_and_canceled() -> None:
    async def scenario(sim: Simulation) -> None:
        scene = Scene(sim, SimDisk(), flush="os")
        now_ms, other = scene.clock.now_ms(), ("other bell",)
        scene.shard.tell([Alarm(BELL, now_ms + 10), Alarm(other, now_ms + 10)])
        scene.shard.tell([Alarm(BELL, now_ms + 50), Alarm(other, None), Alarm(("never",), None)])
        await pause(1000)
        assert scene.rung() == [(BELL, now_ms + 50)]

    simulate(scenario)


def test_what_the_machine_decides_when_it_rings_is_performed() -> None:
    async def scenario(sim: Simulation) -> None:
        scene = Scene(sim, SimDisk(), flush="os")
        now_ms = scene.clock.now_ms()
        scene.machine.when_rung = [Answer(1, "too late")]
        answer = scene.ask(Alarm(BELL, now_ms + 10))
        assert await answer == "too late"
        assert scene.clock.now_ms() == now_ms + 10

    simulate(scenario)


@pytest.mark.parametrize("by_ms", [-3_600_000, -1_000, 1_000, 3_600_000])
def test_a_machine_hears_that_the_clock_was_set_before_it_is_asked_by_it(by_ms: int) -> None:
    async def scenario(sim: Simulation) -> None:
        scene = Scene(sim, SimDisk(), flush="os")
        scene.shard.tell([Alarm(BELL, scene.clock.now_ms() + 100)])
        await pause(50)
        scene.clock.offset_ms += by_ms
        scene.ask()
        assert scene.machine.told == [("clock", by_ms)]
        await pause(50)
        assert scene.machine.told == [("clock", by_ms), (BELL, scene.clock.now_ms())]

    simulate(scenario)


def test_a_clock_that_is_not_exact_was_not_set() -> None:
    async def scenario(sim: Simulation) -> None:
        scene = Scene(sim, SimDisk(), flush="os")
        scene.clock.offset_ms += 999
        scene.ask()
        assert scene.machine.told == []

    simulate(scenario)


def test_a_closed_shard_rings_no_more_and_keeps_nobody_waiting() -> None:
    async def scenario(sim: Simulation) -> None:
        scene = Scene(sim, SimDisk(), flush="os")
        answer = scene.ask(Alarm(BELL, scene.clock.now_ms() + 10))
        scene.shard.close()
        await pause(100)
        assert answer.cancelled()
        assert scene.rung() == []

    simulate(scenario)
