"""What the broker finds on its disk, or does not get from it.

Damage to a data directory is done to real files while no broker has them; failing disks are
simulated ones under a broker with real sockets.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.embedded import Broker
from ottla.broker.server import Server
from ottla.cluster.store.memory import MemoryStore
from ottla.errors import ErrorCode
from ottla.log import checkpoints, files
from ottla.ports import Ports
from ottla.runtime.clock import SystemClock
from ottla.runtime.entropy import SystemEntropy
from ottla.runtime.network import RealNetwork
from ottla.runtime.thread import LoopThread
from ottla.testing.disk import Operation, SimDisk
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.produce import ProduceRequest
from tests.broker.wire_client import PRODUCE_VERSION, WireClient, batch_of, produce_request

VALUES = [b"record %d" % number for number in range(10)]
SEGMENT = "00000000000000000000"


@contextmanager
def connected(data_dir: Path) -> Iterator[WireClient]:
    with Broker(data_dir) as broker, WireClient(broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory with the topics `orders` and `others`, left as by a crash."""
    with connected(tmp_path) as client:
        for topic in ("orders", "others"):
            assert client.create_topic(topic) == ErrorCode.NONE
            for value in VALUES:
                assert client.produce(topic, batch_of(value)).error_code == ErrorCode.NONE
    (tmp_path / ".kafka_cleanshutdown").unlink()
    return tmp_path


def segment_file(data_dir: Path) -> Path:
    return data_dir / "orders-0" / f"{SEGMENT}.log"


def torn(data: bytes) -> bytes:
    return data + bytes(batch_of(b"half of it"))[:40]


def foreign_bytes(data: bytes) -> bytes:
    return data + b"these bytes were never a batch, and nobody knows how they came here"


def zeros(data: bytes) -> bytes:
    return data + bytes(100_000)


@pytest.mark.parametrize("damage", [torn, zeros, foreign_bytes])
def test_row_64_a_damaged_tail_is_cut_off_and_what_was_acknowledged_stays(
    data_dir: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = segment_file(data_dir)
    good = path.read_bytes()
    path.write_bytes(damage(good))

    with connected(data_dir) as client:
        assert client.values("orders") == VALUES
        assert client.produce("orders", batch_of(b"next")).base_offset == len(VALUES)
        assert client.values("orders") == [*VALUES, b"next"]


def test_row_64_a_flipped_bit_below_the_recovery_point_takes_its_partition_offline(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = segment_file(data_dir)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)

    with caplog.at_level(logging.ERROR, logger="ottla"), connected(data_dir) as client:
        assert client.fetch("orders").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        refused = client.produce("orders", batch_of(b"next"))
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.values("others") == VALUES

    assert path.read_bytes() == data, "nothing is cut that was acknowledged"
    (line,) = [line for line in caplog.messages if "partition offline" in line]
    assert "orders" in line


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "noise"])
def test_row_64_a_lost_index_is_built_again(data_dir: Path, suffix: str, damage: str) -> None:
    path = data_dir / "orders-0" / f"{SEGMENT}{suffix}"
    if damage == "missing":
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(b"" if damage == "empty" else b"\xff" * 96)

    with connected(data_dir) as client:
        assert client.values("orders", 7) == VALUES[7:]
        asked = ListOffsetsPartition(partition_index=0, timestamp=1_600_000_000_000)
        request = ListOffsetsRequest(
            replica_id=-1, topics=(ListOffsetsTopic(name="orders", partitions=(asked,)),)
        )
        (found,) = client.ask(request, 4).topics[0].partitions
        assert (found.error_code, found.offset) == (ErrorCode.NONE, 0)


def test_row_64_foreign_files_and_folders_are_left_alone(data_dir: Path) -> None:
    notes = data_dir / "notes.txt"
    notes.write_text("mine")
    inside = data_dir / "orders-0" / "README"
    inside.write_text("also mine")
    folder = data_dir / "lost+found"
    folder.mkdir()

    with connected(data_dir) as client:
        assert client.values("orders") == VALUES

    assert (notes.read_text(), inside.read_text()) == ("mine", "also mine")
    assert folder.is_dir()


def test_row_64_a_folder_that_metadata_does_not_know_is_moved_aside_and_kept(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (data_dir / "orders-0").rename(data_dir / "unknown-0")

    with caplog.at_level(logging.WARNING, logger="ottla"), connected(data_dir) as client:
        assert client.values("others") == VALUES

    (kept,) = data_dir.glob("unknown-0*-stray")
    assert (kept / f"{SEGMENT}.log").stat().st_size > 0
    assert any("moved aside" in line for line in caplog.messages)


def test_row_64_a_data_directory_that_is_a_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("no folder")

    with pytest.raises(OSError, match="data"):
        Broker(path).start()


def test_row_64_a_data_directory_in_use_is_refused(tmp_path: Path) -> None:
    with connected(tmp_path) as client:
        assert client.create_topic("orders") == ErrorCode.NONE

        with pytest.raises(OSError, match="in use by process"):
            Broker(tmp_path).start()

        assert client.values("orders") == []


def test_a_broker_that_finds_its_port_taken_gives_its_data_directory_back(data_dir: Path) -> None:
    with Broker() as other:
        port = int(other.bootstrap_servers.rpartition(":")[2])
        with pytest.raises(OSError, match=r"(?i)address already in use"):
            Broker(data_dir, port=port).start()

    with connected(data_dir) as client:
        assert client.values("orders") == VALUES


class FailingDiskBroker:
    """A broker with real sockets on a simulated disk."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self._thread = LoopThread("broker-under-test")
        self._server: Server = self._thread.call(self._start())

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._server.address[1]}"

    def failure(self) -> BaseException | None:
        """Wait until the broker gives up; return why."""

        async def wait() -> BaseException | None:
            await asyncio.wait({self._server.failure}, timeout=60)
            return self._server.failure.exception()

        return self._thread.call(wait())

    def housekeep(self) -> None:
        self._thread.call(self._server.housekeep())

    def stop(self) -> None:
        try:
            self._thread.call(self._server.stop())
        finally:
            self._thread.close()

    async def _start(self) -> Server:
        config = BrokerConfig.of({"listeners": "PLAINTEXT://127.0.0.1:0"})
        ports = Ports(
            clock=SystemClock(), disk=self.disk, network=RealNetwork(), entropy=SystemEntropy()
        )
        server = Server(config, ports, MemoryStore())
        await server.start()
        return server


@pytest.fixture
def failing() -> Iterator[FailingDiskBroker]:
    broker = FailingDiskBroker(SimDisk())
    yield broker
    broker.stop()


def test_row_64_a_full_disk_refuses_writes_and_stays_readable(failing: FailingDiskBroker) -> None:
    with WireClient(failing.bootstrap_servers) as client:
        assert client.create_topic("orders") == ErrorCode.NONE
        assert client.produce("orders", batch_of(b"fits")).error_code == ErrorCode.NONE
        failing.disk.fail(errno.ENOSPC, Operation.WRITE, path="orders-0")

        refused = client.produce("orders", batch_of(b"does not fit"))

        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.values("orders") == [b"fits"]
        again = client.produce("orders", batch_of(b"fits again"))
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 1)
        assert client.values("orders") == [b"fits", b"fits again"]


def test_a_topic_that_is_created_on_a_full_disk_is_served_when_there_is_room(
    failing: FailingDiskBroker,
) -> None:
    with WireClient(failing.bootstrap_servers) as client:
        failing.disk.fail(errno.ENOSPC, Operation.WRITE, path="orders-0")
        assert client.create_topic("orders") == ErrorCode.NONE
        refused = client.produce("orders", batch_of(b"too early"))
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR

        failing.housekeep()

        assert client.produce("orders", batch_of(b"fits")).error_code == ErrorCode.NONE
        assert client.values("orders") == [b"fits"]


def test_a_folder_that_cannot_be_synced_takes_the_disk_offline_and_cuts_nobody_off(
    failing: FailingDiskBroker,
) -> None:
    with WireClient(failing.bootstrap_servers) as client:
        assert client.create_topic("orders") == ErrorCode.NONE
        failing.disk.fail(errno.EIO, Operation.SYNC_FOLDER, path="")

        assert client.create_topic("others") == ErrorCode.NONE, "metadata has it"

        for topic in ("orders", "others"):
            refused = client.produce(topic, batch_of(b"too late"))
            assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    failure = failing.failure()
    assert isinstance(failure, OSError)
    assert failure.errno == errno.EIO


def test_row_64_a_sync_that_fails_is_never_answered_as_success_and_never_repeated(
    failing: FailingDiskBroker,
) -> None:
    with WireClient(failing.bootstrap_servers) as client:
        assert client.create_topic("orders") == ErrorCode.NONE
        assert client.produce("orders", batch_of(b"durable")).error_code == ErrorCode.NONE
        failing.disk.fail(errno.EIO, Operation.SYNC, path="orders-0")

        for number in range(3):  # the sync of the first one fails, and the others wait for it too
            client.send(produce_request("orders", batch_of(b"lost %d" % number)), PRODUCE_VERSION)
        for _ in range(3):
            _, answer = client.receive(ProduceRequest, PRODUCE_VERSION)
            lost = answer.responses[0].partition_responses[0]
            assert (lost.error_code, lost.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)

    failure = failing.failure()
    assert isinstance(failure, OSError)
    assert failure.errno == errno.EIO
    with WireClient(failing.bootstrap_servers) as client:
        refused = client.produce("orders", batch_of(b"too late"))
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.fetch("orders").error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_what_was_durable_before_the_disk_failed_stays_written_down(
    failing: FailingDiskBroker,
) -> None:
    with WireClient(failing.bootstrap_servers) as client:
        assert client.create_topic("orders") == ErrorCode.NONE
        assert client.produce("orders", batch_of(b"durable")).error_code == ErrorCode.NONE
        failing.housekeep()  # which deletes it, for it is of long ago
        failing.disk.fail(errno.EIO, Operation.SYNC, path="orders-0")
        lost = client.produce("orders", batch_of(b"lost"))
        assert lost.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    failing.failure()

    failing.housekeep()

    points = checkpoints.read_offsets(failing.disk, files.RECOVERY_POINTS)
    assert points == {("orders", 0): 1}, "or the next start would cut what is damaged below"
    starts = checkpoints.read_offsets(failing.disk, files.START_OFFSETS)
    assert starts == {("orders", 0): 1}, "or the next start would show what is deleted"
