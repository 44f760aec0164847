"""Makes a data directory of a snapshot, or finds out that it could not be made.

Files are written into a folder beside the target, and compared with the manifest; only when all of
them are right and on disk does the folder get the target's name.  A broker can never be started on
half of a snapshot.
"""

import gzip
import hashlib
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, Protocol

from ottla.snapshot.archive import (
    CHUNK_BYTES,
    HEADER,
    MANIFEST,
    MAX_TEXT_BYTES,
    FileFacts,
    Header,
    Manifest,
    SnapshotError,
    inner_path,
)
from ottla.snapshot.taking import Advance, sync_folder

_ZEROS: Final = bytes(CHUNK_BYTES)
_DAMAGES: Final = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error)


class Place(Protocol):
    """Where files of a snapshot go."""

    def make_folder(self, path: str, mode: int) -> None: ...

    def write(self, path: str, chunks: Iterator[bytes], info: tarfile.TarInfo) -> None: ...


class Nowhere:
    """For who only wants to know whether a snapshot is whole."""

    def make_folder(self, path: str, mode: int) -> None:
        """Make nothing."""

    def write(self, path: str, chunks: Iterator[bytes], info: tarfile.TarInfo) -> None:
        """Read it."""
        for _ in chunks:
            pass


class Folder:
    """A folder on disk; `sync` is what has the content of a descriptor there."""

    def __init__(self, root: Path, sync: Callable[[int], None] = os.fsync) -> None:
        self._root = root
        self._sync = sync
        self._modes = {root: 0o755}

    def make_folder(self, path: str, mode: int) -> None:
        """Make one in it; "" is itself."""
        if path:
            (self._root / path).mkdir()
        self._modes[self._root / path] = mode & 0o777

    def write(self, path: str, chunks: Iterator[bytes], info: tarfile.TarInfo) -> None:
        """Write a file, and have it on disk; where there are only zeros, nothing is written."""
        with (self._root / path).open("xb") as file:
            for chunk in chunks:
                if chunk == _ZEROS[: len(chunk)]:
                    file.seek(len(chunk), os.SEEK_CUR)
                else:
                    file.write(chunk)
            file.truncate(info.size)
            file.flush()
            os.fchmod(file.fileno(), info.mode & 0o777)
            os.utime(file.fileno(), (info.mtime, info.mtime))
            self._sync(file.fileno())

    def finish(self) -> None:
        """Have the names on disk, too, and let in whoever was let in before."""
        for folder, mode in self._modes.items():
            folder.chmod(mode)
            sync_folder(folder)


def read_header(file: Path) -> Header:
    """What a snapshot is of, without reading the rest.

    Raises:
        SnapshotError: It is none.
    """
    with _opened(file, is_whole=False) as tar:
        return _header(tar)[0]


def check(file: Path, advance: Advance = lambda amount: None) -> Header:
    """Read all of a snapshot, and compare it with its manifest.

    Raises:
        SnapshotError: It is damaged.
    """
    return _unpack(file, lambda header: Nowhere(), advance)


def restore(file: Path, data_dir: Path, advance: Advance = lambda amount: None) -> Header:
    """Make `data_dir` of a snapshot.

    Raises:
        SnapshotError: It is damaged, or there is something at `data_dir`.  Then nothing is changed.
    """
    check_free(data_dir)
    parent = data_dir.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{data_dir.name}.restoring-", dir=parent))
    folder = Folder(temporary)

    def begin(header: Header) -> Folder:
        free_bytes = shutil.disk_usage(parent).free
        if header.size_bytes > free_bytes:
            raise SnapshotError(
                f"it needs up to {header.size_bytes:,} bytes, and {parent} has {free_bytes:,} free"
            )
        return folder

    try:
        header = _unpack(file, begin, advance)
        folder.finish()
        check_free(data_dir)
        os.rename(temporary, data_dir)  # over an empty folder, too, and over nothing else
    except BaseException:
        shutil.rmtree(temporary)
        raise
    sync_folder(parent)
    return header


def check_free(data_dir: Path) -> None:
    """Refuse a place where something is.

    Raises:
        SnapshotError: There is.
    """
    if data_dir.is_dir() and not data_dir.is_symlink():
        if any(data_dir.iterdir()):
            raise SnapshotError(f"{data_dir} is not empty")
    elif data_dir.exists() or data_dir.is_symlink():
        raise SnapshotError(f"{data_dir} exists, and is no folder")


def _unpack(file: Path, begin: Callable[[Header], Place], advance: Advance) -> Header:
    with _opened(file, is_whole=True) as tar:
        header, header_sha256 = _header(tar)
        place = begin(header)
        files: dict[str, FileFacts] = {}
        left_bytes = header.size_bytes
        while (member := tar.next()) is not None:
            if member.name == MANIFEST:
                _compare(_text(tar, member), header_sha256, files)
                return header
            path = inner_path(member.name)
            if member.isdir():
                place.make_folder(path, member.mode)
                continue
            left_bytes -= member.size
            if not member.isreg() or not path or path in files or left_bytes < 0:
                raise SnapshotError(f"{member.name!r} in it is not what a snapshot has there")
            read = _Read(_content(tar, member), advance)
            place.write(path, iter(read), member)
            files[path] = FileFacts(member.size, read.sha256)
    raise SnapshotError(f"it ends after {len(files)} of {header.file_count} files")


@contextmanager
def _opened(file: Path, *, is_whole: bool) -> Iterator[tarfile.TarFile]:
    """The archive; what is wrong with it comes as `SnapshotError` that names the file."""
    try:
        with gzip.open(file, "rb") as unpacked:
            with tarfile.open(fileobj=unpacked, mode="r|") as tar:
                yield tar
            while is_whole and unpacked.read(CHUNK_BYTES):
                pass  # behind the last byte is the checksum of all of them
    except SnapshotError as error:
        raise SnapshotError(f"{file}: {error}") from error
    except _DAMAGES as error:
        raise SnapshotError(f"{file}: it is no snapshot, or damaged: {error}") from error


def _header(tar: tarfile.TarFile) -> tuple[Header, str]:
    member = tar.next()
    if member is None or member.name != HEADER:
        raise SnapshotError(f"it is no snapshot: it does not begin with {HEADER}")
    text = _text(tar, member)
    return Header.of_text(text), hashlib.sha256(text).hexdigest()


def _compare(text: bytes, header_sha256: str, files: dict[str, FileFacts]) -> None:
    manifest = Manifest.of_text(text)
    if manifest.header_sha256 != header_sha256:
        raise SnapshotError(f"{HEADER} is damaged: it has another checksum than {MANIFEST} says")
    for path, facts in manifest.files.items():
        if path not in files:
            raise SnapshotError(f"{path} is missing")
        if files[path] != facts:
            raise SnapshotError(f"{path} is damaged: it has another checksum than {MANIFEST} says")
    for path in files:
        if path not in manifest.files:
            raise SnapshotError(f"{path} is not in {MANIFEST}")


def _text(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    if member.size > MAX_TEXT_BYTES:
        raise SnapshotError(f"{member.name} in it has {member.size:,} bytes")
    return _content(tar, member).read()


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(member) if member.isreg() else None
    if content is None:
        raise SnapshotError(f"{member.name!r} in it is not a file")
    return content


class _Read:
    """The content of a file in pieces, and what it adds up to."""

    def __init__(self, file: IO[bytes], advance: Advance) -> None:
        self._file = file
        self._advance = advance
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[bytes]:
        while chunk := self._file.read(CHUNK_BYTES):
            self._hash.update(chunk)
            self._advance(len(chunk))
            yield chunk
