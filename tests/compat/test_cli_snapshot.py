"""A broker is stopped, put into a file, taken out elsewhere, and is the same broker."""

import signal
from pathlib import Path

import pytest

import ottla
from ottla.broker.embedded import Broker
from ottla.cli import main as cli
from ottla.runtime.control import CONTROL_SOCKET
from tests.compat.cli_samples import facts, served
from tests.compat.cli_samples import ottla as run
from tests.mirror.world import until


def fill(bootstrap: str) -> None:
    """Two topics, a group, and a transaction that was committed."""
    with ottla.Admin(bootstrap) as admin:
        admin.create_topic("orders", partitions=3, config={"retention.ms": 10**12})
        admin.create_topic("compacted", config={"cleanup.policy": "compact"})
    with ottla.Producer(bootstrap) as producer:
        for number in range(500):
            producer.send("orders", b"%d" % number, key=b"%d" % (number % 10))
        producer.send("compacted", b"x" * 100_000, key=b"k")
    with ottla.Producer(bootstrap, transactional_id="t") as producer, producer.transaction() as tx:
        tx.send("orders", b"committed", partition=0)
    with ottla.Admin(bootstrap) as admin:
        admin.alter_group_offsets("kitchen", {ottla.TopicPartition("orders", 1): 7})
        # A commit is acknowledged when it is decided, a moment before its marks are written.
        until(lambda: admin.describe_transaction("t").state == "CompleteCommit")


def sight(bootstrap: str) -> object:
    """All that a client can see."""
    with ottla.Admin(bootstrap) as admin:
        names = admin.list_topics()
        partitions = admin.list_partitions(names)
        told = {
            "cluster": admin.describe_cluster().cluster_id,
            "topics": {
                name: (t.topic_id, t.config) for name, t in admin.describe_topics(names).items()
            },
            "starts": admin.list_offsets(partitions, at="earliest"),
            "ends": admin.list_offsets(partitions),
            "stable": admin.list_offsets(partitions, isolation_level="read_committed"),
            "group": admin.list_group_offsets("kitchen"),
            "transaction": admin.describe_transaction("t").state,
        }
    read = run("consume", *names, "-o", "json", "--read-committed", "-b", bootstrap)
    return told, sorted(read.stdout.splitlines())


def test_a_broker_is_the_same_after_it_was_restored(tmp_path: Path) -> None:
    data_dir, elsewhere = tmp_path / "data", tmp_path / "new" / "data"
    file = tmp_path / "one.snapshot"
    with Broker(data_dir) as broker:
        fill(broker.bootstrap_servers)
        before = sight(broker.bootstrap_servers)

    (taken,) = facts(run("snapshot", data_dir, file, "-o", "json"))
    (restored,) = facts(run("restore", file, elsewhere, "-o", "json"))

    assert taken["topics"] == restored["topics"]
    assert (taken["was_clean"], taken["file_bytes"]) == (True, file.stat().st_size)
    with Broker(elsewhere) as broker:
        assert sight(broker.bootstrap_servers) == before
        writer = ottla.Producer(broker.bootstrap_servers, transactional_id="t")
        with writer as producer, producer.transaction() as tx:
            tx.send("orders", b"goes on")


def test_a_broker_that_was_killed_recovers_from_its_snapshot(tmp_path: Path) -> None:
    data_dir, elsewhere, file = tmp_path / "data", tmp_path / "again", tmp_path / "one.snapshot"
    with served(data_dir) as broker:
        fill(broker.bootstrap)
        before = sight(broker.bootstrap)
        broker.end(signal.SIGKILL)
    largest = max(path.stat().st_size for path in data_dir.rglob("*.log"))
    assert largest > 100_000, "room is reserved ahead"

    done = run("snapshot", data_dir, file)

    assert "the broker had crashed" in done.stderr
    assert run("restore", file, elsewhere).exit_code == cli.OK
    assert file.stat().st_size < largest
    with Broker(elsewhere) as restored:
        assert sight(restored.bootstrap_servers) == before


def test_a_broker_that_cannot_be_asked_for_a_copy_is_to_be_stopped_first(tmp_path: Path) -> None:
    with Broker(tmp_path / "data"):
        (tmp_path / "data" / CONTROL_SOCKET).unlink()
        done = run("snapshot", tmp_path / "data", tmp_path / "one.snapshot")

    assert done.exit_code == 5
    assert "in use by process" in done.stderr
    assert "stop it first" in done.stderr
    assert not (tmp_path / "one.snapshot").exists()


def test_a_snapshot_replaces_another_only_if_it_is_told_to(tmp_path: Path) -> None:
    with Broker(tmp_path / "data"):
        pass
    file = tmp_path / "one.snapshot"
    assert run("snapshot", tmp_path / "data", file).exit_code == cli.OK
    refused = run("snapshot", tmp_path / "data", file)
    assert (refused.exit_code, "--force" in refused.stderr) == (1, True)
    assert run("snapshot", tmp_path / "data", file, "--force").exit_code == cli.OK
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("place", ["data/one.snapshot", "nowhere/one.snapshot"])
def test_a_place_where_no_snapshot_can_be_is_refused(tmp_path: Path, place: str) -> None:
    with Broker(tmp_path / "data"):
        pass

    done = run("snapshot", tmp_path / "data", tmp_path / place)

    assert done.exit_code in (1, 2)
    assert "one.snapshot" in done.stderr
    assert not (tmp_path / place).exists()


def test_a_folder_without_a_broker_is_no_data_directory(tmp_path: Path) -> None:
    done = run("snapshot", tmp_path, tmp_path.parent / f"{tmp_path.name}.snapshot")

    assert done.exit_code == 1
    assert "is not a data directory" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_restored_over_what_is_there(tmp_path: Path) -> None:
    with Broker(tmp_path / "data"):
        pass
    file = tmp_path / "one.snapshot"
    assert run("snapshot", tmp_path / "data", file).exit_code == cli.OK

    done = run("restore", file, tmp_path / "data")

    assert (done.exit_code, "is not empty" in done.stderr) == (1, True)
    (tmp_path / "empty").mkdir()
    assert run("restore", file, tmp_path / "empty", "--dry-run").exit_code == cli.OK
    assert list((tmp_path / "empty").iterdir()) == []
    assert run("restore", file, tmp_path / "empty").exit_code == cli.OK
    assert (tmp_path / "empty" / "metadata.sqlite").exists()
