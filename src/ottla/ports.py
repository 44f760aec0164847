"""The four doors to the outside world: clock, disk, network, entropy.

`ottla.runtime` opens them on the real machine, `ottla.testing` on a simulated one.  Code that takes
a port never needs to be patched in a test.  Waiting is done on the running asyncio loop, whose time
the simulation controls too.
"""

import asyncio
import errno
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ottla.values import dataclass

if TYPE_CHECKING:
    from ssl import SSLContext

Buffer = bytes | bytearray | memoryview

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What a disk says that is full, or of which we may have no more; it may have room again later."""

TOO_MANY_OPEN: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""What the system says if a process, or all of them, may open no more files and connections; some
may be closed later."""

MAY_PASS: Final = NO_ROOM | TOO_MANY_OPEN
"""Errors that say nothing about what is on disk, and that somebody can put an end to."""

_T = TypeVar("_T")


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class ColdReadError(Exception):
    """What shall be read at once would have to come from the device, unless it is warmed."""

    def __init__(self, path: str, position: int, size_bytes: int) -> None:
        super().__init__(f"{path} is not in memory from byte {position} on, for {size_bytes} bytes")
        self.path = path
        self.position = position
        self.size_bytes = size_bytes


class File(Protocol):
    """An open file.  Writes reach the page cache at once, the disk only with `sync`."""

    @property
    def path(self) -> str:
        """Where it is, relative to its disk's root."""
        ...

    def size_bytes(self) -> int: ...

    def write(self, position: int, data: Buffer) -> None:
        """Write all of `data` at `position`, growing the file where needed."""
        ...

    def read(self, position: int, size_bytes: int) -> bytes:
        """Read up to `size_bytes`; fewer only at the end of the file."""
        ...

    def truncate(self, size_bytes: int) -> None: ...

    def allocate(self, size_bytes: int) -> None:
        """Reserve room up to `size_bytes`, filled with zeros: appends and syncs get cheaper."""
        ...

    def begin_writeback(self) -> None:
        """Advise the system to bring what was written to the disk soon: a sync will follow.

        This promises nothing, and what goes wrong is told by the sync.
        """
        ...

    def sync(self) -> None:
        """Return once everything written so far would survive power loss."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A directory tree.  Paths are relative to its root, with `/` between folders.

    Creating, renaming and removing survive power loss only after `sync_folder` of the folder.
    All methods raise `OSError` as the operating system would.
    """

    def open(self, path: str, *, create: bool = False) -> File: ...

    def names(self, folder: str) -> list[str]:
        """The names in `folder`, sorted; "" is the root."""
        ...

    def exists(self, path: str) -> bool: ...

    def make_folder(self, path: str) -> None:
        """Create `path`; it is no error if it exists."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give `old` the name `new`, atomically replacing what had it."""
        ...

    def link(self, path: str, new: str) -> None:
        """Give the file at `path` a second name, `new`, which must be free.

        It is one file with two names, and lives until both are removed.
        """
        ...

    def remove(self, path: str) -> None: ...

    async def remove_aside(self, path: str) -> None:
        """`remove` at once, and wait without blocking the loop until its room is free again.

        The system takes its time over what is large.
        """
        ...

    def sync_folder(self, path: str) -> None: ...

    async def sync_files(self, files: "Iterable[File | Folder]") -> None:
        """`sync` each of `files` without blocking the loop; raise the first `OSError`.

        A folder and its files become durable in their order; those of different ones, in any.
        """
        ...

    def begin_sync(
        self, files: "Iterable[File | Folder]", when_over: Callable[[Exception | None], None]
    ) -> None:
        """Do the same, and say by a call how it went, from the loop and never before this returns.

        Who awaits is told by a future, one turn of the loop after the disk; every answer that
        promises durability would wait for that.
        """
        ...

    def at_once(self, act: Callable[[], _T]) -> _T:
        """What `act` gives; a read in it that would wait for the device raises `ColdReadError`.

        The disk looks at samples; what the system cannot tell of is read as always.
        """
        ...

    async def warm(self, path: str, position: int, size_bytes: int) -> None:
        """Bring a part of a file into memory, as far as there is one, without blocking the loop.

        It raises nothing: what is wrong with the file, whoever reads it next will learn.
        """
        ...

    def free_bytes(self) -> int: ...

    def total_bytes(self) -> int:
        """How much there is, used or not."""
        ...

    def lock(self) -> None:
        """Claim the tree for this process until it ends; `OSError` if another one holds it."""
        ...

    def close(self) -> None:
        """Let go of everything, the claim too; syncs that are under way come to their end."""
        ...


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder, as something to be synced beside files: the names in it become durable."""

    disk: Disk
    path: str

    def sync(self) -> None:
        self.disk.sync_folder(self.path)

    def close(self) -> None:
        """Nothing is open."""


class Listener(Protocol):
    """An open server port."""

    @property
    def address(self) -> tuple[str, int]: ...

    def close(self) -> None:
        """Accept no more connections; those that exist live on."""
        ...


class Network(Protocol):
    async def listen(
        self, host: str, port: int, accept: Callable[[], asyncio.BaseProtocol]
    ) -> Listener:
        """Open a server port; `accept` makes the protocol of each connection."""
        ...

    async def connect(
        self,
        host: str,
        port: int,
        protocol: Callable[[], asyncio.BaseProtocol],
        *,
        tls: "SSLContext | None" = None,
    ) -> asyncio.BaseProtocol:
        """Connect, and return the protocol that was made for the connection.

        With `tls` it is made when the handshake is done; `ssl.SSLError`, an `OSError`, if it fails.
        """
        ...

    def expect_much(self) -> None:
        """Say that a large message has come in part: the rest is best read at once.

        So nobody needs to hurry; where a loop looks around before it sleeps, it sleeps.
        """
        ...


class Entropy(Protocol):
    def random_bytes(self, count: int) -> bytes: ...

    def random(self) -> float:
        """A number in [0, 1)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """All four, as a broker or client takes them."""

    clock: Clock
    disk: Disk
    network: Network
    entropy: Entropy
