"""Open files of the real machine, and the bounded cache of their descriptors.

However many files are open, only so many hold a descriptor, those that were used of late; the
others get theirs back when they are used next.  Three rules keep that invisible:

- A file follows its name: renaming it, or a folder above it, renames it here too.
- A file that lost its name (removed, or replaced) keeps its descriptor until it is closed.
- A descriptor with unsynced writes is synced before it goes.  The kernel reports a failed
  write-back to the descriptors that are open at that time, and maybe to no one else.  It reports it
  *once* to each: so two syncs of a file at a time use two, and neither misses what the other saw.

A failed sync is never repeated: the kernel may drop pages that it could not write and call them
clean, so that a second `fsync` succeeds, and lies.  The file raises the error from then on.
"""

import errno
import os
import posixpath
import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

from ottla.ports import TOO_MANY_OPEN, Buffer, ColdReadError
from ottla.runtime.caching import PageCache, read_no_further
from ottla.runtime.syncing import sync_descriptor
from ottla.runtime.writeback import begin_writeback

FRESH_BYTES: Final = 16 * 1024 * 1024
"""What was among the last so many bytes written to a disk, or twice that, is taken to be in memory:
whoever reads at the end of a log need not ask."""

_NO_DESCRIPTOR: Final = -1
# What a file system says that cannot preallocate.
_CANNOT_ALLOCATE: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class RealFile:
    """See `ottla.ports.File`.  Belongs to the thread that opened it."""

    __slots__ = (
        "_fresh_position",
        "_fresh_until_bytes",
        "_modest_descriptor",
        "_open_files",
        "descriptor",
        "has_name",
        "is_closed",
        "is_dirty",
        "path",
        "pins",
        "sync_error",
        "was_used",
    )

    def __init__(self, open_files: "OpenFiles", path: str, descriptor: int) -> None:
        self._open_files = open_files
        self._fresh_position = sys.maxsize
        self._fresh_until_bytes = 0
        self._modest_descriptor = _NO_DESCRIPTOR  # the one that has nothing read ahead
        self.path = path
        self.descriptor = descriptor
        self.has_name = True
        self.is_closed = False
        self.is_dirty = False
        self.pins = 0
        """Syncs in flight: the descriptor must stay open."""
        self.sync_error: OSError | None = None
        self.was_used = True
        """Since a descriptor was last wanted for another file."""

    @property
    def gave_up_descriptor(self) -> bool:
        """Whether it is open without one: then all that was written to it has been synced."""
        return self.descriptor == _NO_DESCRIPTOR and not self.is_closed

    def size_bytes(self) -> int:
        return os.fstat(self._open_files.descriptor_of(self)).st_size

    def write(self, position: int, data: Buffer) -> None:
        descriptor = self.descriptor
        if descriptor == _NO_DESCRIPTOR or self.is_closed:
            descriptor = self._open_files.descriptor_of(self)
        self.was_used = self.is_dirty = True
        size_bytes = data.nbytes if isinstance(data, memoryview) else len(data)
        open_files = self._open_files
        open_files.written_bytes += size_bytes
        if open_files.written_bytes > self._fresh_until_bytes:
            self._fresh_position = position
            self._fresh_until_bytes = open_files.written_bytes + FRESH_BYTES
        written = os.pwrite(descriptor, data, position)
        while written < size_bytes:
            # Short: there is a signal, a limit for one call, or an error, which comes next.
            rest = memoryview(data).cast("B")[written:]
            count = os.pwrite(descriptor, rest, position + written)
            assert count > 0, (self.path, position, written, size_bytes)
            written += count

    def read(self, position: int, size_bytes: int) -> bytes:
        descriptor = self.descriptor
        if descriptor == _NO_DESCRIPTOR or self.is_closed:
            descriptor = self._open_files.descriptor_of(self)
        self.was_used = True
        open_files = self._open_files
        if open_files.is_hurried and (
            position < self._fresh_position
            or open_files.written_bytes > self._fresh_until_bytes + FRESH_BYTES
        ):
            self._refuse_to_wait(descriptor, position, size_bytes)
        data = os.pread(descriptor, size_bytes, position)
        if len(data) == size_bytes:
            return data
        # Short: either the file ends here, or one call does not give more.
        parts = [data]
        while data:
            position += len(data)
            size_bytes -= len(data)
            data = os.pread(descriptor, size_bytes, position)
            parts.append(data)
        return b"".join(parts)

    def _refuse_to_wait(self, descriptor: int, position: int, size_bytes: int) -> None:
        if descriptor != self._modest_descriptor:
            read_no_further(descriptor)
            self._modest_descriptor = descriptor
        if not self._open_files.cache.has(descriptor, position, size_bytes):
            raise ColdReadError(self.path, position, size_bytes)

    def truncate(self, size_bytes: int) -> None:
        descriptor = self._open_files.descriptor_of(self)
        self.is_dirty = True
        os.ftruncate(descriptor, size_bytes)

    def allocate(self, size_bytes: int) -> None:
        descriptor = self._open_files.descriptor_of(self)
        if os.fstat(descriptor).st_size >= size_bytes:
            return
        self.is_dirty = True
        if not preallocate(descriptor, 0, size_bytes):
            os.ftruncate(descriptor, size_bytes)

    def begin_writeback(self) -> None:
        if self.descriptor != _NO_DESCRIPTOR and not self.is_closed:
            begin_writeback(self.descriptor)

    def sync(self) -> None:
        descriptor = self._open_files.descriptor_of(self)
        self.refuse_if_a_sync_failed()
        try:
            sync_descriptor(descriptor)
        except OSError as error:
            self.sync_error = error
            raise
        self.is_dirty = False

    def close(self) -> None:
        """Let go of the file.  This syncs nothing: what was not synced may be lost."""
        if not self.is_closed:
            self.is_closed = True
            self._open_files.forget(self)

    def refuse_if_a_sync_failed(self) -> None:
        if self.sync_error is not None:
            reason = f"an earlier sync failed ({self.sync_error.strerror}): its data may be lost"
            raise OSError(self.sync_error.errno, reason, self.path) from self.sync_error


class OpenFiles:
    """Every open file below `root`, of which `max_descriptors` hold a descriptor at a time.

    Files with a sync in flight, and files without a name, cannot give theirs up; only with more
    than `max_descriptors` of these is the bound passed.
    """

    def __init__(self, root: str, max_descriptors: int) -> None:
        self._root = root
        self._max_descriptors = max_descriptors
        # The holders of a descriptor, in the order in which they may have to give it up.
        self._holders: OrderedDict[RealFile, None] = OrderedDict()
        # Files with a name, by folder and then by path; one path may be open several times.
        self._named: dict[str, dict[str, list[RealFile]]] = {}
        self.is_hurried = False
        """Whether reads must not wait for the device."""
        self.cache = PageCache()
        self.written_bytes = 0
        """Of all files together, since they were first opened."""
        # Of files that are synced twice at a time, beside the descriptor that they hold.
        self._extra: set[int] = set()

    @property
    def descriptor_count(self) -> int:
        return len(self._holders)

    def open(self, path: str, flags: int) -> RealFile:
        self._make_room()
        file = RealFile(self, path, self.descriptor_at(path, flags))
        self._holders[file] = None
        self._name(file, path)
        return file

    def descriptor_of(self, file: RealFile) -> int:
        """The descriptor of `file`, which is opened again if it had to give it up."""
        if file.is_closed:
            raise OSError(errno.EBADF, "the file is closed", file.path)
        if file.descriptor == _NO_DESCRIPTOR:
            self._make_room()
            file.descriptor = self.descriptor_at(file.path, os.O_RDWR)
            self._holders[file] = None
        file.was_used = True
        return file.descriptor

    def descriptor_at(self, path: str, flags: int) -> int:
        """A new descriptor, of a file or a folder; whoever asks closes it.

        If connections have all that the process may have, one of ours makes way: without that, who
        opens many connections would stop the broker.
        """
        while True:
            try:
                return os.open(os.path.join(self._root, path), flags, 0o666)
            except OSError as error:
                if error.errno not in TOO_MANY_OPEN or not self._let_one_go():
                    raise

    def at(self, path: str) -> Sequence[RealFile]:
        """The files that are open under the name `path`."""
        return tuple(self._named.get(posixpath.dirname(path), {}).get(path, ()))

    def hold(self, files: Sequence[RealFile]) -> None:
        """Give each of `files` a descriptor: their name is about to go."""
        for file in files:
            self.descriptor_of(file)

    def lost_name(self, files: Sequence[RealFile]) -> None:
        for file in files:
            self._unname(file)
            file.has_name = False

    def renamed(self, old: str, new: str) -> None:
        """`old`, a file or a folder, is now called `new`: so are the files at and below it."""
        files = list(self.at(old))
        if os.path.isdir(os.path.join(self._root, new)):  # seldom, and to look there takes a while
            files += self._below(old)
        for file in files:
            self._unname(file)
            self._name(file, new + file.path[len(old) :])

    def pin(self, file: RealFile) -> int:
        """A descriptor to sync `file` with, which nobody else syncs with until `unpin`."""
        descriptor = self.descriptor_of(file)
        if file.pins and file.has_name:  # without a name, no start will ever find it
            descriptor = self.descriptor_at(file.path, os.O_RDWR)
            self._extra.add(descriptor)
        file.pins += 1
        return descriptor

    def unpin(self, file: RealFile, descriptor: int) -> None:
        """The sync is over.  After `close_all` the number may be that of another file."""
        if descriptor in self._extra:
            self._extra.remove(descriptor)
            os.close(descriptor)
        if not file.pins:
            return
        file.pins -= 1
        if file.is_closed and not file.pins:
            self._close_descriptor(file)

    def forget(self, file: RealFile) -> None:
        """Drop a closed file; the end of a sync in flight will close its descriptor."""
        if file.has_name:
            self._unname(file)
        if not file.pins:
            self._close_descriptor(file)

    def close_all(self) -> None:
        """Close every file.  No sync may be in flight."""
        for file in [*self._holders, *self._below("")]:
            file.pins = 0
            file.close()
            self._close_descriptor(file)
        while self._extra:
            os.close(self._extra.pop())

    def _name(self, file: RealFile, path: str) -> None:
        file.path = path
        self._named.setdefault(posixpath.dirname(path), {}).setdefault(path, []).append(file)

    def _unname(self, file: RealFile) -> None:
        folder = posixpath.dirname(file.path)
        paths = self._named[folder]
        paths[file.path].remove(file)
        if not paths[file.path]:
            del paths[file.path]
        if not paths:
            del self._named[folder]

    def _below(self, folder: str) -> Iterator[RealFile]:
        inside = f"{folder}/" if folder else ""
        for name in [name for name in self._named if f"{name}/".startswith(inside)]:
            for files in list(self._named[name].values()):
                yield from list(files)

    def _make_room(self) -> None:
        if len(self._holders) >= self._max_descriptors:
            self._let_one_go()

    def _let_one_go(self) -> bool:
        """Let a file give up its descriptor, rather one with nothing to sync; whether one could.

        One that was used since it was last asked is spared once and asked again after all others:
        a use sets a flag and moves nothing, because there are many uses to one that lacks room.
        """
        oldest: RealFile | None = None
        for _ in range(2 * len(self._holders)):
            file = next(iter(self._holders))
            self._holders.move_to_end(file)
            if file.pins or not file.has_name:
                continue
            if file.was_used:
                file.was_used = False
            elif not file.is_dirty:
                self._close_descriptor(file)
                return True
            else:
                oldest = oldest or file
        if oldest is None:
            return False
        oldest.sync()
        self._close_descriptor(oldest)
        return True

    def _close_descriptor(self, file: RealFile) -> None:
        if file.descriptor != _NO_DESCRIPTOR:
            descriptor, file.descriptor = file.descriptor, _NO_DESCRIPTOR
            self._holders.pop(file, None)
            os.close(descriptor)


def preallocate(descriptor: int, position: int, size_bytes: int) -> bool:
    """Have blocks for a part of a file, which grows by it; False if the system cannot do that."""
    if not hasattr(os, "posix_fallocate"):
        return False
    try:
        os.posix_fallocate(descriptor, position, size_bytes)
    except OSError as error:
        if error.errno not in _CANNOT_ALLOCATE:
            raise
        return False
    return True
