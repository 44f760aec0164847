"""Randomness from the operating system: good enough for identifiers and secrets."""

import os
from typing import Final

_FRACTION_BITS: Final = 53
"""As many as a float has."""


class SystemEntropy:
    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def random(self) -> float:
        # As `random.SystemRandom` does it, whose module takes longer to import than it is used.
        return (int.from_bytes(os.urandom(7), "big") >> 3) / (1 << _FRACTION_BITS)
