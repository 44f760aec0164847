"""Random walks of the model by seed, and how one that went wrong is made shorter.

A walk draws each step from all that is possible.  The seed also draws the weather: which faults
strike and how often, how slow the disks are, and each connection.  So some walks know no crashes,
and others little else.  What was drawn can be replayed, also in part: what is not possible is left
out.  `OTTLA_SIM_TRACE=file` gets the story of every walk.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from tests.txn_model.stage import Connection
from tests.txn_model.world import Action, Cast, Choice, World

_WEIGHTS: Final = {
    "deliver": 10.0,
    "hear": 10.0,
    "sync coordinator": 6.0,
    "sync leader": 6.0,
    "notice": 2.0,
    "go": 6.0,
    "write": 0.8,
    "commit": 6.0,
    "abort": 0.05,
    "abort at last": 6.0,
    "read": 0.05,
    "revive": 0.1,
}
FAULTS: Final = {
    "deliver late": 0.3,
    "time out": 0.5,
    "repeat markers": 0.5,
    "cut": 0.03,
    "crash": 0.15,
    "crash at rest": 0.003,
    "restart": 0.01,
    "wait": 0.02,
}
_INTENSITIES: Final = (0.0, 0.0, 0.3, 1.0, 3.0)
_CERTAIN_INTENSITIES: Final = (0.3, 1.0, 3.0)
_DISKS: Final = ("sync coordinator", "sync leader")
_FAULT_SHARES: Final = (0.03, 0.1, 0.2)
_PACES: Final = (0.05, 0.3, 1.0, 1.0, 1.0, 1.0)


class Weather:
    """How likely each fault is on one walk, how slow its disks are, and each of its connections."""

    def __init__(self, cast: Cast, draw: random.Random) -> None:
        self._draw = draw
        self._paces: dict[Connection, float] = {}
        self._weights = dict(_WEIGHTS)
        for fault, weight in FAULTS.items():
            if cast.only is None:
                intensity = draw.choice(_INTENSITIES)
            else:
                intensity = draw.choice(_CERTAIN_INTENSITIES) if fault in cast.only else 0.0
            self._weights[fault] = weight * intensity
        for disk in _DISKS:
            self._weights[disk] *= draw.choice(_PACES)
        self._fault_share = draw.choice(_FAULT_SHARES)

    def choose(self, possible: list[Choice]) -> Choice:
        """A fault or not, and then which: so walks get on at the same pace, slow disks or not."""
        wants_fault = self._draw.random() < self._fault_share
        eligible = [choice for choice in possible if (choice[0] in FAULTS) == wants_fault]
        chances = [self._chance(choice) for choice in eligible]
        if not any(chances):
            eligible, chances = possible, [self._chance(choice) for choice in possible]
        return self._draw.choices(eligible, chances)[0]

    def _chance(self, choice: Choice) -> float:
        kind, _, connection = choice
        weight = self._weights[kind]
        if connection is None or kind in FAULTS:
            return weight
        if connection not in self._paces:
            self._paces[connection] = self._draw.choice(_PACES)
        return weight * self._paces[connection]


class Walk(NamedTuple):
    """A world that has settled, and how it came there."""

    world: World
    actions: list[Action]
    kinds: Counter[str]
    """How often each kind of event took place."""


def walk(cast: Cast, seed: int, step_count: int) -> Walk:
    """A world after so many steps that are drawn from a seed."""
    draw = random.Random(seed)
    world = World(cast)
    weather = Weather(cast, draw)
    actions: list[Action] = []
    kinds: Counter[str] = Counter()
    for _ in range(step_count):
        choice = weather.choose(list(world.possible()))
        action = _in_full(world, choice, draw)
        is_done = world.do(action)
        assert is_done, f"{action} was possible"
        actions.append(action)
        kinds[choice[0]] += 1
    world.settle()
    _trace(seed, world)
    return Walk(world, actions, kinds)


def _in_full(world: World, choice: Choice, draw: random.Random) -> Action:
    """A choice as it can be replayed."""
    _, action, connection = choice
    if connection is not None:
        return *action, *world.stage.address(connection)
    if action[0] == "crash":  # often all is lost that can be
        return *action, draw.choice((0, 0, 1, 2, 3)), draw.choice(("briefly", "for long"))
    return action


def replay(cast: Cast, actions: Iterable[Action]) -> tuple[World, list[Action]]:
    """A world in which `actions` happen, as far as they can: which of them did."""
    world = World(cast)
    done = [action for action in actions if world.do(action)]
    world.settle()
    return world, done


def shortest(
    cast: Cast, actions: Sequence[Action], is_wrong: Callable[[World], bool]
) -> list[Action]:
    """As few of `actions` as still end in a world that `is_wrong`.

    Takes out runs of actions, long ones first, as long as that succeeds.
    """

    def still_wrong(candidate: Sequence[Action]) -> list[Action] | None:
        world, done = replay(cast, candidate)
        return done if is_wrong(world) else None

    best = still_wrong(actions)
    assert best is not None, "it must go wrong to begin with"
    length = len(best) // 2
    while length:
        count_before, at = len(best), 0
        while at < len(best):
            found = still_wrong(best[:at] + best[at + length :])
            if found is None:
                at += length
            else:
                best = found
        if length > 1 or len(best) == count_before:
            length //= 2
    return best


def _trace(seed: int, world: World) -> None:
    """Add the story to the file where the environment wants traces."""
    if (path := os.environ.get("OTTLA_SIM_TRACE")) is not None:
        with open(path, "a", encoding="utf-8") as trace:
            trace.write("\n".join([f"# transactions, seed {seed}", *world.stage.story, ""]))
