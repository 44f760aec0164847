"""Seeded randomness: for simulation, never for secrets."""

import random


class SimEntropy:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def random_bytes(self, count: int) -> bytes:
        return self._rng.randbytes(count)

    def random(self) -> float:
        return self._rng.random()
