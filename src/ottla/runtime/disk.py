"""Files in a folder of the real machine.

Everything but syncs of files, `remove_aside` and `warm` runs inline: it touches the page cache,
which is quicker than any hand-over to a thread.  `files` keeps the number of descriptors bounded,
`syncing` waits for the disk, and `caching` knows what a read would wait for.
"""

import asyncio
import fcntl
import logging
import math
import os
import posixpath
import resource
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Final, TypeVar

from ottla.ports import TOO_MANY_OPEN, File, Folder
from ottla.runtime.caching import Wanted
from ottla.runtime.files import OpenFiles, RealFile
from ottla.runtime.folders import RETRY_MS, FolderSyncs
from ottla.runtime.paths import path_parts
from ottla.runtime.syncing import (
    MOST_THREADS,
    DiskThreads,
    Errors,
    first_of,
    settle,
    sync_descriptor,
)

log = logging.getLogger(__name__)

MOST_DESCRIPTORS: Final = 16_384
"""Descriptors that a disk holds at most, even where the process may have many more."""

LARGE_BYTES: Final = 1024 * 1024
"""A file of so many bytes is worth a thread to remove it: it takes half a millisecond and more."""

_FEWEST_DESCRIPTORS: Final = 16
_LOCK_NAME: Final = ".lock"
_FOLDERS_A_SHARE: Final = 4

_T = TypeVar("_T")


class RealDisk:
    """See `ottla.ports.Disk`.  `root` is created where it is missing.

    By default it takes half of the descriptors that the process may have: the other half is for
    connections.
    """

    def __init__(self, root: str | os.PathLike[str], *, max_descriptors: int | None = None) -> None:
        self._root = os.path.abspath(root)
        made = _make_folders(self._root)
        self._folder_syncs = FolderSyncs(self._root)
        for folder in made:
            self._folder_syncs.sync(os.path.dirname(folder))
        self._open_files = OpenFiles(self._root, max_descriptors or _default_max_descriptors())
        self._sync_threads = DiskThreads("ottla-sync")
        self._warm_threads = DiskThreads("ottla-warm")
        self._remove_threads = DiskThreads("ottla-remove", most=1)
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

    async def remove_aside(self, path: str) -> None:
        """As the port says.  If the caller is canceled, the room is freed all the same.

        The name goes in the loop, so that nobody else can take the file for one that is there.  Of
        the last name, the content goes with the last descriptor: a thread closes that.
        """
        descriptor = self._last_hold_on(path)
        try:
            self.remove(path)
        except OSError:
            if descriptor is not None:
                os.close(descriptor)
            raise
        if descriptor is None:
            await asyncio.sleep(0)
        else:
            await self._remove_threads.work_off([[descriptor]], os.close)

    def _last_hold_on(self, path: str) -> int | None:
        """A descriptor of a file that takes long to remove; None if it does not, or there is none.

        Without one the loop waits.  A disk must be freed although connections have them all.
        """
        absolute = self._absolute(path)
        status = os.lstat(absolute)
        if status.st_nlink > 1 or status.st_size < LARGE_BYTES:
            return None
        with suppress(OSError):
            return os.open(absolute, os.O_RDONLY)
        return None

    def sync_folder(self, path: str) -> None:
        folder, flags = self._absolute(path), os.O_RDONLY | os.O_DIRECTORY
        self._folder_syncs.sync_at_once(lambda: self._open_files.descriptor_at(folder, flags))

    async def sync_files(self, files: Iterable[File | Folder]) -> None:
        """As the port says.  If the caller is canceled, what it asked for still takes place."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.begin_sync(files, partial(settle, waiter))
        await waiter

    def begin_sync(
        self, files: Iterable[File | Folder], when_over: Callable[[Exception | None], None]
    ) -> None:
        group = dict.fromkeys(files)
        loop = asyncio.get_running_loop()
        try:
            pinned = self._pinned(group)
        except OSError as error:
            loop.call_soon(when_over, error)
            return
        if pinned is None:
            loop.call_later(RETRY_MS / 1000, self._begin_sync_again, group, when_over)
            return
        shares = _shares_of([f for f in group if isinstance(f, Folder) or f in pinned])
        if not shares:
            loop.call_soon(when_over, None)
            return

        def finish(errors: Errors) -> None:
            failure: Exception | None = first_of(errors)
            try:
                if failure is not None:
                    _note_failures(shares, errors)
                self._unpin(pinned)
            except Exception as error:  # a bug, but whoever waits must not wait for ever
                log.exception("the end of a sync could not be taken note of")
                failure = failure or error
            when_over(failure)

        for file in pinned:
            # Now, not at the end: what is written meanwhile needs another sync.
            file.is_dirty = False
        named = [
            [self._absolute(f.path) if isinstance(f, Folder) else pinned[f] for f in share]
            for share in shares
        ]
        self._sync_threads.begin(named, self._sync, finish)

    def _begin_sync_again(
        self, group: Iterable[File | Folder], when_over: Callable[[Exception | None], None]
    ) -> None:
        """Descriptors were lacking while others sync the same files."""
        # Whoever has closed one meanwhile, most likely with its topic, does not miss it.
        left = [f for f in group if not (isinstance(f, RealFile) and f.is_closed)]
        try:
            self.begin_sync(left, when_over)
        except Exception as error:  # a bug, but whoever waits must not wait for ever
            when_over(error)

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
            # It may be gone, and if it is broken, the reader will notice.
            with suppress(OSError):
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
        self._remove_threads.stop()
        self._folder_syncs.close()
        self._open_files.close_all()
        self.unlock()

    def _absolute(self, path: str) -> str:
        return os.path.join(self._root, *path_parts(path))

    def _pinned(self, group: Iterable[File | Folder]) -> dict[RealFile, int] | None:
        """Those of the files that have something to sync, each with a descriptor for it.

        None if descriptors are lacking while others sync the same files.
        """
        files: list[RealFile] = []
        for file in group:
            if not isinstance(file, Folder):
                assert isinstance(file, RealFile), file
                files.append(file)
        pinned: dict[RealFile, int] = {}
        try:
            for file in files:
                file.refuse_if_a_sync_failed()
                if not file.gave_up_descriptor:
                    pinned[file] = self._open_files.pin(file)
        except OSError as error:
            self._unpin(pinned)
            if error.errno in TOO_MANY_OPEN and any(file.pins for file in files):
                return None
            raise
        return pinned

    def _sync(self, item: int | str) -> None:
        """Sync a file by its descriptor, or a folder by its name, in a thread that may wait."""
        if isinstance(item, int):
            sync_descriptor(item)
        else:
            self._folder_syncs.sync(item)

    def _unpin(self, pinned: Mapping[RealFile, int]) -> None:
        for file, descriptor in pinned.items():
            self._open_files.unpin(file, descriptor)


def _make_folders(absolute: str) -> list[str]:
    """Make a folder and those above it, as far as they are missing: those that were made."""
    missing = []
    folder = absolute
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    os.makedirs(absolute, exist_ok=True)
    return missing


def _shares_of(files: Sequence[RealFile | Folder]) -> list[list[RealFile | Folder]]:
    """The files, in one share for each thread that is worth its while; a folder's stay together."""
    if len(files) == 1:
        return [[*files]]  # as nearly always
    folders: dict[str, list[RealFile | Folder]] = {}
    for file in files:
        folder = file.path if isinstance(file, Folder) else posixpath.dirname(file.path)
        folders.setdefault(folder, []).append(file)
    count = min(MOST_THREADS, math.ceil(len(folders) / _FOLDERS_A_SHARE))
    shares: list[list[RealFile | Folder]] = [[] for _ in range(count)]
    for number, together in enumerate(folders.values()):
        shares[number % count] += together
    return shares


def _note_failures(shares: Iterable[Iterable[RealFile | Folder]], errors: Errors) -> None:
    for file, error in zip(chain.from_iterable(shares), errors, strict=True):
        if error is not None and isinstance(file, RealFile):
            file.sync_error = error
            file.is_dirty = True


def _default_max_descriptors() -> int:
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit == resource.RLIM_INFINITY:
        return MOST_DESCRIPTORS
    return max(_FEWEST_DESCRIPTORS, min(soft_limit // 2, MOST_DESCRIPTORS))
