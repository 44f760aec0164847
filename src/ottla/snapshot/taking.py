"""Takes a snapshot of a data directory: of a broker that is stopped, or of one that runs.

A broker that is stopped cannot start meanwhile: its directory is locked.  One that runs makes a
copy of it as it is at one moment, of second names for its files, and lets go of it in the end.
Room that segments have reserved is zeros, of which compression leaves nothing.
"""

import asyncio
import gzip
import hashlib
import io
import os
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from ottla import __version__
from ottla.cluster.image import ClusterImage
from ottla.cluster.layout import read_image
from ottla.cluster.store.sqlite import METADATA_FILE, SqliteStore
from ottla.log.files import CLEAN_SHUTDOWN, FROZEN
from ottla.runtime.control import CONTROL_SOCKET, connect
from ottla.runtime.disk import RealDisk
from ottla.runtime.reserve import RESERVE_FILE
from ottla.snapshot.archive import (
    DATA,
    HEADER,
    MANIFEST,
    FileFacts,
    Header,
    Manifest,
    SnapshotError,
)
from ottla.snapshot.control import FREEZE, MAX_ANSWER_BYTES, RELEASE, read_answer

COMPRESSION_LEVEL: Final = 1
"""Records are often compressed already: what is left to gain is quickly gained."""
LEFT_OUT: Final = frozenset({".lock", CONTROL_SOCKET, FROZEN, RESERVE_FILE, f"{METADATA_FILE}-shm"})
"""What belongs to a running process, or was left by one that was killed."""
PATIENCE_S: Final = 300.0
"""How long a broker may take for its copy: it has a second for some ten thousand partitions."""

Advance = Callable[[int], None]
"""Takes how many bytes more are done."""


class DataDirectory:
    """A data directory that nobody changes now, and what is to be taken of it."""

    def __init__(
        self,
        data_dir: Path,
        *,
        ends: Mapping[str, int] | None = None,
        confirm: Callable[[], None] = lambda: None,
    ) -> None:
        """`ends` is of a copy that a running broker made: how much of these files counts.

        `confirm` raises if it is not what it should be any more; it is called at the end.
        """
        image = _image(data_dir)
        self._data_dir = data_dir
        self._confirm = confirm
        self._folders, found = _found(data_dir)
        limits = ends or {}
        self._files = [(path, limits.get(path, size_bytes)) for path, size_bytes in found]
        self.header = Header(
            ottla_version=__version__,
            cluster_id=image.cluster_id,
            created_ms=time.time_ns() // 1_000_000,
            was_clean=(data_dir / CLEAN_SHUTDOWN).exists(),
            was_running=ends is not None,
            topics={name: len(topic.partitions) for name, topic in sorted(image.topics.items())},
            file_count=len(self._files),
            size_bytes=sum(size_bytes for _, size_bytes in self._files),
        )

    def write(self, file: Path, advance: Advance = lambda amount: None) -> int:
        """Write the snapshot; how large it is.  Whatever had the name before is replaced.

        Raises:
            OSError: There is no room, or no such folder.  Then nothing is left behind.
            SnapshotError: The broker ended meanwhile.  Neither then.
        """
        folder = file.absolute().parent
        descriptor, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=folder)
        try:
            with open(descriptor, "wb") as raw:
                with (
                    gzip.GzipFile(
                        filename="", fileobj=raw, mode="wb", compresslevel=COMPRESSION_LEVEL
                    ) as packed,
                    tarfile.open(fileobj=packed, mode="w") as tar,
                ):
                    self._fill_or_say_why(tar, advance)
                raw.flush()
                os.fsync(raw.fileno())
                size_bytes = raw.tell()
            self._confirm()
            os.replace(temporary, file)
        except BaseException:
            os.unlink(temporary)
            raise
        sync_folder(folder)
        return size_bytes

    def _fill_or_say_why(self, tar: tarfile.TarFile, advance: Advance) -> None:
        try:
            self._fill(tar, advance)
        except OSError:
            self._confirm()  # files that are gone went with the broker, and that is the reason
            raise

    def _fill(self, tar: tarfile.TarFile, advance: Advance) -> None:
        header = self.header.text()
        _add(tar, HEADER, header, self.header.created_ms)
        tar.add(self._data_dir, DATA, recursive=False)
        for path in self._folders:
            tar.add(self._data_dir / path, f"{DATA}/{path}", recursive=False)
        files: dict[str, FileFacts] = {}
        for path, size_bytes in self._files:
            with (self._data_dir / path).open("rb") as content:
                info = tar.gettarinfo(arcname=f"{DATA}/{path}", fileobj=content)
                info.size = size_bytes
                read = _Read(content, advance)
                tar.addfile(info, read)  # type: ignore[arg-type]  # it needs `read` and no more
                files[path] = FileFacts(size_bytes, read.sha256)
        manifest = Manifest(hashlib.sha256(header).hexdigest(), files)
        _add(tar, MANIFEST, manifest.text(), self.header.created_ms)


@contextmanager
def broker_data(data_dir: Path) -> Iterator[DataDirectory]:
    """What is to be taken of a broker, whether it runs or not.

    Raises:
        BlockingIOError: It runs, and cannot be asked.
        SnapshotError: It is no data directory, or the broker refuses.
    """
    with ExitStack() as stack:
        try:
            data = stack.enter_context(stopped_broker(data_dir))
        except BlockingIOError as in_use:
            data = stack.enter_context(running_broker(data_dir, in_use))
        yield data


@contextmanager
def stopped_broker(data_dir: Path) -> Iterator[DataDirectory]:
    """Claim the data directory of a broker that does not run.

    Raises:
        BlockingIOError: Somebody uses it.
        SnapshotError: It is none.
    """
    if not (data_dir / METADATA_FILE).is_file():
        raise SnapshotError(f"{data_dir} is not a data directory: it has no {METADATA_FILE}")
    disk = RealDisk(data_dir)
    try:
        disk.lock()
        yield DataDirectory(data_dir)
    finally:
        disk.unlock()
        disk.close()


@contextmanager
def running_broker(data_dir: Path, in_use: BlockingIOError) -> Iterator[DataDirectory]:
    """Have the broker that runs in `data_dir` make a copy, and let go of it in the end.

    Raises:
        BlockingIOError: `in_use`, if nobody listens there.
        SnapshotError: The broker refuses.
    """
    try:
        connection = connect(str(data_dir), timeout_s=PATIENCE_S)
    except OSError as error:
        raise in_use from error
    with connection, connection.makefile("rb") as answers:

        def ask(question: bytes) -> dict[str, Any]:
            connection.sendall(question)
            return read_answer(answers.readline(MAX_ANSWER_BYTES))

        def confirm() -> None:
            try:
                ask(RELEASE)
            except ConnectionError as error:
                raise SnapshotError("the broker ended meanwhile, or was stopped") from error

        frozen = ask(FREEZE)
        yield DataDirectory(data_dir / frozen["folder"], ends=frozen["ends"], confirm=confirm)


def write_frozen(data_dir: str, ends: Mapping[str, int], file: str | os.PathLike[str]) -> None:
    """Write a snapshot of the copy that a broker in this process has made."""
    DataDirectory(Path(data_dir) / FROZEN, ends=ends).write(Path(file))


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _image(data_dir: Path) -> ClusterImage:
    store = SqliteStore(str(data_dir / METADATA_FILE))
    try:
        return read_image(asyncio.run(store.scan("")).entries, controller_id=-1)
    finally:
        store.close()


def _found(data_dir: Path) -> tuple[list[str], list[tuple[str, int]]]:
    """The folders in a data directory, and its files with their sizes; by path."""
    folders: list[str] = []
    files: list[tuple[str, int]] = []
    for parent, names, found in os.walk(data_dir, onerror=_raise):
        place = Path(parent)
        names[:] = sorted(name for name in names if name not in LEFT_OUT)
        for name in [*names, *found]:
            if (place / name).is_symlink():
                raise SnapshotError(
                    f"{place / name} is a symbolic link, and what it leads to would be missing"
                )
        folders += [(place / name).relative_to(data_dir).as_posix() for name in names]
        for name in sorted(found):
            if name not in LEFT_OUT:
                path = place / name
                files.append((path.relative_to(data_dir).as_posix(), path.stat().st_size))
    return folders, files


def _raise(error: OSError) -> None:
    raise error


def _add(tar: tarfile.TarFile, name: str, text: bytes, created_ms: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = len(text), created_ms // 1000, 0o644
    tar.addfile(info, io.BytesIO(text))


class _Read:
    """A file that notes what is read of it."""

    def __init__(self, file: BinaryIO, advance: Advance) -> None:
        self._file = file
        self._advance = advance
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def read(self, size_bytes: int) -> bytes:
        data = self._file.read(size_bytes)
        self._hash.update(data)
        self._advance(len(data))
        return data
