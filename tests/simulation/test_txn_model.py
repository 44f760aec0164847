"""Transactions whose requests are delayed, sent twice, overtaken and lost, while nodes crash.

Version 1 of the protocol cannot survive that (KAFKA-17754): a request of one transaction can be
taken for one of the next, which has the same epoch.  Version 2 must (KIP-890).  That the model
would notice is shown twice: it finds the hole of version 1, and every rule that is broken for it.
"""

import sys
from collections.abc import Iterable
from dataclasses import replace

import pytest

from ottla.coordinator.caller import Caller
from ottla.coordinator.effects import Effect, Ticket, WriteMarkers
from ottla.coordinator.txn.machine import TransactionCoordinator
from ottla.coordinator.txn.transaction import LAST_CLIENT_EPOCH
from ottla.model import TopicPartition
from ottla.testing.history import Outcome
from ottla.testing.simulation import seeds
from ottla.wire.messages.end_txn import EndTxnRequest
from tests.txn_model.client import Kind
from tests.txn_model.judge import HANGING, REFUSED, STUCK, TORN, Violation
from tests.txn_model.stage import Rules
from tests.txn_model.walk import FAULTS, replay, shortest, walk
from tests.txn_model.world import Action, Cast, World

V1 = Kind(version=1)
OLD_V1 = Kind(version=1, goes_on=True)
V2 = Kind(version=2)
STEPS = 300
DELAYS = frozenset({"time out", "deliver late"})
LATE_MARKERS = frozenset({"repeat markers", "deliver late"})
CRASHES = frozenset({"crash"})

HARMFUL_SEED = 6
"""The first walk of version 1 on which a late request does harm."""


def first_epoch(seed: int) -> int:
    """Every third walk uses up producer ids."""
    return LAST_CLIENT_EPOCH - 2 if seed % 3 == 0 else 0


def account(world: World, wrong: list[Violation]) -> str:
    return "\n".join([*world.stage.story, *map(str, wrong)])


@pytest.mark.parametrize("seed", seeds(240))
def test_version_2_keeps_every_transaction_whole(seed: int) -> None:
    kinds = (V2,) * (1 + seed % 4)
    world = walk(Cast(kinds=kinds, first_epoch=first_epoch(seed)), seed, STEPS).world

    wrong = world.verdict()
    assert not wrong, account(world, wrong)


@pytest.mark.parametrize("seed", seeds(70))
def test_version_1_beside_it_does_no_harm_to_version_2(seed: int) -> None:
    """Also under the same transactional id: whoever comes next fences those before."""
    kinds = (V1, V2, V2) if seed % 2 else (V2, OLD_V1, V1)
    world = walk(Cast(kinds=kinds, first_epoch=first_epoch(seed)), seed, STEPS).world

    wrong = world.verdict(version=2)
    assert not wrong, account(world, wrong)


@pytest.mark.parametrize("seed", seeds(50))
def test_version_1_at_least_leaves_nothing_hanging(seed: int) -> None:
    kinds = (OLD_V1, OLD_V1, V1) if seed % 2 else (V1, V1, OLD_V1)
    world = walk(Cast(kinds=kinds, first_epoch=first_epoch(seed)), seed, STEPS).world

    wrong = [found for found in world.verdict() if found.kind in (HANGING, STUCK, REFUSED)]
    assert not wrong, account(world, wrong)


# The hole of version 1


def test_the_walks_find_the_hole_of_version_1() -> None:
    cast = Cast(kinds=(V1,), only=DELAYS)

    harmful = [seed for seed in range(60) if walk(cast, seed, STEPS).world.verdict()]

    assert len(harmful) >= 2


def test_a_harmful_walk_comes_down_to_a_short_story() -> None:
    cast = Cast(kinds=(V1,), only=DELAYS)
    actions = walk(cast, HARMFUL_SEED, STEPS).actions

    shorter = shortest(cast, actions, lambda world: bool(world.verdict()))

    world, _ = replay(cast, shorter)
    sys.stdout.write(account(world, world.verdict()))
    assert len(shorter) < len(actions) // 4
    assert any("(late): EndTxn" in line for line in world.stage.story)


def asks(process: str) -> list[Action]:
    """A question to the coordinator is answered."""
    way = f"{process}>coordinator"
    return [("deliver", way, "open", 0), ("sync", "coordinator"), ("hear", way, "open", 0)]


def writes(process: str, leader: str) -> list[Action]:
    """A record is written, announced before in version 1 and by the leader in version 2."""
    way = f"{process}>{leader}"
    return [
        ("write", process, leader),
        *asks(process),
        ("deliver", way, "open", 0),
        *asks(leader),
        ("sync", leader),
        ("hear", way, "open", 0),
    ]


def is_marked(leader: str) -> list[Action]:
    way = f"coordinator>{leader}"
    return [("deliver", way, "open", 0), ("sync", leader), ("hear", way, "open", 0)]


LATE_COMMIT: list[Action] = [
    ("revive", "a"),
    ("go", "a"),
    *asks("a"),
    *writes("a", "p0"),
    ("commit", "a"),
    ("time out", "a>coordinator", "open", 0),  # the request is under way, and is sent again
    *asks("a"),
    *is_marked("p0"),
    *writes("a", "p1"),  # the next transaction
    ("deliver", "a>coordinator", "late", 0),  # the first request arrives
    ("sync", "coordinator"),
    *is_marked("p1"),
    *writes("a", "p2"),
    ("abort", "a"),
    *asks("a"),
]


def test_a_late_commit_tears_the_next_transaction_of_version_1() -> None:
    world, _ = replay(Cast(kinds=(V1,)), LATE_COMMIT)

    assert [attempt.outcome for attempt in world.attempts] == [Outcome.OK, Outcome.FAILED]
    assert [found.kind for found in world.verdict()] == [TORN, "aborted read"]


def test_a_late_commit_finds_the_next_transaction_of_version_2_in_another_epoch() -> None:
    world, done = replay(Cast(kinds=(V2,)), LATE_COMMIT)

    assert ("deliver", "a>coordinator", "late", 0) in done
    assert [attempt.outcome for attempt in world.attempts] == [Outcome.OK, Outcome.FAILED]
    assert world.verdict() == []


# Sabotage


class NeverBumps(TransactionCoordinator):
    """Ends transactions of version 2 as if they were of version 1."""

    def end_txn(
        self, request: EndTxnRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> list[Effect]:
        return super().end_txn(request, replace(caller, version=4), ticket, now_ms)


class CompletesEarly(TransactionCoordinator):
    """Takes the first marker that is written for the last."""

    def on_markers_written(
        self, markers: WriteMarkers, partitions: Iterable[TopicPartition], now_ms: int
    ) -> list[Effect]:
        return super().on_markers_written(markers, markers.partitions, now_ms)


@pytest.mark.parametrize(
    ("rules", "kind", "only", "symptom"),
    [
        pytest.param(
            Rules(markers_wait=False), V2, CRASHES, TORN, id="markers before the decision"
        ),
        pytest.param(
            Rules(answers_wait=False), V2, CRASHES, "unseen", id="answers before the decision"
        ),
        pytest.param(Rules(leaders_wait=False), V2, CRASHES, "unseen", id="hasty leaders"),
        pytest.param(Rules(carries_on=False), V2, CRASHES, STUCK, id="markers forgotten"),
        pytest.param(Rules(machine=NeverBumps), V2, DELAYS, TORN, id="no epoch bump"),
        pytest.param(Rules(machine=CompletesEarly), V2, DELAYS, TORN, id="markers not awaited"),
        pytest.param(
            Rules(refuses_late_markers=False), V2, LATE_MARKERS, TORN, id="late markers taken"
        ),
        pytest.param(Rules(verifies=False), V1, DELAYS, HANGING, id="no verification"),
        pytest.param(Rules(verifies=False), V2, DELAYS, HANGING, id="nothing is added"),
        pytest.param(Rules(guards=False), V1, None, HANGING, id="old answers are believed"),
    ],
)
def test_a_broken_rule_is_noticed(
    rules: Rules, kind: Kind, only: frozenset[str] | None, symptom: str
) -> None:
    """By what no walk shows under honest rules: version 1 leaves nothing hanging either."""
    cast = Cast(kinds=(kind,), rules=rules, only=only)

    worlds = (walk(cast, seed, STEPS).world for seed in range(150))

    assert any(found.kind == symptom for world in worlds for found in world.verdict())


# The walks themselves


def test_the_walks_are_worth_something() -> None:
    """Every fault strikes, and transactions are committed in spite of them."""
    walks = [
        walk(Cast(kinds=(V2,) * (1 + seed % 3), first_epoch=first_epoch(seed)), seed, STEPS)
        for seed in range(30)
    ]

    kinds = {kind for each in walks for kind in each.kinds}
    attempts = [attempt for each in walks for attempt in each.world.attempts]
    outcomes = [attempt.outcome for attempt in attempts]
    states = [each.world.coordinator.machine.hard_state() for each in walks[::3]]
    assert kinds >= set(FAULTS)
    assert outcomes.count(Outcome.OK) >= 30
    assert outcomes.count(Outcome.UNKNOWN) >= 3
    assert max(len(attempt.writes) for attempt in attempts) > 2
    assert len({state["shared"].producer_id for state in states}) > 1, "an id was used up"


def test_a_seed_gives_the_same_walk_every_time() -> None:
    stories = [walk(Cast(kinds=(V1, V2, V2)), 3, STEPS).world.stage.story for _ in range(2)]

    assert stories[0] == stories[1]
