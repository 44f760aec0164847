"""Every metadata store keeps the promises of `ottla.cluster.store.interface`."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.config import BrokerConfig
from ottla.broker.embedded import Broker
from ottla.broker.server import Server
from ottla.cluster.store.interface import (
    ABSENT,
    Delete,
    Entry,
    Events,
    MetadataStore,
    Operation,
    Put,
    TxnResult,
    Unchanged,
)
from ottla.cluster.store.memory import MemoryStore
from ottla.cluster.store.sqlite import SqliteStore
from ottla.errors import StorageError
from tests.cluster_samples import done


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetadataStore]:
    made: MetadataStore
    made = MemoryStore() if request.param == "memory" else SqliteStore(str(tmp_path / "store"))
    yield made
    made.close()


def write(store: MetadataStore, *operations: Operation) -> int:
    result = done(store.txn([], operations))
    assert result.is_applied
    return result.revision


def keys(store: MetadataStore, prefix: str = "") -> list[str]:
    return [entry.key for entry in done(store.scan(prefix)).entries]


def test_a_new_store_is_empty(store: MetadataStore) -> None:
    assert done(store.get("a")) is None
    assert done(store.scan("")) == (0, [])


def test_each_transaction_that_writes_has_the_next_revision(store: MetadataStore) -> None:
    assert write(store, Put("a", b"1"), Put("b", b"2")) == 1
    assert write(store, Put("a", b"3")) == 2
    assert write(store) == 2
    assert write(store, Delete("nothing")) == 2
    assert write(store, Delete("b")) == 3


def test_an_entry_knows_when_it_was_made_and_last_written(store: MetadataStore) -> None:
    write(store, Put("a", b"1"))
    write(store, Put("a", b"2"))
    assert done(store.get("a")) == Entry("a", b"2", 1, 2)

    write(store, Delete("a"))
    write(store, Put("a", b"3"))
    assert done(store.get("a")) == Entry("a", b"3", 4, 4)


def test_a_scan_finds_a_prefix_in_the_order_of_keys(store: MetadataStore) -> None:
    write(store, *(Put(key, b"") for key in ["b", "a/2", "a/10", "a", "a/é", "ab", "a/\U0010fffe"]))
    assert keys(store, "a/") == ["a/10", "a/2", "a/é", "a/\U0010fffe"]
    assert keys(store) == ["a", "a/10", "a/2", "a/é", "a/\U0010fffe", "ab", "b"]


def test_a_transaction_whose_check_fails_does_nothing(store: MetadataStore) -> None:
    write(store, Put("a", b"1"))
    stale = [Unchanged("b", ABSENT), Unchanged("a", 7)]
    assert done(store.txn(stale, [Put("b", b"2"), Delete("a")])) == TxnResult(False, 1)
    assert done(store.scan("")).entries == [Entry("a", b"1", 1, 1)]


def test_a_key_can_be_required_to_exist_unchanged_or_not_at_all(store: MetadataStore) -> None:
    first = [Unchanged("a", ABSENT)]
    assert done(store.txn(first, [Put("a", b"1")])).is_applied
    assert not done(store.txn(first, [Put("a", b"2")])).is_applied
    assert done(store.txn([Unchanged("a", 1)], [Put("a", b"2")])).is_applied
    assert not done(store.txn([Unchanged("a", 1)], [Put("a", b"3")])).is_applied


def test_a_watcher_sees_transactions_whole_and_in_order(store: MetadataStore) -> None:
    seen: list[Events] = []
    write(store, Put("a/0", b"before"))
    cancel = store.watch("a/", seen.append)

    write(store, Put("a/1", b"x"), Put("b", b"y"), Delete("a/0"), Delete("a/9"))
    write(store, Put("b", b"z"))
    done(store.txn([Unchanged("a/1", 99)], [Delete("a/1")]))
    write(store, Put("a/2", b""))
    cancel()
    cancel()
    write(store, Put("a/3", b""))

    assert seen == [
        Events(2, (Put("a/1", b"x"), Delete("a/0"))),
        Events(4, (Put("a/2", b""),)),
    ]


def test_leased_keys_go_with_their_lease(store: MetadataStore) -> None:
    seen: list[Events] = []
    lease = done(store.lease(1000, on_lost=lambda: pytest.fail("it was not lost")))
    other = done(store.lease(1000, on_lost=lambda: None))
    write(store, Put("live", b"", lease.lease_id), Put("other", b"", other.lease_id))
    write(store, Put("kept", b"", lease.lease_id))
    write(store, Put("kept", b"for good"))
    store.watch("", seen.append)

    done(lease.revoke())
    done(lease.revoke())

    assert keys(store) == ["kept", "other"]
    assert seen == [Events(4, (Delete("live"),))]


def test_a_lease_that_does_not_exist_cannot_hold_a_key(store: MetadataStore) -> None:
    with pytest.raises(StorageError, match="no such lease"):
        write(store, Put("a", b"", 12))
    assert keys(store) == []


def test_a_lost_lease_is_told_to_its_owner() -> None:
    store = MemoryStore()
    lost = []
    lease = done(store.lease(1000, on_lost=lambda: lost.append("mine")))
    write(store, Put("live", b"", lease.lease_id))
    store.expire(lease.lease_id)
    assert lost == ["mine"]
    assert keys(store) == []


def test_a_closed_store_refuses_everything(store: MetadataStore) -> None:
    store.close()
    with pytest.raises(StorageError):
        done(store.scan(""))
    with pytest.raises(StorageError):
        write(store, Put("a", b""))


KEYS = st.sampled_from(["a", "a/1", "a/2", "b"])
OPERATIONS = st.lists(
    st.one_of(st.builds(Put, KEYS, st.binary(max_size=3)), st.builds(Delete, KEYS)),
    unique_by=lambda op: op.key,
    max_size=3,
)
CHECKS = st.lists(
    st.builds(Unchanged, KEYS, st.integers(0, 6)), unique_by=lambda check: check.key, max_size=2
)


@given(st.lists(st.tuples(CHECKS, OPERATIONS), max_size=12))
def test_the_stores_cannot_be_told_apart(
    transactions: list[tuple[list[Unchanged], list[Operation]]],
) -> None:
    stores: list[MetadataStore] = [MemoryStore(), SqliteStore(":memory:")]
    seen: list[list[Events]] = [[], []]
    for one, events in zip(stores, seen, strict=True):
        one.watch("a", events.append)
    for checks, operations in transactions:
        first, second = (done(one.txn(checks, operations)) for one in stores)
        assert first == second
        assert done(stores[0].scan("")) == done(stores[1].scan(""))
    assert seen[0] == seen[1]
    stores[1].close()


def test_a_file_keeps_what_was_written(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    store = SqliteStore(path)
    write(store, Put("a", b"1"), Put("b", b"2"))
    write(store, Delete("b"))
    store.close()

    again = SqliteStore(path)
    assert done(again.scan("")) == (2, [Entry("a", b"1", 1, 1)])
    again.close()


def test_leases_end_with_the_process(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    store = SqliteStore(path)
    lease = done(store.lease(1000, on_lost=lambda: None))
    write(store, Put("live", b"", lease.lease_id), Put("kept", b""))
    store.close()

    again = SqliteStore(path)
    assert done(again.scan("")).revision == 2
    assert keys(again) == ["kept"]
    again.close()


def test_a_file_belongs_to_one_process(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    store = SqliteStore(path)
    with pytest.raises(StorageError, match="locked"):
        SqliteStore(path)
    store.close()
    SqliteStore(path).close()


@pytest.mark.parametrize("is_temporary", [False, True])
def test_a_transaction_is_synced_before_it_returns_unless_it_is_temporary(
    tmp_path: Path, is_temporary: bool
) -> None:
    store = SqliteStore(str(tmp_path / "store"), is_temporary=is_temporary)
    off, full = 0, 2
    assert store._db.execute("PRAGMA synchronous").fetchone() == (off if is_temporary else full,)
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


@pytest.mark.parametrize("is_temporary", [False, True])
def test_a_broker_syncs_its_metadata_wherever_a_folder_was_named(
    tmp_path: Path, is_temporary: bool
) -> None:
    found: list[int] = []

    class Watched(Broker):
        def _new_server(self, config: BrokerConfig) -> Server:
            server = super()._new_server(config)
            assert isinstance(server._store, SqliteStore)
            found.extend(server._store._db.execute("PRAGMA synchronous").fetchone())
            return server

    with Watched(None if is_temporary else tmp_path / "data"):
        off, full = 0, 2
        assert found == [off if is_temporary else full]


WRITER = """
import sys
from ottla.cluster.store.interface import Put
from ottla.cluster.store.sqlite import SqliteStore
from tests.cluster_samples import done
store = SqliteStore(sys.argv[1], is_temporary=sys.argv[2] == "temporary")
for number in range(1_000_000):
    done(store.txn([], [Put(str(number), b"x" * 100)]))
    print(number, flush=True)
"""


@pytest.mark.parametrize("kind", ["lasting", "temporary"])
def test_what_was_acknowledged_survives_a_killed_process(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "store")
    command = [sys.executable, "-c", WRITER, path, kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acknowledged = [writer.stdout.readline().strip() for _ in range(50)]
        writer.kill()

    store = SqliteStore(path)
    assert acknowledged[-1] == "49"
    assert set(acknowledged) <= set(keys(store))
    store.close()


def other_database(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE guests (name TEXT)")
    database.close()


def newer_format(path: Path) -> None:
    SqliteStore(str(path)).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: path.write_bytes(b"not a database" * 100), "not a database"),
        (lambda path: path.mkdir(), "unable to open"),
        (other_database, "is not a metadata store of format 1"),
        (newer_format, r"is not a metadata store of format 1 .*format 99"),
    ],
)
def test_a_file_that_is_not_ours_is_refused(
    tmp_path: Path, prepare: Callable[[Path], None], message: str
) -> None:
    path = tmp_path / "store"
    prepare(path)
    with pytest.raises(StorageError, match=message):
        SqliteStore(str(path))


def test_a_full_disk_refuses_one_transaction_and_not_the_next(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "store"))
    write(store, Put("a", b"1"))
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(StorageError, match="full"):
        write(store, Put("b", bytes(100_000)))

    assert keys(store) == ["a"]
    assert write(store, Put("a", b"2")) == 2
    store.close()


def test_nothing_is_written_after_an_input_output_error(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "store"))
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = 1034  # SQLITE_IOERR_FSYNC
    with pytest.raises(StorageError, match="disk I/O error"), store._reported():
        raise error

    with pytest.raises(StorageError, match="failed before: disk I/O error"):
        write(store, Put("a", b"1"))
    assert keys(store) == []
    store.close()
