"""One table in a process of its own: `python -m bench.child records compiled`, JSON on stdout.

Which twin runs is chosen at import, so each twin needs its own process; and no table shall pay
for what another one left in memory.
"""

import json
import sys
from dataclasses import asdict
from importlib import import_module

from bench.harness import Outcome, Race, run, skipped
from ottla.twins import CHOSEN


def outcome(race: Race, chosen: str) -> Outcome:
    """Run `race`, or say why it cannot be run here."""
    if chosen.split()[0] != race.twin:
        return skipped(race, f"needs the {race.twin} twin, and this is {chosen}")
    try:
        return run(race)
    except ImportError as error:
        if error.name is None or error.name.split(".")[0] in ("bench", "ottla"):
            raise
        return skipped(race, f"{error.name} is not installed")


def main(table: str, twin: str) -> None:
    module = import_module(f"bench.{table}")
    races: list[Race] = [race for race in module.RACES if race.twin == twin]
    json.dump([asdict(outcome(race, CHOSEN[module.CODEC])) for race in races], sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
