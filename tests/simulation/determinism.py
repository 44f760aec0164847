"""Whether a run is the same whatever order sets have: what other processes make of its seeds.

Strings hash differently in each process unless `PYTHONHASHSEED` says otherwise, and so the order of
sets differs; a run that depends on it leaves another trace.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PROGRAM = """
from ottla.testing.simulation import Simulation
from {module} import {name}
for seed in {seeds}:
    with Simulation(seed) as sim:
        {play}
        print(sim.trace_hash)
"""


def hashes_elsewhere(
    play: str, *, module: str, seeds: Iterable[int], hash_seeds: Iterable[str] = ("0", "random")
) -> set[tuple[str, ...]]:
    """The hashes of the traces of `seeds`, as each process with another hash seed finds them.

    `play` is an expression that plays `sim`; it begins with the name that `module` gives.
    """
    program = _PROGRAM.format(
        module=module, name=play.partition("(")[0], seeds=tuple(seeds), play=play
    )
    return {
        tuple(
            subprocess.run(
                [sys.executable, "-c", program],
                env=os.environ | {"PYTHONHASHSEED": hash_seed},
                cwd=_ROOT,
                capture_output=True,
                check=True,
                text=True,
            ).stdout.split()
        )
        for hash_seed in hash_seeds
    }
