"""Commits that are answered late: as whom they were asked for, and what a refusal says of whom."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.consumer.committer import Committer
from ottla.client.consumer.inquiries import Inquiries
from ottla.client.records import GroupMetadata, OffsetAndMetadata
from ottla.errors import CommitFailedError, DeadlineError, ErrorCode, OttlaError, RejoinError
from ottla.model import TopicPartition
from ottla.ports import Ports
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.registry import ApiKey
from tests.client.scripted import ScriptedBroker, Worlds, engine
from tests.consumer_samples import TP

OFFSETS = {TP: OffsetAndMetadata(5)}


class Member:
    """Who commits; answers may change it."""

    def __init__(self, *codes: ErrorCode) -> None:
        self.codes = list(codes)
        self.generation = 1
        self.moves_on = True
        self.next_generation = 2
        self.assigned: set[TopicPartition] = set()
        self.heard: list[OttlaError] = []
        self.committed_as: list[int] = []
        self.broker = ScriptedBroker()
        self.broker.handlers[ApiKey.OFFSET_COMMIT] = self.answer

    @property
    def identity(self) -> GroupMetadata:
        return GroupMetadata("readers", self.generation, "ada")

    def answer(self, request: OffsetCommitRequest, version: int) -> Any:
        """The next code; meanwhile the member is in another generation."""
        self.committed_as.append(request.generation_id_or_member_epoch)
        if self.moves_on:
            self.generation = self.next_generation
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        told = OffsetCommitResponsePartition(partition_index=0, error_code=code)
        topic = OffsetCommitResponseTopic(name=TP.topic, partitions=(told,))
        return OffsetCommitResponse(topics=(topic,))


def play(member: Member, story: Callable[[Committer], Any]) -> Any:
    async def client(ports: Ports) -> Any:
        asker = engine(ports)
        await asker.start()
        try:
            committer = Committer(
                asker, lambda: member.identity, member.heard.append, lambda: member.assigned
            )
            return await story(committer)
        finally:
            await asker.close()

    with Worlds() as world:
        world.serve(member.broker)
        return world.play(client)


def test_what_was_read_in_one_generation_is_not_committed_in_the_next() -> None:
    member = Member(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def story(committer: Committer) -> None:
        with pytest.raises(CommitFailedError, match="shared out anew"):
            await committer.commit(OFFSETS)

    play(member, story)
    assert member.committed_as == [1]


def test_who_left_the_group_does_not_commit_from_outside() -> None:
    member = Member(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    member.next_generation, member.assigned = -1, {TP}

    async def story(committer: Committer) -> None:
        with pytest.raises(CommitFailedError, match="not ours any more"):
            await committer.commit(OFFSETS)

    play(member, story)
    assert member.committed_as == [1]


def test_a_commit_waits_in_line_and_still_belongs_to_its_own_generation() -> None:
    member = Member()

    async def story(committer: Committer) -> list[Any]:
        both = [asyncio.ensure_future(committer.commit(OFFSETS)) for _ in range(2)]
        return await asyncio.gather(*both, return_exceptions=True)

    first, second = play(member, story)
    assert first is None
    assert isinstance(second, CommitFailedError)
    assert member.committed_as == [1]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
    ],
)
def test_what_is_still_ours_is_committed_under_the_newest_generation(code: ErrorCode) -> None:
    member = Member(code)
    member.assigned = {TP}
    play(member, lambda committer: committer.commit(OFFSETS))
    assert member.committed_as == [1, 2]


@pytest.mark.parametrize("moves_on", [False, True])
def test_a_refusal_speaks_of_the_generation_that_asked(moves_on: bool) -> None:
    member = Member(ErrorCode.ILLEGAL_GENERATION)
    member.moves_on = moves_on

    async def story(committer: Committer) -> None:
        with pytest.raises(CommitFailedError):
            await committer.commit(OFFSETS)

    play(member, story)
    assert len(member.heard) == (0 if moves_on else 1)


@pytest.mark.parametrize(
    "code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH], ids=lambda c: c.name
)
def test_who_can_poll_is_told_of_a_rebalance_and_who_is_leaving_waits_for_its_end(
    code: ErrorCode,
) -> None:
    member = Member(code, code, code)
    member.moves_on = False

    async def story(committer: Committer) -> None:
        with pytest.raises(RejoinError):
            await committer.commit(OFFSETS)
        await committer.commit(OFFSETS, waits=True)

    play(member, story)
    assert member.committed_as == [1] * 4


def test_who_is_leaving_and_waited_in_vain_is_told_for_what() -> None:
    member = Member(*[ErrorCode.REBALANCE_IN_PROGRESS] * 1_000)
    member.moves_on = False

    async def story(committer: Committer) -> None:
        with pytest.raises(DeadlineError, match="REBALANCE_IN_PROGRESS"):
            await committer.commit(OFFSETS, 10_000, waits=True)

    play(member, story)


def test_who_is_leaving_does_not_wait_for_a_group_that_went_on_without_him() -> None:
    member = Member(ErrorCode.ILLEGAL_GENERATION)
    member.moves_on = False

    async def story(committer: Committer) -> None:
        with pytest.raises(CommitFailedError):
            await committer.commit(OFFSETS, waits=True)

    play(member, story)


def test_a_commit_in_the_background_that_fails_is_heard_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Refusing:
        async def commit(self, offsets: object) -> None:
            raise CommitFailedError(ErrorCode.ILLEGAL_GENERATION, "somebody else has it")

    core: Any = Refusing()
    with pytest.raises(CommitFailedError):
        asyncio.run(Inquiries(core).commit(OFFSETS))
    assert "somebody else has it" in caplog.text
