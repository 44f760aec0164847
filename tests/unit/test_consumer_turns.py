"""The caller's turns in a rebalance, when he is interrupted or his own store fails."""

import asyncio
import sys
from collections.abc import Awaitable, Collection, Mapping
from types import FrameType
from typing import Any, TypeVar

import pytest

from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.drive import drive
from ottla.client.consumer.mailbox import Change, Mailbox, Turn
from ottla.client.consumer.partition import Need
from ottla.client.consumer.plugs import RebalanceListener
from ottla.client.consumer.progress import Progress
from ottla.client.consumer.shelf import Shelf
from ottla.client.consumer.turns import Turns
from ottla.client.faces import Work
from ottla.model import TopicPartition
from tests.consumer_samples import OTHER, TP, settings

T = TypeVar("T")


class Interrupted:
    """A caller whose waits are interrupted, and the bell that nobody hears."""

    def __init__(self, interrupt: type[BaseException] | None = None) -> None:
        self._interrupt = interrupt

    async def run(self, work: Work[T], timeout_s: float | None = None) -> T:
        if self._interrupt is not None:
            work.close()
            raise self._interrupt
        return await work

    async def close(self, last: Work[None], timeout_s: float) -> None:
        await self.run(last)

    async def listen(self, timeout_s: float) -> None: ...

    async def result(self, returned: Awaitable[None] | None) -> None: ...

    def ring(self) -> None: ...

    def who(self) -> object:
        return self

    def time_s(self) -> float:
        return 0.0


class Half:
    """As much of a consumer's core as its caller's turns use."""

    is_auto_committing = True
    is_started = True
    is_outside = False

    def __init__(self, config: ConsumerConfig, bell: Interrupted) -> None:
        self.config = config
        self.shelf = Shelf()
        self.mailbox = Mailbox(bell)
        self.committed: list[Mapping[TopicPartition, Any]] = []

    async def commit_last(
        self, offsets: Mapping[TopicPartition, Any], timeout_ms: int
    ) -> Mapping[TopicPartition, Any]:
        self.committed.append(offsets)
        return offsets


class Table:
    """A store of offsets that fails at first."""

    def __init__(self, failure_count: int) -> None:
        self.failure_count = failure_count

    def load(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        if self.failure_count:
            self.failure_count -= 1
            raise OSError("the database is gone")
        return dict.fromkeys(partitions, 42)


def situation(caller: Interrupted, **options: Any) -> tuple[Half, Turns, list[str]]:
    """A consumer at position 5 of TP; what is done is written down."""
    half = Half(settings(group_id="readers", **options), caller)
    core: Any = half
    progress = Progress(half.shelf.positions)
    turns = Turns(core, caller, progress, object())
    half.shelf.assign([TP])
    half.shelf.require(TP).seek(5)
    progress.asked_for_more()
    return half, turns, []


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, asyncio.CancelledError])
def test_who_is_interrupted_while_giving_up_reads_no_further(
    interrupt: type[BaseException],
) -> None:
    half, turns, done = situation(Interrupted(interrupt))
    half.mailbox.put(Turn(Change.REVOKED, frozenset({TP}), lambda: done.append("revoked")))
    with pytest.raises(interrupt):
        drive(turns.take_all())
    assert done == ["revoked"]
    assert half.shelf.assigned == frozenset()


def test_what_is_given_up_is_committed_before_the_listener_hears_of_it() -> None:
    half, turns, done = situation(Interrupted())
    seen: list[int] = []

    class Listener(RebalanceListener):
        def on_revoked(self, consumer: Any, partitions: Collection[TopicPartition]) -> None:
            seen.append(len(half.committed))

    turns.listener = Listener()
    half.mailbox.put(Turn(Change.REVOKED, frozenset({TP}), lambda: done.append("revoked")))
    drive(turns.take_all())
    assert seen == [1]
    assert [{tp: at.offset for tp, at in told.items()} for told in half.committed] == [{TP: 5}]


def test_a_store_that_fails_is_asked_again_and_nothing_is_read_before_it_answers() -> None:
    half, turns, done = situation(Interrupted(), offset_store=Table(failure_count=2))
    half.mailbox.put(Turn(Change.ASSIGNED, frozenset({OTHER}), lambda: done.append("assigned")))
    for _ in range(2):
        with pytest.raises(OSError, match="database"):
            drive(turns.take_all())
        assert (done, half.shelf.find(OTHER)) == ([], None)
    drive(turns.take_all())
    assert done == ["assigned"]
    found = half.shelf.require(OTHER)
    assert (found.need, found.position) == (Need.NOTHING, 42)


@pytest.mark.parametrize("commits", [True, False])
def test_who_is_not_in_the_group_any_more_has_lost_what_he_gives_up(commits: bool) -> None:
    half, turns, done = situation(Interrupted())
    half.is_outside = True

    class Listener(RebalanceListener):
        def on_revoked(self, consumer: Any, partitions: Collection[TopicPartition]) -> None:
            done.append("revoked")

        def on_lost(self, consumer: Any, partitions: Collection[TopicPartition]) -> None:
            done.append("lost")

    turns.listener = Listener()
    drive(turns.give_up_all(commits=commits))
    assert (done, half.committed, half.shelf.assigned) == (["lost"], [], frozenset())


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize(
    ("event", "place"),
    [
        ("call", "Mailbox.take"),
        ("c_return", "Mailbox.take"),
        ("call", "Turns._read"),
        ("call", "Turns._take"),
        ("call", "Turns._take_over"),
        ("call", "Shelf.assign"),
    ],
)
def test_partitions_that_an_interrupt_kept_from_being_taken_over_are_still_to_be(
    event: str, place: str
) -> None:
    half, turns, done = situation(Interrupted())
    half.shelf.assign([])
    half.mailbox.put(Turn(Change.ASSIGNED, frozenset({TP}), lambda: done.append("assigned")))

    def interrupt(frame: FrameType, seen: str, argument: Any) -> None:
        if (seen, frame.f_code.co_qualname) == (event, place):
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            drive(turns.take_all())
    finally:
        sys.setprofile(None)
    assert done == []
    drive(turns.take_all())
    assert done == ["assigned"]
    assert half.shelf.assigned == {TP}
