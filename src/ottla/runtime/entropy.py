"""Randomness from the operating system: good enough for identifiers and secrets."""

import os
import random


class SystemEntropy:
    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def random(self) -> float:
        return self._random.random()
