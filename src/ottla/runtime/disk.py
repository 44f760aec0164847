"""Files in a folder of the real machine.

Everything but `sync_files` and `sync_folder_aside` runs inline: it touches the page cache, which is
quicker than any hand-over to a thread.  `files` keeps the number of descriptors bounded, `syncing`
waits for the disk.
"""

import fcntl
import os
import resource
from collections.abc import Iterable
from typing import Final

from ottla.ports import File
from ottla.runtime.files import OpenFiles, RealFile
from ottla.runtime.paths import path_parts
from ottla.runtime.syncing import Errors, SyncThread

MOST_DESCRIPTORS: Final = 16_384
"""Descriptors that a disk holds at most, even where the process may have many more."""

_FEWEST_DESCRIPTORS: Final = 16
_LOCK_NAME: Final = ".lock"


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
        self._sync_thread = SyncThread()
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

    def remove(self, path: str) -> None:
        absolute = self._absolute(path)
        removed = self._open_files.at(path)
        self._open_files.hold(removed)
        os.unlink(absolute)
        self._open_files.lost_name(removed)

    def sync_folder(self, path: str) -> None:
        _sync_folder_at(self._absolute(path))

    async def sync_files(self, files: Iterable[File]) -> None:
        """As the port says.  If the caller is canceled, what it asked for still takes place."""
        group: list[RealFile] = []
        descriptors: list[int] = []
        try:
            for file in files:
                assert isinstance(file, RealFile), file
                descriptors.append(self._open_files.pin(file))
                group.append(file)
                file.refuse_if_a_sync_failed()
        except BaseException:
            self._unpin(group)
            raise

        def done(errors: Errors) -> None:
            for file, error in zip(group, errors, strict=True):
                if error is not None:
                    file.sync_error = error
                    file.is_dirty = True
            self._unpin(group)

        for file in group:
            # Now, not at the end: what is written meanwhile needs another sync.
            file.is_dirty = False
        if group:
            await self._sync_thread.sync(descriptors, done)

    async def sync_folder_aside(self, path: str) -> None:
        """As the port says.  It is the folder that has this name now, whatever it is called later.

        If the caller is canceled, what it asked for still takes place.
        """
        descriptor = os.open(self._absolute(path), os.O_RDONLY | os.O_DIRECTORY)
        # Not `fdatasync`: that need not bring names to disk where the folder does not grow.
        await self._sync_thread.sync([descriptor], lambda errors: os.close(descriptor), os.fsync)

    def free_bytes(self) -> int:
        status = os.statvfs(self._root)
        return status.f_bavail * status.f_frsize

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
        self._sync_thread.stop()
        self._open_files.close_all()
        self.unlock()

    def _absolute(self, path: str) -> str:
        return os.path.join(self._root, *path_parts(path))

    def _unpin(self, files: Iterable[RealFile]) -> None:
        for file in files:
            self._open_files.unpin(file)


def _default_max_descriptors() -> int:
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit == resource.RLIM_INFINITY:
        return MOST_DESCRIPTORS
    return max(_FEWEST_DESCRIPTORS, min(soft_limit // 2, MOST_DESCRIPTORS))


def _sync_folder_at(absolute: str) -> None:
    descriptor = os.open(absolute, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
