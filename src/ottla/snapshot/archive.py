"""What is in a snapshot: a gzipped tar that other programs can look into, too.

    snapshot.json    first: which version, which cluster, which topics, how much follows
    data/...         the files of the data directory, byte by byte
    manifest.json    last: the size and SHA-256 of every file, and of snapshot.json

Nothing in it is trusted before it was compared with the manifest, and no name in it may lead out of
the folder that is restored.
"""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from ottla.errors import OttlaError
from ottla.values import dataclass

VERSION: Final = 1
HEADER: Final = "snapshot.json"
MANIFEST: Final = "manifest.json"
DATA: Final = "data"
MAX_TEXT_BYTES: Final = 256 * 1024 * 1024
"""How large header and manifest may be: a million files have some hundred bytes each."""
CHUNK_BYTES: Final = 1024 * 1024


class SnapshotError(OttlaError):
    """A snapshot cannot be taken, is damaged, or cannot be put where it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a snapshot is of."""

    ottla_version: str
    cluster_id: str
    created_ms: int
    was_clean: bool
    """Whether the broker was stopped in good order; else the next start recovers."""
    was_running: bool = False
    """Whether it was taken while the broker ran."""
    topics: Mapping[str, int]
    """Topic -> how many partitions it has."""
    file_count: int
    size_bytes: int

    def text(self) -> bytes:
        """As it is in the archive."""
        facts = {
            "version": VERSION,
            "ottla_version": self.ottla_version,
            "cluster_id": self.cluster_id,
            "created_ms": self.created_ms,
            "was_clean": self.was_clean,
            "was_running": self.was_running,
            "topics": dict(self.topics),
            "files": self.file_count,
            "bytes": self.size_bytes,
        }
        return json.dumps(facts, indent=2, sort_keys=True).encode()

    @classmethod
    def of_text(cls, text: bytes) -> "Header":
        """What `text` says.

        Raises:
            SnapshotError: It is not a header, or of a version that we do not know.
        """
        facts = _object(HEADER, text)
        if (version := facts.get("version")) != VERSION:
            raise SnapshotError(
                f"it is a snapshot of version {version}, and this program knows version {VERSION}"
            )
        try:
            return cls(
                ottla_version=str(facts["ottla_version"]),
                cluster_id=str(facts["cluster_id"]),
                created_ms=int(facts["created_ms"]),
                was_clean=bool(facts["was_clean"]),
                was_running=bool(facts.get("was_running", False)),
                topics={str(name): int(count) for name, count in facts["topics"].items()},
                file_count=int(facts["files"]),
                size_bytes=int(facts["bytes"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SnapshotError(f"{HEADER} in it cannot be read: {error!r}") from error


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a file must be like."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All files of a snapshot, by their paths in the data directory."""

    header_sha256: str
    files: Mapping[str, FileFacts]

    def text(self) -> bytes:
        """As it is in the archive."""
        files = {path: [facts.size_bytes, facts.sha256] for path, facts in self.files.items()}
        return json.dumps({"header": self.header_sha256, "files": files}, sort_keys=True).encode()

    @classmethod
    def of_text(cls, text: bytes) -> "Manifest":
        """What `text` says.

        Raises:
            SnapshotError: It is not a manifest.
        """
        facts = _object(MANIFEST, text)
        try:
            files = {
                str(path): FileFacts(int(size_bytes), str(sha256))
                for path, (size_bytes, sha256) in facts["files"].items()
            }
            return cls(str(facts["header"]), files)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SnapshotError(f"{MANIFEST} in it cannot be read: {error!r}") from error


def inner_path(name: str) -> str:
    """Where in the data directory a member of the archive belongs; "" is the directory itself.

    Raises:
        SnapshotError: It would lie elsewhere.
    """
    path = PurePosixPath(name)
    is_inside = not path.is_absolute() and path.parts[:1] == (DATA,) and ".." not in path.parts
    if not is_inside or "\\" in name or "\0" in name:
        raise SnapshotError(f"{name!r} in it does not belong into a data directory")
    return "/".join(path.parts[1:])


def _object(name: str, text: bytes) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except ValueError as error:
        raise SnapshotError(f"{name} in it cannot be read: {error}") from error
    if not isinstance(facts, dict):
        raise SnapshotError(f"{name} in it cannot be read: it is no object")
    return facts
