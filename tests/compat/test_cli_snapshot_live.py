"""A broker is put into a file while it is written to: everything acknowledged before is in it."""

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ottla
from ottla.broker.embedded import Broker
from ottla.cli import main as cli
from ottla.errors import OttlaError
from ottla.log.files import FROZEN
from ottla.runtime.control import CONTROL_SOCKET
from ottla.snapshot.archive import SnapshotError
from ottla.snapshot.restoring import read_header, restore
from ottla.snapshot.taking import running_broker
from tests.compat.cli_samples import facts, served
from tests.compat.cli_samples import ottla as run
from tests.mirror.world import until

PLAIN, PAIRS, NEWEST = "plain", "pairs", "newest"
SMALL_SEGMENTS: dict[str, str | int | float] = {"segment.ms": 60}
BUSY = ("-X", "log.retention.check.interval.ms=50", "-X", "log.cleaner.backoff.ms=50")


class Load:
    """Writers that go on until they are told not to, and how far each was answered."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        self.plain = self.pairs = self.newest = 0
        self.failures: list[OttlaError] = []
        works = (self._write_plain, self._write_pairs, self._write_newest)
        self._threads = [threading.Thread(target=self._until_over, args=[work]) for work in works]
        with ottla.Admin(bootstrap) as admin:
            admin.create_topic(PLAIN, partitions=3, config=SMALL_SEGMENTS)
            admin.create_topic(PAIRS, partitions=2, config=SMALL_SEGMENTS)
            compacted: dict[str, str | float] = {
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": 0.01,
            }
            admin.create_topic(NEWEST, config={**SMALL_SEGMENTS, **compacted})

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def has_written(self, share: int) -> bool:
        assert self.failures == []
        return self.plain >= 300 * share and self.pairs >= 5 * share and self.newest >= 30 * share

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _until_over(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OttlaError as error:
            self.failures.append(error)

    def _write_plain(self) -> None:
        with ottla.Producer(self._bootstrap) as producer:
            while not self._is_over.is_set():
                for number in range(self.plain, self.plain + 10):
                    producer.send(PLAIN, b"%d" % number, partition=number % 3)
                producer.flush()
                self.plain += 10

    def _write_pairs(self) -> None:
        """One record in each of two partitions, and how far a group came, or nothing of it."""
        with ottla.Producer(self._bootstrap, transactional_id="pairs") as producer:
            while not self._is_over.is_set():
                with producer.transaction() as tx:
                    for partition in (0, 1):
                        tx.send(PAIRS, b"%d" % self.pairs, partition=partition)
                self.pairs += 1

    def _write_newest(self) -> None:
        with ottla.Producer(self._bootstrap) as producer:
            while not self._is_over.is_set():
                for key in range(10):
                    producer.send(NEWEST, b"%d" % self.newest, key=b"%d" % key)
                producer.flush()
                self.newest += 1


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Load]]:
    """A broker that rolls, deletes and compacts, and that is written to."""
    data_dir = tmp_path_factory.mktemp("busy") / "data"
    with served(data_dir, *BUSY) as broker:
        load = Load(broker.bootstrap)
        load.start()
        try:
            yield data_dir, load
        finally:
            load.stop()


def numbers(bootstrap: str, topic: str) -> list[list[int]]:
    """What is committed in each partition of a topic, in its order."""
    with ottla.Admin(bootstrap) as admin:
        ends = admin.list_offsets(admin.list_partitions([topic]), isolation_level="read_committed")
    read: dict[int, list[int]] = {tp.partition: [] for tp in ends}
    found = facts(run("consume", topic, "-o", "json", "--read-committed", "-b", bootstrap))
    for record in found:
        read[record["partition"]].append(int(record["value"]))
    return [values for _, values in sorted(read.items())]


@pytest.mark.parametrize("attempt", range(2))
def test_what_was_acknowledged_before_a_snapshot_is_in_it(
    busy: tuple[Path, Load], tmp_path: Path, attempt: int
) -> None:
    data_dir, load = busy
    until(lambda: load.has_written(1 + attempt))
    file = tmp_path / "live.snapshot"
    before = (load.plain, load.pairs, load.newest)

    (taken,) = facts(run("snapshot", data_dir, file, "-o", "json"))
    after = (load.plain + 10, load.pairs + 1, load.newest + 1)

    assert (taken["was_running"], taken["was_clean"]) == (True, False)
    assert not (data_dir / FROZEN).exists()
    restore(file, tmp_path / "restored")
    with Broker(tmp_path / "restored") as restored:
        bootstrap = restored.bootstrap_servers
        plain = [value for values in numbers(bootstrap, PLAIN) for value in values]
        assert before[0] <= len(plain) <= after[0]
        assert set(range(before[0])) <= set(plain)
        with ottla.Producer(bootstrap, transactional_id="pairs"):
            pass  # who comes next ends what was open
        left, right = numbers(bootstrap, PAIRS)
        assert left == right == list(range(len(left)))
        assert before[1] <= len(left) <= after[1]
        (newest,) = numbers(bootstrap, NEWEST)
        assert before[2] - 1 <= max(newest[-10:]) <= after[2]


def test_a_snapshot_of_a_broker_that_is_killed_meanwhile_is_none(tmp_path: Path) -> None:
    data_dir, file = tmp_path / "data", tmp_path / "live.snapshot"
    with served(data_dir) as broker:
        with ottla.Producer(broker.bootstrap) as producer:
            producer.send("orders", b"espresso")
        with running_broker(data_dir, BlockingIOError()) as data:
            broker.end(signal.SIGKILL)
            with pytest.raises(SnapshotError, match="the broker ended meanwhile"):
                data.write(file)
    assert list(tmp_path.iterdir()) == [data_dir]
    assert (data_dir / FROZEN).exists()
    assert run("snapshot", data_dir, file).exit_code == cli.OK, "what is left of it is passed over"
    with Broker(data_dir) as again:
        assert not (data_dir / FROZEN).exists()
        assert (
            len(facts(run("consume", "orders", "-o", "json", "-b", again.bootstrap_servers))) == 1
        )
    restore(file, tmp_path / "restored")
    assert not (tmp_path / "restored" / FROZEN).exists()


def test_a_copy_goes_with_whoever_asked_for_it(tmp_path: Path) -> None:
    with Broker(tmp_path / "data"):
        with running_broker(tmp_path / "data", BlockingIOError()):
            assert (tmp_path / "data" / FROZEN).exists()
            refused = run("snapshot", tmp_path / "data", tmp_path / "second.snapshot")
        until(lambda: not (tmp_path / "data" / FROZEN).exists())
        done = run("snapshot", tmp_path / "data", tmp_path / "third.snapshot")

    assert refused.exit_code == 1
    assert "another snapshot is being taken" in refused.stderr
    assert done.exit_code == cli.OK, done.stderr
    assert "the broker runs on" in done.stderr


def test_a_broker_that_is_stopped_lets_go_of_its_copies(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data").start()
    with running_broker(tmp_path / "data", BlockingIOError()) as data:
        broker.stop()
        with pytest.raises(SnapshotError, match="the broker ended meanwhile"):
            data.write(tmp_path / "live.snapshot")
    assert not (tmp_path / "data" / FROZEN).exists()
    assert not (tmp_path / "data" / CONTROL_SOCKET).exists()


def test_a_data_directory_may_lie_deeper_than_a_socket_can(tmp_path: Path) -> None:
    data_dir = tmp_path / ("deep" * 20) / ("deeper" * 20)
    with Broker(data_dir):
        assert run("snapshot", data_dir, tmp_path / "one.snapshot").exit_code == cli.OK


def test_a_program_writes_a_snapshot_of_its_own_broker(tmp_path: Path) -> None:
    file = tmp_path / "fixture.snapshot"
    with ottla.Broker() as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send("orders", b"espresso")
        broker.snapshot(file)
        producing = ottla.Producer(broker.bootstrap_servers)
        with producing as producer:
            producer.send("orders", b"lungo")
    header = read_header(file)
    assert (header.was_running, dict(header.topics)["orders"]) == (True, 1)
    restore(file, tmp_path / "restored")
    with ottla.Broker(tmp_path / "restored") as restored:
        read = facts(run("consume", "orders", "-o", "json", "-b", restored.bootstrap_servers))
    assert [record["value"] for record in read] == ["espresso"]
    with pytest.raises(OttlaError, match="not running"):
        broker.snapshot(file)
