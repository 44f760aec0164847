"""A metadata store in one SQLite file: for a broker that is its whole cluster.

The file belongs to one process at a time.  A transaction is in the write-ahead log and synced
when it returns.  SQLite does its own file access, past the Disk port (ADR 10); calls block for as
long as a sync takes, which is fine for what is written here, and would not be for records.

Leases end with the process, so opening a store deletes what the last process had leased.

On a full disk a change is tried again with room from a reserve, if there is one: it may be the very
change that makes room.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from typing import Final, Protocol

from ottla.cluster.store.interface import (
    ABSENT,
    Delete,
    Entry,
    Events,
    Lease,
    Operation,
    Put,
    Snapshot,
    TxnResult,
    Unchanged,
)
from ottla.cluster.store.watchers import Watchers, check_shape, leases_of
from ottla.errors import StorageError

log = logging.getLogger(__name__)

METADATA_FILE: Final = "metadata.sqlite"
"""Where in its data directory a broker has it."""
FORMAT_VERSION: Final = 1
_APPLICATION_ID: Final = 0x4F74746C  # "Ottl": tells our files from other databases
_PRIMARY_CODE: Final = 0xFF
"""SQLite's extended error codes have the plain one in the lowest byte."""

_SCHEMA: Final = """
    CREATE TABLE entries (
        key TEXT PRIMARY KEY,
        value BLOB NOT NULL,
        create_revision INTEGER NOT NULL,
        mod_revision INTEGER NOT NULL,
        lease_id INTEGER
    ) WITHOUT ROWID;
    CREATE INDEX leased ON entries (lease_id) WHERE lease_id IS NOT NULL;
    CREATE TABLE revision (number INTEGER NOT NULL);
    INSERT INTO revision VALUES (0);
"""
_SELECT: Final = "SELECT key, value, create_revision, mod_revision FROM entries"
_UPSERT: Final = """
    INSERT INTO entries VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE
    SET value = excluded.value, mod_revision = excluded.mod_revision, lease_id = excluded.lease_id
"""
_AFTER_ALL: Final = "\U0010ffff"


class Room(Protocol):
    """Room on the disk that is kept for bad times."""

    def keep(self) -> bool:
        """Take it, if it is there; whether all of it was."""
        ...

    def release(self) -> bool:
        """Give some of it back; whether there was any."""
        ...

    def is_needed(self) -> bool:
        """Whether the disk is full, or we may have no more of it."""
        ...


class FullError(StorageError):
    """There is no room for a change; it was not made."""


class SqliteLease:
    def __init__(self, store: "SqliteStore", lease_id: int) -> None:
        self._store = store
        self.lease_id = lease_id

    async def revoke(self) -> None:
        self._store.end_lease(self.lease_id)


class SqliteStore:
    """Opens or creates the store at `path`; `StorageError` if it is not ours, or in use."""

    def __init__(
        self, path: str, *, is_temporary: bool = False, reserve: Room | None = None
    ) -> None:
        """One that `is_temporary` goes with its owner: it survives a crash, but no power loss."""
        self._path = path
        self._reserve = reserve
        self._is_reserved = False
        """Whether the reserve is whole, as far as we know: the first change takes it."""
        self._is_temporary = is_temporary
        self._watchers = Watchers()
        self._leases: set[int] = set()
        self._lease_ids = count(1)
        self._failure: str | None = None
        with self._reported():
            self._db = sqlite3.connect(path, isolation_level=None, timeout=0)
            try:
                self._open()
            except BaseException:
                self._db.close()
                raise

    async def get(self, key: str) -> Entry | None:
        with self._reported():
            row = self._db.execute(f"{_SELECT} WHERE key = ?", (key,)).fetchone()
        return None if row is None else Entry(*row)

    async def scan(self, prefix: str) -> Snapshot:
        with self._reported():
            rows = self._db.execute(
                f"{_SELECT} WHERE key >= ? AND key < ? ORDER BY key", (prefix, prefix + _AFTER_ALL)
            )
            return Snapshot(self._revision(), [Entry(*row) for row in rows])

    async def txn(self, checks: Sequence[Unchanged], operations: Sequence[Operation]) -> TxnResult:
        check_shape(checks, operations)
        if unknown := leases_of(operations) - self._leases:
            raise StorageError(f"no such lease: {sorted(unknown)}")
        while True:
            try:
                result = self._change(checks, operations)
            except FullError:
                if self._reserve is None or not self._reserve.release():
                    raise
                log.warning("the disk is full, and metadata uses its reserve: store=%s", self._path)
                self._is_reserved = False
            else:
                break
        if self._reserve is not None and not self._is_reserved:
            self._is_reserved = self._reserve.keep()
        return result

    def _change(self, checks: Sequence[Unchanged], operations: Sequence[Operation]) -> TxnResult:
        with self._transaction():
            revision = self._revision()
            if not all(self._holds(check) for check in checks):
                return TxnResult(False, revision)
            done = self._write(operations, revision + 1)
        if not done:
            return TxnResult(True, revision)
        self._watchers.tell(revision + 1, done)
        return TxnResult(True, revision + 1)

    def watch(self, prefix: str, on_events: Callable[[Events], None]) -> Callable[[], None]:
        return self._watchers.add(prefix, on_events)

    async def lease(self, ttl_ms: int, on_lost: Callable[[], None]) -> Lease:
        """`on_lost` is never called: the file is ours until we close it."""
        assert ttl_ms > 0, ttl_ms
        lease = SqliteLease(self, next(self._lease_ids))
        self._leases.add(lease.lease_id)
        return lease

    def end_lease(self, lease_id: int) -> None:
        """Forget a lease, and delete its keys."""
        if lease_id in self._leases:
            self._leases.remove(lease_id)
            self._delete_leased("lease_id = ?", (lease_id,))

    def back_up(self, path: str) -> None:
        """Write the store as it is now to `path`, where nothing is yet.  It still needs a sync.

        It takes some milliseconds for each megabyte, and nothing else happens meanwhile.
        """
        with closing(sqlite3.connect(path, isolation_level=None)) as copy:
            try:
                copy.execute("PRAGMA synchronous = OFF")
                copy.execute("PRAGMA journal_mode = OFF")
                self._db.backup(copy)
            except sqlite3.Error as error:  # of the copy, most likely: the store itself goes on
                raise StorageError(f"no copy of metadata at {path}: {error}") from error

    def close(self) -> None:
        """Give up the file.  Leased keys go when the store is opened again, as after a crash."""
        with self._reported():
            self._db.close()

    def _open(self) -> None:
        # Exclusive, so that a second process fails at once, and no shared memory is needed.
        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(f"PRAGMA synchronous = {'OFF' if self._is_temporary else 'FULL'}")
        self._db.execute("PRAGMA fullfsync = ON")  # macOS: past the cache of the drive, too
        with self._transaction():
            (tables,) = self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if not tables:
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                self._db.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        (owner,) = self._db.execute("PRAGMA application_id").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if (owner, version) != (_APPLICATION_ID, FORMAT_VERSION):
            raise StorageError(
                f"{self._path} is not a metadata store of format {FORMAT_VERSION} "
                f"(application id {owner:#x}, format {version})"
            )
        self._delete_leased("lease_id IS NOT NULL", ())

    def _revision(self) -> int:
        (revision,) = self._db.execute("SELECT number FROM revision").fetchone()
        return int(revision)

    def _holds(self, check: Unchanged) -> bool:
        row = self._db.execute(
            "SELECT mod_revision FROM entries WHERE key = ?", (check.key,)
        ).fetchone()
        return check.mod_revision == (ABSENT if row is None else row[0])

    def _write(self, operations: Sequence[Operation], revision: int) -> list[Operation]:
        """Do the operations inside a transaction; those that changed something."""
        done: list[Operation] = []
        for op in operations:
            if isinstance(op, Put):
                self._db.execute(_UPSERT, (op.key, op.value, revision, revision, op.lease_id))
                done.append(op)
            elif self._db.execute("DELETE FROM entries WHERE key = ?", (op.key,)).rowcount:
                done.append(op)
        if done:
            self._db.execute("UPDATE revision SET number = ?", (revision,))
        return done

    def _delete_leased(self, condition: str, values: tuple[int, ...]) -> None:
        with self._transaction():
            rows = self._db.execute(
                f"SELECT key FROM entries WHERE {condition} ORDER BY key", values
            ).fetchall()
            revision = self._revision() + 1
            done = self._write([Delete(key) for (key,) in rows], revision)
        self._watchers.tell(revision, done)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit at the end, or roll back if something is raised."""
        if self._failure is not None:
            raise StorageError(f"{self._path} failed before: {self._failure}")
        with self._reported():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Turn SQLite's errors into ours.

        After an I/O error nothing is written any more: a sync that failed once may succeed the
        second time although the data is gone.
        """
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0)
            if self._tells_of_a_full_disk(code):
                raise FullError(f"metadata store {self._path}: the disk is full") from error
            if code & _PRIMARY_CODE == sqlite3.SQLITE_IOERR:
                self._failure = str(error)
            raise StorageError(f"metadata store {self._path}: {error}") from error

    def _tells_of_a_full_disk(self, code: int) -> bool:
        """Where a quota is used up, SQLite says no more than that it could not write."""
        if code == sqlite3.SQLITE_IOERR_WRITE:
            return self._reserve is not None and self._reserve.is_needed()
        return code & _PRIMARY_CODE == sqlite3.SQLITE_FULL
