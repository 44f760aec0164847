"""Noise from many connections, some of it dressed up as requests.

The amount is what a test can afford; `OTTLA_NOISE_CONNECTIONS` asks for more.
"""

import gc
import os
import random
import struct
from pathlib import Path

import pytest

from ottla.broker.embedded import Broker
from ottla.wire.registry import ApiKey, api
from tests.broker.conftest import Bystander
from tests.broker.wire_client import WireClient, framed, request_bytes
from tests.samples import Flavor, sample

CONNECTION_COUNT = int(os.environ.get("OTTLA_NOISE_CONNECTIONS", "400"))
STATUS = Path("/proc/self/status")
MIB = 1024 * 1024


def noise(rng: random.Random) -> bytes:
    """Bytes that get further or less far into the broker, depending on luck."""
    key = rng.choice(list(ApiKey))
    match rng.randrange(5):
        case 0:
            return rng.randbytes(rng.randrange(1, 100_000))
        case 1:
            return framed(rng.randbytes(rng.randrange(200)))
        case 2:
            version = rng.randrange(20)
            return framed(struct.pack(">hhih", key, version, 1, -1) + rng.randbytes(100))
        case 3:
            return _mutilated(rng, key)
        case _:
            return _mutilated(rng, key)[: rng.randrange(1, 60)]


def _mutilated(rng: random.Random, key: ApiKey) -> bytes:
    """A request of the right form with a few of its bytes changed."""
    of = api(key)
    version = rng.randint(of.versions.low, of.versions.high)
    whole = bytearray(request_bytes(sample(of.request, version, Flavor.FULL), version))
    for _ in range(rng.randint(1, 4)):
        whole[rng.randrange(8, len(whole))] = rng.randrange(256)
    return framed(bytes(whole))


def resident_bytes() -> int:
    (line,) = [line for line in STATUS.read_text("utf-8").splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def test_row_63_noise_harms_nobody_else(
    module_broker: Broker, bystander: Bystander, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of its questions has a time limit."""
    gc.collect()  # what other tests have left may complain about it when it goes
    caplog.clear()
    rng = random.Random(63)
    for number in range(CONNECTION_COUNT):
        with WireClient(module_broker.bootstrap_servers) as noisy:
            try:
                noisy.send_bytes(noise(rng))
                noisy.is_closed_within(0.001)
            except (ConnectionError, AssertionError):
                pass  # it was told off, or answered by chance
        if number % 20 == 0:
            bystander.writes_and_reads()

    crashes = [record for record in caplog.records if record.levelname in {"ERROR", "CRITICAL"}]
    assert crashes == []


@pytest.mark.skipif(not STATUS.exists(), reason="needs Linux, to ask for memory")
def test_row_63_noise_leaves_no_memory_behind(module_broker: Broker, bystander: Bystander) -> None:
    rng = random.Random(64)

    def make_noise(connection_count: int) -> None:
        for _ in range(connection_count):
            with WireClient(module_broker.bootstrap_servers) as noisy:
                noisy.send_bytes(struct.pack(">i", MIB) + rng.randbytes(MIB // 2))
            bystander.is_answered()  # so that the broker has seen the end of each before the next

    make_noise(20)
    before_bytes = resident_bytes()
    make_noise(CONNECTION_COUNT // 4)
    bystander.writes_and_reads()

    assert resident_bytes() - before_bytes < 16 * MIB
