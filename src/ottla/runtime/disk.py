"""Files in a folder of the real machine.

Everything but `sync_files`, `sync_folder_aside` and `warm` runs inline: it touches the page cache,
which is quicker than any hand-over to a thread.  `files` keeps the number of descriptors bounded,
`syncing` waits for the disk, and `caching` knows what a read would wait for.
"""

import asyncio
import fcntl
import math
import os
import posixpath
import resource
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import Final, TypeVar

from ottla.ports import TOO_MANY_OPEN, File, Folder
from ottla.runtime.caching import Wanted
from ottla.runtime.files import OpenFiles, RealFile
from ottla.runtime.paths import path_parts
from ottla.runtime.syncing import MOST_THREADS, DiskThreads, Errors, sync_descriptor

MOST_DESCRIPTORS: Final = 16_384
"""Descriptors that a disk holds at most, even where the process may have many more."""

_FEWEST_DESCRIPTORS: Final = 16
_LOCK_NAME: Final = ".lock"
_FOLDERS_A_SHARE: Final = 4
_DESCRIPTOR_RETRY_MS: Final = 1

_T = TypeVar("_T")


class RealDisk:
    """See `ottla.ports.Disk`.  `root` is created where it is missing.

    By default it takes half of the descriptors that the process may have: the other half is for
    connections.
    """

    def __init__(self, root: str | os.PathLike[str], *, max_descriptors: int | None = None) -> None:
        self._root = os.path.abspath(root)
        if not os.path.isdir(self._root):
            os.makedirs(self._root)
            _sync_folder_at(os.path.dirname(self._root))
        self._open_files = OpenFiles(self._root, max_descriptors or _default_max_descriptors())
        self._sync_threads = DiskThreads("ottla-sync")
        self._warm_threads = DiskThreads("ottla-warm")
        self._lock_descriptor: int | None = None

    @property
    def root(self) -> str:
        """Where the tree is on the machine, as an absolute path."""
        return self._root

    @property
    def descriptor_count(self) -> int:
        """How many descriptors open files hold at the moment."""
        return self._open_files.descriptor_count

    def open(self, path: str, *, create: bool = False) -> RealFile:
        self._absolute(path)
        return self._open_files.open(path, os.O_RDWR | (os.O_CREAT if create else 0))

    def names(self, folder: str) -> list[str]:
        return sorted(os.listdir(self._absolute(folder)))

    def exists(self, path: str) -> bool:
        try:
            os.stat(self._absolute(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def make_folder(self, path: str) -> None:
        absolute = self._absolute(path)
        try:
            os.mkdir(absolute)
        except FileExistsError:
            if not os.path.isdir(absolute):
                raise

    def remove_folder(self, path: str) -> None:
        os.rmdir(self._absolute(path))

    def rename(self, old: str, new: str) -> None:
        source, target = self._absolute(old), self._absolute(new)
        replaced = self._open_files.at(new) if old != new else ()
        self._open_files.hold(replaced)
        os.rename(source, target)
        self._open_files.lost_name(replaced)
        self._open_files.renamed(old, new)

    def link(self, path: str, new: str) -> None:
        os.link(self._absolute(path), self._absolute(new))

    def remove(self, path: str) -> None:
        absolute = self._absolute(path)
        removed = self._open_files.at(path)
        self._open_files.hold(removed)
        os.unlink(absolute)
        self._open_files.lost_name(removed)

    def sync_folder(self, path: str) -> None:
        _sync_and_close(self._folder_descriptor(path))

    async def sync_files(self, files: Iterable[File | Folder]) -> None:
        """As the port says.  If the caller is canceled, what it asked for still takes place."""
        group = dict.fromkeys(files)
        pinned = await self._pin(file for file in group if not isinstance(file, Folder))
        shares = _shares_of(f for f in group if isinstance(f, Folder) or f in pinned)

        def done(errors: Errors) -> None:
            for file, error in zip(chain.from_iterable(shares), errors, strict=True):
                if error is not None and isinstance(file, RealFile):
                    file.sync_error = error
                    file.is_dirty = True
            self._unpin(pinned)

        for file in pinned:
            # Now, not at the end: what is written meanwhile needs another sync.
            file.is_dirty = False
        if shares:
            named = [
                [self._absolute(f.path) if isinstance(f, Folder) else pinned[f] for f in share]
                for share in shares
            ]
            await self._sync_threads.work_off(named, _sync, done)

    async def sync_folder_aside(self, path: str) -> None:
        """As the port says.  It is the folder that has this name now, whatever it is called later.

        If the caller is canceled, what it asked for still takes place.
        """
        descriptor = self._folder_descriptor(path)
        # Not `fdatasync`: that need not bring names to disk where the folder does not grow.
        await self._sync_threads.work_off([[descriptor]], os.fsync, lambda _: os.close(descriptor))

    def at_once(self, act: Callable[[], _T]) -> _T:
        open_files = self._open_files
        assert not open_files.is_hurried
        open_files.is_hurried = True
        try:
            return act()
        finally:
            open_files.is_hurried = False

    async def warm(self, path: str, position: int, size_bytes: int) -> None:
        """As the port says.  If the caller is canceled, nothing more is brought."""
        wanted = Wanted(self._absolute(path), position, size_bytes)
        try:
            # It may be gone, and if it is broken, the reader will notice; or there is no thread.
            with suppress(OSError, RuntimeError):
                await self._warm_threads.work_off([[wanted]], Wanted.bring)
        finally:
            wanted.is_wanted = False

    def free_bytes(self) -> int:
        status = os.statvfs(self._root)
        return status.f_bavail * status.f_frsize

    def total_bytes(self) -> int:
        status = os.statvfs(self._root)
        return status.f_blocks * status.f_frsize

    def lock(self) -> None:
        """As the port says; locking twice is no error."""
        if self._lock_descriptor is not None:
            return
        descriptor = os.open(os.path.join(self._root, _LOCK_NAME), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise BlockingIOError(
                error.errno, f"the folder is in use by process {holder}", self._root
            ) from None
        except OSError:
            os.close(descriptor)
            raise
        self._lock_descriptor = descriptor

    def unlock(self) -> None:
        """Give up the claim.  The file `.lock` stays: removing it would race with the next one."""
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None

    def close(self) -> None:
        """Wait for syncs in flight, close every file, and unlock."""
        self._warm_threads.stop()
        self._sync_threads.stop()
        self._open_files.close_all()
        self.unlock()

    def _folder_descriptor(self, path: str) -> int:
        return self._open_files.descriptor_at(self._absolute(path), os.O_RDONLY | os.O_DIRECTORY)

    def _absolute(self, path: str) -> str:
        return os.path.join(self._root, *path_parts(path))

    async def _pin(self, files: Iterable[File]) -> dict[RealFile, int]:
        """Those of the files that have something to sync, each with a descriptor for it."""
        group: dict[RealFile, None] = {}
        for file in files:
            assert isinstance(file, RealFile), file
            group[file] = None
        while True:
            pinned = self._pinned(group)
            if pinned is not None:
                return pinned
            await asyncio.sleep(_DESCRIPTOR_RETRY_MS / 1000)

    def _pinned(self, group: Iterable[RealFile]) -> dict[RealFile, int] | None:
        """The same at once; None if descriptors are lacking while others sync the same files."""
        pinned: dict[RealFile, int] = {}
        try:
            for file in group:
                file.refuse_if_a_sync_failed()
                if not file.gave_up_descriptor:
                    pinned[file] = self._open_files.pin(file)
        except OSError as error:
            self._unpin(pinned)
            if error.errno in TOO_MANY_OPEN and any(file.pins for file in group):
                return None
            raise
        return pinned

    def _unpin(self, pinned: Mapping[RealFile, int]) -> None:
        for file, descriptor in pinned.items():
            self._open_files.unpin(file, descriptor)


def _shares_of(files: Iterable[RealFile | Folder]) -> list[list[RealFile | Folder]]:
    """The files, in one share for each thread that is worth its while; a folder's stay together."""
    folders: dict[str, list[RealFile | Folder]] = {}
    for file in files:
        folder = file.path if isinstance(file, Folder) else posixpath.dirname(file.path)
        folders.setdefault(folder, []).append(file)
    count = min(MOST_THREADS, math.ceil(len(folders) / _FOLDERS_A_SHARE))
    shares: list[list[RealFile | Folder]] = [[] for _ in range(count)]
    for number, together in enumerate(folders.values()):
        shares[number % count] += together
    return shares


def _default_max_descriptors() -> int:
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit == resource.RLIM_INFINITY:
        return MOST_DESCRIPTORS
    return max(_FEWEST_DESCRIPTORS, min(soft_limit // 2, MOST_DESCRIPTORS))


def _sync(item: int | str) -> None:
    """Sync a file by its descriptor, or a folder by its name, in a thread that may wait.

    A folder that is gone by now was deleted, and nobody misses what was in it.
    """
    if isinstance(item, int):
        sync_descriptor(item)
        return
    while True:
        try:
            _sync_folder_at(item)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in TOO_MANY_OPEN:
                raise
            time.sleep(_DESCRIPTOR_RETRY_MS / 1000)
        else:
            return


def _sync_folder_at(absolute: str) -> None:
    _sync_and_close(os.open(absolute, os.O_RDONLY | os.O_DIRECTORY))


def _sync_and_close(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
