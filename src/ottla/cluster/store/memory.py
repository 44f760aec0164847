"""A metadata store in memory: for simulations, where it survives every crash but its own.

Several nodes may share one.  A simulation ends a lease with `expire`, as if its owner had stopped.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import count, takewhile

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


class MemoryLease:
    def __init__(self, store: "MemoryStore", lease_id: int, on_lost: Callable[[], None]) -> None:
        self._store = store
        self.lease_id = lease_id
        self.on_lost = on_lost

    async def revoke(self) -> None:
        self._store.end_lease(self.lease_id)


class MemoryStore:
    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._lease_of: dict[str, int] = {}
        self._leases: dict[int, MemoryLease] = {}
        self._lease_ids = count(1)
        self._revision = 0
        self._watchers = Watchers()
        self._is_closed = False

    async def get(self, key: str) -> Entry | None:
        self._check_open()
        return self._entries.get(key)

    async def scan(self, prefix: str) -> Snapshot:
        self._check_open()
        keys = sorted(self._entries)
        found = takewhile(lambda key: key.startswith(prefix), keys[bisect_left(keys, prefix) :])
        return Snapshot(self._revision, [self._entries[key] for key in found])

    async def txn(self, checks: Sequence[Unchanged], operations: Sequence[Operation]) -> TxnResult:
        self._check_open()
        check_shape(checks, operations)
        if unknown := leases_of(operations) - set(self._leases):
            raise StorageError(f"no such lease: {sorted(unknown)}")
        for check in checks:
            entry = self._entries.get(check.key)
            if check.mod_revision != (ABSENT if entry is None else entry.mod_revision):
                return TxnResult(False, self._revision)
        return TxnResult(True, self._write(operations))

    def watch(self, prefix: str, on_events: Callable[[Events], None]) -> Callable[[], None]:
        return self._watchers.add(prefix, on_events)

    async def lease(self, ttl_ms: int, on_lost: Callable[[], None]) -> Lease:
        self._check_open()
        assert ttl_ms > 0, ttl_ms
        lease = MemoryLease(self, next(self._lease_ids), on_lost)
        self._leases[lease.lease_id] = lease
        return lease

    def expire(self, lease_id: int) -> None:
        """End a lease whose owner has not ended it, and tell the owner."""
        lease = self._leases[lease_id]
        self.end_lease(lease_id)
        lease.on_lost()

    def end_lease(self, lease_id: int) -> None:
        """Forget a lease, and delete its keys."""
        if self._leases.pop(lease_id, None) is not None:
            keys = sorted(key for key, owner in self._lease_of.items() if owner == lease_id)
            self._write([Delete(key) for key in keys])

    def close(self) -> None:
        for lease_id in sorted(self._leases):
            self.end_lease(lease_id)
        self._is_closed = True

    def _write(self, operations: Sequence[Operation]) -> int:
        done = [op for op in operations if isinstance(op, Put) or op.key in self._entries]
        if done:
            self._revision += 1
        for op in done:
            before = self._entries.pop(op.key, None)
            self._lease_of.pop(op.key, None)
            if isinstance(op, Put):
                created = self._revision if before is None else before.create_revision
                self._entries[op.key] = Entry(op.key, op.value, created, self._revision)
                if op.lease_id is not None:
                    self._lease_of[op.key] = op.lease_id
        self._watchers.tell(self._revision, done)
        return self._revision

    def _check_open(self) -> None:
        if self._is_closed:
            raise StorageError("the metadata store is closed")
