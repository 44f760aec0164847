"""Group commit: who is told of a sync when, by a call."""

import asyncio
import errno
from collections.abc import Callable, Iterable

import pytest

from ottla.broker.flusher import EARLY_BYTES, Flusher
from ottla.ports import Disk, File, Folder
from ottla.testing.disk import SimDisk
from tests.unit.test_flusher import Journal, Scene, failed, turn


class CallingDisk(SimDisk):
    """A disk whose syncs end in the call of the test."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[Callable[[Exception | None], None]] = []

    def begin_sync(
        self, files: Iterable[File | Folder], when_over: Callable[[Exception | None], None]
    ) -> None:
        self.ends.append(when_over)


def flusher_on(disk: CallingDisk) -> tuple[Flusher, Journal]:
    port: Disk = disk
    flusher = Flusher(port, on_synced=lambda _: None, on_failure=lambda _: None)
    return flusher, Journal(disk.open("journal", create=True))


def test_who_waits_is_told_in_the_turn_in_which_the_disk_is_done() -> None:
    async def scenario() -> None:
        disk = CallingDisk()
        flusher, journal = flusher_on(disk)
        journal.append()
        flusher.note(journal)
        answer = flusher.after_sync("answer", failed)
        told: list[int] = []
        answer.sync.when_over(lambda _: told.append(journal.synced_offset))
        await turn()
        journal.append()
        flusher.note(journal)
        assert told == []

        disk.ends[0](None)

        assert told == [1], "and what it covers is marked before"
        assert len(disk.ends) == 2, "the next one is under way by then"
        answer.sync.when_over(lambda _: told.append(-1))
        assert told == [1, -1], "who is late is told at once"
        assert await answer == "answer"

    asyncio.run(scenario())


def test_who_cannot_be_told_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.append("first")

        def fail(_: object) -> None:
            raise ValueError("nobody expected this")

        scene.flusher.after_sync("broken", failed).sync.when_over(fail)
        patient = scene.append("patient")
        await turn()
        scene.disk.gates[0].set_result(None)
        assert await patient == "patient"
        assert await scene.append_and_sync("next") == "next", "and syncs go on"

    asyncio.run(scenario())
    assert any(record.exc_info for record in caplog.records), "the bug itself is in the log"


def test_what_is_under_way_is_enough_for_who_has_written_nothing_since() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.append("first")
        await turn()
        answer = scene.flusher.after_sync("answer", failed)
        scene.disk.gates[0].set_result(None)
        assert await answer == "answer"
        assert len(scene.disk.gates) == 1

    asyncio.run(scenario())


def test_an_answer_does_not_wait_for_a_log_that_was_deleted() -> None:
    async def scenario() -> None:
        disk = CallingDisk()
        flusher, journal = flusher_on(disk)
        journal.append()
        flusher.note(journal)
        await turn()
        journal.append()
        flusher.note(journal)
        answer = flusher.after_sync("answer", failed)
        flusher.forget(journal)
        disk.ends[0](None)
        disk.ends[1](None)
        assert await answer == "answer"

    asyncio.run(scenario())


def test_what_ends_after_it_was_abandoned_counts_for_nothing() -> None:
    async def scenario() -> None:
        disk = CallingDisk()
        flusher, journal = flusher_on(disk)
        journal.append()
        flusher.note(journal)
        answer = flusher.when_durable("answer")
        await turn()
        flusher.abandon()
        disk.ends[0](None)
        await turn()
        assert not answer.done()
        assert journal.synced_offset == 0

    asyncio.run(scenario())


def test_the_disk_begins_early_with_much_if_it_has_nothing_else_to_do() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.append("little", EARLY_BYTES - 1)
        assert scene.journal.early_count == 0
        much = scene.append("much", 1)
        assert scene.journal.early_count == 1
        await turn()
        scene.append("during a sync", EARLY_BYTES)
        assert scene.journal.early_count == 1
        scene.disk.gates[0].set_result(None)
        assert await much == "much"

    asyncio.run(scenario())


def test_a_directory_is_offline_before_those_who_wait_are_told_that_its_sync_failed() -> None:
    async def scenario() -> None:
        disk = CallingDisk()
        order: list[str] = []
        port: Disk = disk
        flusher = Flusher(
            port, on_synced=lambda _: None, on_failure=lambda _: order.append("offline")
        )
        journal = Journal(disk.open("journal", create=True))
        journal.append()
        flusher.note(journal)
        flusher.after_sync("answer", failed).sync.when_over(lambda _: order.append("told"))
        await turn()

        disk.ends[0](OSError(errno.EIO, "the disk is gone"))

        assert order == ["offline", "told"], "who is told may write what waits behind it"

    asyncio.run(scenario())
