"""Group commit: who waits for which sync, and what becomes of them when it fails."""

import asyncio
import errno
import random
from collections.abc import Iterable
from typing import TypeVar

import pytest

from ottla.broker.flusher import LATER_MS, MUCH_BYTES, Flusher, Syncable
from ottla.ports import Disk, File, Folder
from ottla.testing.disk import SimDisk
from ottla.testing.loop import SimLoop

R = TypeVar("R")


class Journal:
    """Something that can be synced, and remembers up to where it was."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.next_offset = 0
        self.synced_offset = 0
        self.unsynced_bytes = 0
        self.early_count = 0

    def append(self, size_bytes: int = 1) -> None:
        self.next_offset += 1
        self.unsynced_bytes += size_bytes

    def begin_writeback(self) -> None:
        self.early_count += 1

    def unsynced_files(self) -> list[File | Folder]:
        self.unsynced_bytes = 0
        return [self.file]

    def mark_synced(self, up_to_offset: int) -> None:
        self.synced_offset = up_to_offset


class GatedDisk(SimDisk):
    """A disk whose syncs end when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.gates: list[asyncio.Future[None]] = []

    async def sync_files(self, files: Iterable[File | Folder]) -> None:
        assert list(files), "a sync of nothing"
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        await gate


class Scene:
    def __init__(self) -> None:
        self.disk = GatedDisk()
        self.journal = Journal(self.disk.open("journal", create=True))
        self.failures: list[OSError] = []
        self.synced: list[Syncable] = []
        disk: Disk = self.disk
        self.flusher = Flusher(disk, on_synced=self.synced.append, on_failure=self.failures.append)

    def append(self, answer: str, size_bytes: int = 1) -> "asyncio.Future[str]":
        self.journal.append(size_bytes)
        self.flusher.note(self.journal)
        return self.flusher.when_durable(answer)

    async def append_and_sync(self, answer: str) -> str:
        durable = self.append(answer)
        await turn()
        self.disk.gates[-1].set_result(None)
        return await durable


def failed(answer: R) -> R:
    raise AssertionError(f"{answer} was to be given as it is")


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_an_answer_leaves_after_the_sync_that_covers_it() -> None:
    async def scenario() -> None:
        scene = Scene()
        answer = scene.append("first")
        await turn()
        assert not answer.done()
        scene.disk.gates[0].set_result(None)
        assert await answer == "first"
        assert scene.journal.synced_offset == 1
        assert scene.synced == [scene.journal]

    asyncio.run(scenario())


def test_who_comes_during_a_sync_waits_for_the_next_one() -> None:
    async def scenario() -> None:
        scene = Scene()
        early = scene.append("early")
        await turn()
        late = [scene.append(f"late {n}") for n in range(10)]
        scene.disk.gates[0].set_result(None)
        await turn()
        assert early.done()
        assert not any(answer.done() for answer in late)
        assert len(scene.disk.gates) == 2, "one sync for all of them"
        scene.disk.gates[1].set_result(None)
        assert [await answer for answer in late] == [f"late {n}" for n in range(10)]
        assert scene.journal.synced_offset == 11

    asyncio.run(scenario())


def test_an_answer_does_not_leave_with_those_that_had_nothing_to_wait_for() -> None:
    async def scenario() -> None:
        scene = Scene()
        assert await scene.flusher.after_sync("nothing was written", failed)
        scene.journal.append()
        scene.flusher.note(scene.journal)
        written = scene.flusher.after_sync("something was", failed)
        await turn()
        assert not written.sync.is_over
        scene.disk.gates[0].set_result(None)
        assert await written == "something was"

    asyncio.run(scenario())


def test_nothing_unsynced_means_nothing_to_wait_for() -> None:
    async def scenario() -> None:
        scene = Scene()
        assert scene.flusher.when_durable("now").done()
        await scene.flusher.flush()

    asyncio.run(scenario())


def test_a_failed_sync_fails_everybody_and_is_never_repeated() -> None:
    async def scenario() -> None:
        scene = Scene()
        covered = scene.append("covered")
        await turn()
        waiting = scene.append("waiting")
        scene.disk.gates[0].set_exception(OSError(errno.EIO, "the disk is gone"))
        await turn()
        later = scene.append("later")
        for answer in (covered, waiting, later):
            with pytest.raises(OSError, match="the disk is gone"):
                await answer
        assert len(scene.failures) == 1
        assert len(scene.disk.gates) == 1
        assert scene.journal.synced_offset == 0

    asyncio.run(scenario())


def test_answers_after_one_sync_share_it() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.append("first")
        answers = [scene.flusher.after_sync(n, failed) for n in range(3)]
        assert len({id(answer.sync) for answer in answers}) == 1
        await turn()
        scene.append("late")
        late = scene.flusher.after_sync("late", failed)
        assert late.sync is not answers[0].sync
        scene.disk.gates[0].set_result(None)
        assert [await answer for answer in answers] == [0, 1, 2]
        assert not late.sync.is_over
        scene.disk.gates[1].set_result(None)
        assert await late == "late"

    asyncio.run(scenario())


def test_who_gives_up_does_not_give_up_for_the_others() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.append("first")
        gone, patient = (scene.flusher.after_sync(name, failed) for name in ("gone", "patient"))

        async def wait() -> str:
            return await gone

        task = asyncio.ensure_future(wait())
        await turn()
        task.cancel()
        await turn()
        assert task.cancelled()
        scene.disk.gates[0].set_result(None)
        assert await patient == "patient"

    asyncio.run(scenario())


def test_an_answer_after_a_sync_becomes_another_one_if_the_sync_fails() -> None:
    async def scenario() -> None:
        scene = Scene()
        waiting = scene.append("first")
        answer = scene.flusher.after_sync("answer", lambda text: f"no {text}")
        await turn()
        scene.disk.gates[0].set_exception(OSError(errno.EIO, "the disk is gone"))
        with pytest.raises(OSError, match="the disk is gone"):
            await waiting
        assert await answer == "no answer"
        assert await scene.flusher.after_sync("later", lambda text: f"no {text}") == "no later"

    asyncio.run(scenario())


def test_a_sync_that_cannot_even_begin_leaves_nobody_waiting() -> None:
    async def scenario() -> None:
        scene = Scene()
        answer = scene.append("a")
        await turn()
        scene.disk.gates.pop().set_exception(RuntimeError("can't start new thread"))
        with pytest.raises(OSError, match="can't start new thread"):
            await answer
        assert len(scene.failures) == 1
        with pytest.raises(OSError, match="can't start new thread"):
            await scene.append("b")

    asyncio.run(scenario())


def test_what_nobody_waits_for_goes_with_the_next_sync() -> None:
    async def run() -> None:
        scene = Scene()
        scene.journal.append()
        scene.flusher.note_for_later(scene.journal)
        await asyncio.sleep(0)
        assert scene.disk.gates == []
        assert not scene.flusher.is_at_rest
        durable = asyncio.ensure_future(scene.flusher.flush())
        await turn()
        (gate,) = scene.disk.gates
        gate.set_result(None)
        await durable
        assert scene.journal.synced_offset == 1

    asyncio.run(run())


def test_what_nobody_waits_for_is_synced_by_itself_in_the_end() -> None:
    loop = SimLoop(random.Random(1))
    scene = Scene()

    async def run() -> None:
        scene.journal.append()
        scene.flusher.note_for_later(scene.journal)
        await asyncio.sleep(LATER_MS / 1000 + 1)
        (gate,) = scene.disk.gates
        gate.set_result(None)
        await turn()

    loop.run_until_complete(run())
    loop.close()
    assert scene.journal.synced_offset == 1


def test_much_does_not_wait_for_the_sync_that_is_under_way() -> None:
    async def scenario() -> None:
        scene = Scene()
        early = scene.append("early")
        await turn()
        much = scene.append("much", MUCH_BYTES)
        await turn()
        assert len(scene.disk.gates) == 2
        more = scene.append("more", MUCH_BYTES)
        await turn()
        assert len(scene.disk.gates) == 2, "two are enough"
        scene.disk.gates[0].set_result(None)
        await turn()
        assert early.done()
        assert not much.done()
        assert scene.journal.synced_offset == 1
        assert len(scene.disk.gates) == 3, "and its place is taken at once"
        scene.disk.gates[1].set_result(None)
        scene.disk.gates[2].set_result(None)
        assert [await much, await more] == ["much", "more"]
        assert scene.flusher.is_at_rest

    asyncio.run(scenario())


def test_a_sync_counts_when_those_that_began_before_it_are_over() -> None:
    async def scenario() -> None:
        scene = Scene()
        early = scene.append("early")
        await turn()
        late = scene.append("late", MUCH_BYTES)
        await turn()
        scene.disk.gates[1].set_result(None)
        await turn()
        assert not late.done()
        assert scene.journal.synced_offset == 0
        scene.disk.gates[0].set_result(None)
        assert [await early, await late] == ["early", "late"]
        assert scene.journal.synced_offset == 2

    asyncio.run(scenario())


def test_a_sync_that_fails_takes_those_along_that_began_after_it() -> None:
    async def scenario() -> None:
        scene = Scene()
        early = scene.append("early")
        await turn()
        late = scene.append("late", MUCH_BYTES)
        await turn()
        scene.disk.gates[1].set_result(None)
        scene.disk.gates[0].set_exception(OSError(errno.EIO, "the disk is gone"))
        for answer in (early, late):
            with pytest.raises(OSError, match="the disk is gone"):
                await answer
        assert scene.journal.synced_offset == 0
        assert len(scene.failures) == 1

    asyncio.run(scenario())


def test_a_sync_that_fails_early_fails_nobody_before_its_turn() -> None:
    async def scenario() -> None:
        scene = Scene()
        early = scene.append("early")
        await turn()
        late = scene.append("late", MUCH_BYTES)
        await turn()
        scene.disk.gates[1].set_exception(OSError(errno.EIO, "the disk is gone"))
        await turn()
        assert not early.done()
        scene.disk.gates[0].set_result(None)
        assert await early == "early"
        with pytest.raises(OSError, match="the disk is gone"):
            await late
        assert scene.journal.synced_offset == 1

    asyncio.run(scenario())


def test_what_comes_with_the_end_of_a_sync_is_not_forgotten() -> None:
    async def scenario() -> None:
        scene = Scene()
        first = scene.append("first")
        seconds: list[asyncio.Future[str]] = []
        first.add_done_callback(lambda _: seconds.append(scene.append("second")))
        await turn()
        scene.disk.gates[0].set_result(None)
        await turn()
        scene.disk.gates[1].set_result(None)
        assert await seconds[0] == "second"

    asyncio.run(scenario())


class BrokenJournal(Journal):
    """A journal with a bug: it fails at the beginning of a sync, or at its end."""

    def __init__(self, file: File, *, broken: str) -> None:
        super().__init__(file)
        self._broken = broken

    def unsynced_files(self) -> list[File | Folder]:
        assert self._broken != "beginning", "the beginning is broken"
        return super().unsynced_files()

    def mark_synced(self, up_to_offset: int) -> None:
        assert self._broken != "end", "the end is broken"
        super().mark_synced(up_to_offset)


@pytest.mark.parametrize("broken", ["beginning", "end"])
def test_a_bug_at_either_end_of_a_sync_leaves_nobody_waiting(
    broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.journal = BrokenJournal(scene.disk.open("broken", create=True), broken=broken)
        covered = scene.append("covered")
        await turn()
        waiting = scene.append("waiting")
        for gate in scene.disk.gates:
            gate.set_result(None)
        await turn()
        later = scene.append("later")
        for answer in (covered, waiting, later):
            assert answer.done()
            with pytest.raises(OSError, match=f"the {broken} is broken"):
                await answer
        assert len(scene.failures) == 1, "the directory is offline, and told so once"
        assert not scene.flusher.is_at_rest

    asyncio.run(scenario())
    assert any(record.exc_info for record in caplog.records), "the bug itself is in the log"


def test_a_bug_of_whoever_is_told_of_a_sync_leaves_nobody_waiting() -> None:
    async def scenario() -> None:
        scene = Scene()

        def fail(_: Syncable) -> None:
            raise ValueError("nobody expected this")

        disk: Disk = scene.disk
        scene.flusher = Flusher(disk, on_synced=fail, on_failure=scene.failures.append)
        answer = scene.append("answer")
        await turn()
        scene.disk.gates[0].set_result(None)
        await turn()
        assert answer.done()
        with pytest.raises(OSError, match="nobody expected this"):
            await answer
        assert len(scene.failures) == 1

    asyncio.run(scenario())
