"""What every metadata store promises.

- One revision for the whole store grows by one with each transaction that writes.
- A transaction happens whole or not at all, and is durable when `txn` returns.
- Watchers see every transaction once, in the order of revisions, all its events together.
- A key that was put with a lease is deleted when the lease ends.

To follow a prefix without a gap: `watch` it, then `scan` it, and skip what the watch reports up to
the scan's revision.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from ottla.values import NamedTuple, dataclass

ABSENT: Final = 0
"""The revision of a key that does not exist."""


class Entry(NamedTuple):
    key: str
    value: bytes
    create_revision: int
    """The transaction that made the key; a key that was deleted and made again has a new one."""
    mod_revision: int
    """The transaction that last wrote it."""


class Snapshot(NamedTuple):
    revision: int
    entries: list[Entry]
    """In the order of their keys."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Holds if `key` was last written by transaction `mod_revision`, or is `ABSENT`."""

    key: str
    mod_revision: int


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: bytes
    lease_id: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """It is no error if the key does not exist."""

    key: str


Operation: TypeAlias = Put | Delete


class TxnResult(NamedTuple):
    is_applied: bool
    revision: int
    """After the transaction, or of the store that it found."""


@dataclass(frozen=True, slots=True)
class Events:
    """What one transaction did to the keys that somebody watches."""

    revision: int
    operations: tuple[Operation, ...]


class Lease(Protocol):
    @property
    def lease_id(self) -> int: ...

    async def revoke(self) -> None:
        """End it, and delete its keys; nothing happens if it has ended."""
        ...


class MetadataStore(Protocol):
    """Methods raise `StorageError` if the store cannot be read or written."""

    async def get(self, key: str) -> Entry | None: ...

    async def scan(self, prefix: str) -> Snapshot:
        """Everything whose key begins with `prefix`, as of one revision."""
        ...

    async def txn(self, checks: Sequence[Unchanged], operations: Sequence[Operation]) -> TxnResult:
        """If all checks hold, do all operations, each on another key."""
        ...

    def watch(self, prefix: str, on_events: Callable[[Events], None]) -> Callable[[], None]:
        """Report each transaction from now on; the result ends it.

        `on_events` must not write to the store.
        """
        ...

    async def lease(self, ttl_ms: int, on_lost: Callable[[], None]) -> Lease:
        """Begin a lease that the store keeps alive as long as this process does.

        `on_lost` is called if that fails; the keys of the lease may then be gone.
        """
        ...

    def close(self) -> None:
        """Give up the store, and all leases with it."""
        ...
