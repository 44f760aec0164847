"""kcat, the command line of librdkafka, where it is installed."""

import shutil
import subprocess

import pytest

from ottla.broker.embedded import Broker

KCAT = shutil.which("kcat") or shutil.which("kafkacat")

pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not installed")


def kcat(broker: Broker, *options: str, said: str = "") -> str:
    assert KCAT is not None
    command = [KCAT, "-b", broker.bootstrap_servers, *options]
    done = subprocess.run(command, input=said, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_go_in_and_come_out(broker: Broker, topic: str, codec: str) -> None:
    lines = "".join(f"key {number}:value {number}\n" for number in range(100))

    kcat(broker, "-P", "-t", topic, "-p", "0", "-K:", "-z", codec, "-l", "/dev/stdin", said=lines)
    read = kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-K:")

    assert read == lines


def test_metadata_is_listed(broker: Broker, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, "-p", "0", said="line\n")

    assert f'topic "{topic}" with 1 partitions' in kcat(broker, "-L")
