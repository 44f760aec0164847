"""The two smallest ports."""

import random
import time

import pytest

from ottla.ports import Entropy
from ottla.runtime.clock import SystemClock
from ottla.runtime.entropy import SystemEntropy
from ottla.testing.clock import EPOCH_MS, SimClock
from ottla.testing.entropy import SimEntropy
from ottla.testing.loop import SimLoop


def test_the_clock_shows_milliseconds_since_the_epoch() -> None:
    before_ms = int(time.time() * 1000)
    now_ms = SystemClock().now_ms()
    assert before_ms <= now_ms <= int(time.time() * 1000) + 1


def test_a_simulated_clock_follows_its_loop_and_may_be_wrong() -> None:
    loop = SimLoop(random.Random(0))
    clock = SimClock(loop)
    assert clock.now_ms() == EPOCH_MS
    loop.run_for(1500)
    assert clock.now_ms() == EPOCH_MS + 1500
    clock.offset_ms = -2000
    assert clock.now_ms() == EPOCH_MS - 500
    loop.close()


@pytest.mark.parametrize("entropy", [SystemEntropy(), SimEntropy(random.Random(1))])
def test_random_values_differ_and_are_in_range(entropy: Entropy) -> None:
    assert len(entropy.random_bytes(16)) == 16
    assert entropy.random_bytes(16) != entropy.random_bytes(16)
    assert entropy.random_bytes(0) == b""
    numbers = [entropy.random() for _ in range(100)]
    assert all(0 <= number < 1 for number in numbers)
    assert len(set(numbers)) == 100


def test_simulated_randomness_repeats_itself() -> None:
    one, other = SimEntropy(random.Random(7)), SimEntropy(random.Random(7))
    assert one.random_bytes(8) == other.random_bytes(8)
    assert one.random() == other.random()
