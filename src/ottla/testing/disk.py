"""A disk that forgets: what was not synced may be lost, torn, or kept.

Contents need `sync`, names need `sync_folder`; power loss keeps of the rest whatever its random
numbers say.  Every operation that changes something is counted, so that a test can lose power, or
let an operation fail, at each of them in turn::

    for crash_at in range(operation_count):
        disk = SimDisk(random.Random(crash_at), crash_at=crash_at)
        with contextlib.suppress(PowerLoss):
            work(disk)
        disk.lose_power()
        check(disk)

From the moment of power loss on, the disk and its old files only raise `PowerLoss`, which no
`except Exception` catches.  `lose_power` brings the disk back; its old files stay dead, since
they belong to a process that is gone, and nothing is in memory.  `chill` just empties memory.
"""

import asyncio
import enum
import errno
import os
import posixpath
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Final, TypeVar

from ottla.ports import Buffer, ColdReadError, File, Folder
from ottla.runtime.paths import path_parts
from ottla.testing.begun_syncs import BeginsSyncs, KeepsToItself
from ottla.testing.inodes import (
    Entry,
    FileNode,
    FolderNode,
    Inode,
    Resized,
    Survival,
    Tree,
    Written,
)

SYNC_DELAY_MS: Final = (0.2, 4.0)
"""The least and the most that `sync_files` takes for each file, in virtual time."""

WARM_DELAY_MS: Final = (0.2, 12.0)
"""The least and the most that `warm` takes, in virtual time."""

REMOVE_DELAY_MS: Final = (0.0, 1.0)
"""The least and the most that `remove_aside` takes, in virtual time."""

_UNLIMITED_BYTES: Final = 2**50

_T = TypeVar("_T")


class PowerLoss(BaseException):
    """The machine is gone.  Not an `Exception`: no handler of the program may see another day."""


class Operation(enum.Enum):
    """What is counted, and what can be made to fail."""

    CREATE = "create"
    WRITE = "write"
    TRUNCATE = "truncate"
    ALLOCATE = "allocate"
    SYNC = "sync"
    MAKE_FOLDER = "make_folder"
    REMOVE_FOLDER = "remove_folder"
    RENAME = "rename"
    LINK = "link"
    REMOVE = "remove"
    SYNC_FOLDER = "sync_folder"


class SimFile(KeepsToItself):
    """See `ottla.ports.File`."""

    __slots__ = ("_disk", "_inode", "_is_closed", "_power_cycle", "_sync_error")

    def __init__(self, disk: "SimDisk", inode: FileNode, power_cycle: int) -> None:
        self._disk = disk
        self._inode = inode
        self._power_cycle = power_cycle
        self._is_closed = False
        self._sync_error: OSError | None = None

    @property
    def path(self) -> str:
        return self._inode.path

    def size_bytes(self) -> int:
        return len(self._opened().content)

    def write(self, position: int, data: Buffer) -> None:
        inode = self._opened()
        written = bytes(data)
        _refuse_negative(position)
        self._disk.begin(Operation.WRITE, self.path, f"{position}+{len(written)}")
        if not written:
            return
        end = position + len(written)
        reachable_end = self._disk.reachable_bytes(inode, end)
        if reachable_end > position:
            # As the operating system does it: what fits is written, and then there is an error.
            inode.change(Written(position, written[: reachable_end - position]))
        if reachable_end < end:
            raise _os_error(errno.ENOSPC, self.path)

    def read(self, position: int, size_bytes: int) -> bytes:
        inode = self._opened()
        _refuse_negative(position, size_bytes)
        if inode.cold_pages and inode.is_cold(position, size_bytes):
            self._disk.wait_for_device(self.path, position, size_bytes)
            inode.warm(position, size_bytes)
        return bytes(inode.content[position : position + size_bytes])

    def truncate(self, size_bytes: int) -> None:
        inode = self._opened()
        _refuse_negative(size_bytes)
        self._disk.begin(Operation.TRUNCATE, self.path, str(size_bytes))
        inode.change(Resized(size_bytes))

    def allocate(self, size_bytes: int) -> None:
        inode = self._opened()
        if len(inode.content) >= size_bytes:
            return
        self._disk.begin(Operation.ALLOCATE, self.path, str(size_bytes))
        if self._disk.reachable_bytes(inode, size_bytes) < size_bytes:
            raise _os_error(errno.ENOSPC, self.path)
        inode.change(Resized(size_bytes))

    def sync(self) -> None:
        self.begin_sync()()

    def close(self) -> None:
        self._is_closed = True

    def begin_sync(self) -> Callable[[], None]:
        """Raise what `sync` would raise at once; the file may be closed before it is finished."""
        self._opened()
        return self._finish_sync

    def _finish_sync(self) -> None:
        self._disk.check_power(self._power_cycle)
        if self._sync_error is not None:
            raise OSError(self._sync_error.errno, "an earlier sync failed", self.path)
        try:
            self._disk.begin(Operation.SYNC, self.path)
        except OSError as error:
            self._sync_error = error
            self._inode.lose_pending()
            raise
        self._inode.sync()

    def _opened(self) -> FileNode:
        self._disk.check_power(self._power_cycle)
        if self._is_closed:
            raise _os_error(errno.EBADF, self.path)
        return self._inode


class SimDisk(BeginsSyncs):
    """See `ottla.ports.Disk`.

    Args:
        rng: What survives power loss, and how long syncs take.
        crash_at: The number of the operation, from 0, instead of which power is lost.
        capacity_bytes: How much the files may hold together before writes fail with ENOSPC.
        observe: Called with a line about each operation, before it takes place.
    """

    def __init__(
        self,
        rng: random.Random | None = None,
        *,
        crash_at: int | None = None,
        capacity_bytes: int = _UNLIMITED_BYTES,
        observe: Callable[[str], None] | None = None,
    ) -> None:
        self.crash_at = crash_at
        self.capacity_bytes = capacity_bytes
        self.sync_delay_ms = SYNC_DELAY_MS
        self.warm_delay_ms = WARM_DELAY_MS
        self.blocking_read_count = 0
        """How often somebody read what was not in memory, and everything stood still meanwhile."""
        self.on_power_loss: Callable[[], None] | None = None
        """Called at `crash_at`, before `PowerLoss` is raised."""
        self._rng = rng if rng is not None else random.Random(0)
        self._observe = observe
        self._tree = Tree()
        self._operation_count = 0
        self._faults: list[tuple[Operation | None, str, int, int]] = []
        self._power_cycle = 0
        self._has_power = True
        self._is_locked = False
        self._is_hurried = False

    @property
    def operation_count(self) -> int:
        """How many operations were begun so far; those that failed are counted too."""
        return self._operation_count

    @property
    def has_power(self) -> bool:
        return self._has_power

    def fail(
        self, error: int, operation: Operation | None = None, *, path: str = "", after: int = 0
    ) -> None:
        """Let one operation raise `OSError(error)`, instead of taking place.

        It is the next one of its kind on a path that starts with `path`, `after` that many others.
        A sync that fails loses its data: reads still see it, but no later sync will save it, not
        even that of the file opened anew, which succeeds.
        """
        self._faults.append((operation, path, after, error))

    def mend(self) -> None:
        """Take back every `fail` that has not happened yet."""
        self._faults.clear()

    def lose_power(
        self, rng: random.Random | None = None, *, survival: Survival | None = None
    ) -> None:
        """Forget what was not synced, and start again.

        How much of it survives is drawn for the names and for each file, or fixed by `survival`.
        """
        self._tree.lose_power(rng if rng is not None else self._rng, survival)
        self.end_process()
        self._has_power = True
        self.crash_at = None
        self.mend()

    def chill(self, path: str = "") -> None:
        """Memory is short: of the files at and below `path`, nothing is in it any longer."""
        for file in _files_below(self._find(path)):
            file.chill()

    def cut_power(self) -> None:
        """From now on everything raises `PowerLoss`, until `lose_power` says what is left."""
        self._has_power = False

    def end_process(self) -> None:
        """The process that used the disk is gone, and the machine is not: nothing is lost.

        Its files are dead and its lock is free.
        """
        self._power_cycle += 1
        self._is_locked = False

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.check_power()
        folder, name = self._parent(path)
        inode = folder.entries.get(name)
        if inode is None:
            if not create:
                raise _os_error(errno.ENOENT, path)
            self.begin(Operation.CREATE, path)
            inode = FileNode()
            self._tree.change(Entry(folder, name, inode))
        if not isinstance(inode, FileNode):
            raise _os_error(errno.EISDIR, path)
        return SimFile(self, inode, self._power_cycle)

    def names(self, folder: str) -> list[str]:
        self.check_power()
        return sorted(self._folder(folder).entries)

    def exists(self, path: str) -> bool:
        self.check_power()
        try:
            self._find(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def make_folder(self, path: str) -> None:
        self.check_power()
        if not path_parts(path):
            return
        folder, name = self._parent(path)
        existing = folder.entries.get(name)
        if isinstance(existing, FileNode):
            raise _os_error(errno.EEXIST, path)
        if existing is None:
            self.begin(Operation.MAKE_FOLDER, path)
            self._tree.change(Entry(folder, name, FolderNode()))

    def remove_folder(self, path: str) -> None:
        self.check_power()
        if self._folder(path).entries:
            raise _os_error(errno.ENOTEMPTY, path)
        folder, name = self._parent(path)
        self.begin(Operation.REMOVE_FOLDER, path)
        self._tree.change(Entry(folder, name, None))

    def rename(self, old: str, new: str) -> None:
        self.check_power()
        inode = self._find(old)
        (source, old_name), (target, new_name) = self._parent(old), self._parent(new)
        _refuse_rename(inode, target.entries.get(new_name), old, new)
        self.begin(Operation.RENAME, old, new)
        if old != new:
            self._tree.change(Entry(source, old_name, None), Entry(target, new_name, inode))

    def link(self, path: str, new: str) -> None:
        self.check_power()
        inode = self._find(path)
        if isinstance(inode, FolderNode):
            raise _os_error(errno.EPERM, path)
        folder, name = self._parent(new)
        if name in folder.entries:
            raise _os_error(errno.EEXIST, new)
        self.begin(Operation.LINK, path, new)
        self._tree.change(Entry(folder, name, inode, is_link=True))

    def remove(self, path: str) -> None:
        self.check_power()
        if isinstance(self._find(path), FolderNode):
            raise _os_error(errno.EISDIR, path)
        folder, name = self._parent(path)
        self.begin(Operation.REMOVE, path)
        self._tree.change(Entry(folder, name, None))

    async def remove_aside(self, path: str) -> None:
        """As the port says, after a while of virtual time."""
        self.remove(path)
        await asyncio.sleep(self._rng.uniform(*REMOVE_DELAY_MS) / 1000)

    def sync_folder(self, path: str) -> None:
        self.check_power()
        self._sync_node(self._folder(path), path, self._power_cycle)

    def _sync_node(self, folder: FolderNode, path: str, power_cycle: int) -> None:
        self.check_power(power_cycle)
        self.begin(Operation.SYNC_FOLDER, path)
        self._tree.sync(folder)

    async def sync_files(self, files: Iterable[File | Folder]) -> None:
        """As the port says, after a while of virtual time; folders come in any order."""
        folders: dict[str, list[Callable[[], None]]] = {}
        for file in files:
            if isinstance(file, Folder):
                found = self._folder(file.path), file.path, self._power_cycle
                folders.setdefault(file.path, []).append(partial(self._sync_node, *found))
            else:
                assert isinstance(file, SimFile), file
                folders.setdefault(posixpath.dirname(file.path), []).append(file.begin_sync())
        groups = list(folders.values())
        self._rng.shuffle(groups)
        first_error: OSError | None = None
        for finish in chain.from_iterable(groups):
            await asyncio.sleep(self._rng.uniform(*self.sync_delay_ms) / 1000)
            try:
                finish()
            except OSError as error:
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    def at_once(self, act: Callable[[], _T]) -> _T:
        assert not self._is_hurried
        self._is_hurried = True
        try:
            return act()
        finally:
            self._is_hurried = False

    async def warm(self, path: str, position: int, size_bytes: int) -> None:
        """As the port says, after a while of virtual time."""
        power_cycle = self._power_cycle
        await asyncio.sleep(self._rng.uniform(*self.warm_delay_ms) / 1000)
        self.check_power(power_cycle)
        if self.exists(path) and isinstance(file := self._find(path), FileNode):
            file.warm(position, size_bytes)

    def wait_for_device(self, path: str, position: int, size_bytes: int) -> None:
        """Take note that somebody reads what is not in memory, or refuse to wait for it."""
        if self._is_hurried:
            raise ColdReadError(path, position, size_bytes)
        self.blocking_read_count += 1

    def free_bytes(self) -> int:
        self.check_power()
        return max(0, self.capacity_bytes - _used_bytes(self._tree.root))

    def total_bytes(self) -> int:
        self.check_power()
        return self.capacity_bytes

    def lock(self) -> None:
        self.check_power()
        if self._is_locked:
            raise BlockingIOError(errno.EWOULDBLOCK, "the folder is in use by another process")
        self._is_locked = True
        if ".lock" not in self._tree.root.entries:
            self._tree.change_durably(Entry(self._tree.root, ".lock", FileNode()))

    def unlock(self) -> None:
        self.check_power()
        self._is_locked = False

    def close(self) -> None:
        self.unlock()

    def check_power(self, power_cycle: int | None = None) -> None:
        """Raise `PowerLoss` if there is no power, or there was none since `power_cycle`."""
        if not self._has_power or power_cycle not in {None, self._power_cycle}:
            raise PowerLoss

    def begin(self, operation: Operation, path: str, detail: str = "") -> None:
        """Count an operation that is about to take place; this is where it may fail."""
        number, self._operation_count = self._operation_count, self._operation_count + 1
        line = f"{operation.value} {path} {detail}".rstrip()
        if self._observe is not None:
            self._observe(line)
        if number == self.crash_at:
            self.cut_power()
            if self.on_power_loss is not None:
                self.on_power_loss()
            raise PowerLoss(f"at operation {number}: {line}")
        self._raise_fault(operation, path)

    def reachable_bytes(self, inode: FileNode, size_bytes: int) -> int:
        """How large `inode` can become on its way to `size_bytes`, before the disk is full."""
        if self.capacity_bytes == _UNLIMITED_BYTES:
            return size_bytes
        return min(size_bytes, len(inode.content) + self.free_bytes())

    def _raise_fault(self, operation: Operation, path: str) -> None:
        for index, (kind, prefix, after, error) in enumerate(self._faults):
            if kind in {None, operation} and path.startswith(prefix):
                if after:
                    self._faults[index] = (kind, prefix, after - 1, error)
                else:
                    del self._faults[index]
                    raise _os_error(error, path)
                return

    def _find(self, path: str) -> Inode:
        inode: Inode = self._tree.root
        for part in path_parts(path):
            if not isinstance(inode, FolderNode):
                raise _os_error(errno.ENOTDIR, path)
            if part not in inode.entries:
                raise _os_error(errno.ENOENT, path)
            inode = inode.entries[part]
        return inode

    def _folder(self, path: str) -> FolderNode:
        inode = self._find(path)
        if not isinstance(inode, FolderNode):
            raise _os_error(errno.ENOTDIR, path)
        return inode

    def _parent(self, path: str) -> tuple[FolderNode, str]:
        parts = path_parts(path)
        if not parts:
            raise _os_error(errno.EISDIR, path)
        return self._folder("/".join(parts[:-1])), parts[-1]


def _refuse_rename(inode: Inode, target: Inode | None, old: str, new: str) -> None:
    """Raise what the operating system would, where `old` cannot take the name `new`."""
    if isinstance(inode, FolderNode):
        if f"{new}/".startswith(f"{old}/") and new != old:
            raise _os_error(errno.EINVAL, old)
        if isinstance(target, FileNode):
            raise _os_error(errno.ENOTDIR, old)
        if isinstance(target, FolderNode) and target.entries and target is not inode:
            raise _os_error(errno.ENOTEMPTY, old)
    elif isinstance(target, FolderNode):
        raise _os_error(errno.EISDIR, old)


def _refuse_negative(*numbers: int) -> None:
    if min(numbers) < 0:
        raise _os_error(errno.EINVAL, "")


def _used_bytes(root: FolderNode) -> int:
    """What the files hold together; one with two names takes its room once."""
    return sum({id(file): len(file.content) for file in _files_below(root)}.values())


def _files_below(inode: Inode) -> Iterator[FileNode]:
    """The files at and below it; one with two names comes twice."""
    if isinstance(inode, FileNode):
        yield inode
    elif isinstance(inode, FolderNode):
        for entry in inode.entries.values():
            yield from _files_below(entry)


def _os_error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
