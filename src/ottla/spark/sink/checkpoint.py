"""What Spark keeps of a query, as far as the sink needs it: read only, from any file system.

`<checkpoint>/metadata` has the id of the query, and `<checkpoint>/offsets/<batch>` where each of
its sources ends in a batch.  Spark writes the latter before the batch begins, and reads it again if
the batch has to be repeated.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import ConfigError
from ottla.model import TopicPartition
from ottla.spark.offsets import CheckpointError, SourceOffset, is_source_offset
from ottla.spark.sink.decisions import digest

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_VERSION_LINE: Final = "v1"
_HEADER_LINES: Final = 2
_NO_OFFSET: Final = "-"
_HADOOP_SCHEMES: Final = {"file": "file", "s3a": "s3", "s3n": "s3"}
"""How Hadoop writes a place -> how pyarrow does; the former has one slash for files."""


class UnreadableError(ConfigError):
    """The checkpoint is where only Java can read."""


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """Where the sources of a query end in a batch."""

    lines: Sequence[str]

    @property
    def digest(self) -> str:
        return digest(self.lines)

    def groups(self, cluster_id: str | None) -> dict[str, dict[TopicPartition, int]]:
        """Consumer group -> offsets, of those sources that read the cluster we write to.

        Offsets of another cluster cannot be part of a transaction here: the source commits those.
        """
        found: dict[str, dict[TopicPartition, int]] = {}
        for line in self.lines:
            if line == _NO_OFFSET or not is_source_offset(told := _json(line)):
                continue
            offset = SourceOffset.parse(told)
            if offset.group and offset.cluster in ("", cluster_id):
                found.setdefault(offset.group, {}).update(offset.positions)
        return found


def query_id(location: str) -> str:
    """The id of the query that has this checkpoint.

    Raises:
        CheckpointError: There is no such checkpoint.
        UnreadableError: It is where only Java can read.
    """
    try:
        told = _json(_read(location, "metadata"))
        return str(told["id"])
    except (KeyError, TypeError, OSError) as error:
        raise CheckpointError(f"{location} is no checkpoint of a query: {error!r}") from None


def batch_offsets(location: str, batch_id: int) -> BatchOffsets:
    """What Spark wrote down about a batch.

    Raises:
        CheckpointError: It has not, or in a form that we do not know.
        UnreadableError: It is where only Java can read.
    """
    name = f"offsets/{batch_id}"
    try:
        lines = _read(location, name).splitlines()
    except OSError as error:
        raise CheckpointError(f"{location} has no {name}: {error!r}") from None
    if not lines or lines[0] != _VERSION_LINE:
        raise CheckpointError(
            f"{location}/{name} is of a version that this sink does not know: {lines[:1]}"
        )
    return BatchOffsets(tuple(lines[_HEADER_LINES:]))


def _read(location: str, name: str) -> str:
    system, root = _opened(location)
    with system.open_input_stream(f"{root}/{name}") as file:
        return bytes(file.read()).decode()


def _opened(location: str) -> "tuple[FileSystem, str]":
    from pyarrow import fs

    scheme, colon, rest = location.partition(":")
    if colon and scheme in _HADOOP_SCHEMES:
        location = f"{_HADOOP_SCHEMES[scheme]}://{rest.removeprefix('//')}"
    try:
        system, root = fs.FileSystem.from_uri(location)
    except (ValueError, OSError) as error:
        raise UnreadableError(
            f"checkpointLocation = {location!r} cannot be read from Python: {error}"
        ) from None
    return system, root.rstrip("/")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


Groups = Mapping[str, Mapping[TopicPartition, int]]
