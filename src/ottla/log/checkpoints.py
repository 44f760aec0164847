"""The small text files beside the logs, in Kafka's formats.

Each is replaced as a whole: written under a temporary name, synced, renamed, and the folder
synced, so that a crash leaves the old content or the new one.  `StorageError` tells of a file whose
content is neither.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from ottla.errors import StorageError
from ottla.log import files
from ottla.ports import Disk

_VERSION: Final = "0"
_TOPIC_ID_BYTES: Final = 16

Entry = TypeVar("Entry")


def replace_file(disk: Disk, path: str, data: bytes) -> None:
    """Make `data` the content of `path`, all or nothing, and durable."""
    temporary = path + files.TEMPORARY
    file = disk.open(temporary, create=True)
    try:
        file.truncate(0)
        file.write(0, data)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_folder(path.rpartition("/")[0])


def read_file(disk: Disk, path: str) -> bytes | None:
    """The content of `path`, or `None` where there is no such file."""
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        return file.read(0, file.size_bytes())
    finally:
        file.close()


def write_lines(disk: Disk, path: str, lines: Iterable[str]) -> None:
    """Write a checkpoint: version, number of lines, lines."""
    entries = tuple(lines)
    text = "\n".join((_VERSION, str(len(entries)), *entries))
    replace_file(disk, path, f"{text}\n".encode())


def read_lines(disk: Disk, path: str, parse: Callable[[str], Entry]) -> list[Entry]:
    """Read a checkpoint; one that does not exist, or has no content yet, has no entries.

    Raises:
        StorageError: The content is not what `write_lines` writes, or `parse` raises ValueError.
    """
    lines = _text(path, read_file(disk, path) or b"").splitlines()
    if not lines:
        return []
    version, *rest = lines
    if version != _VERSION:
        raise StorageError(f"{path} has version {version!r}; this program reads version 0")
    if not rest:
        return []
    count, *entries = rest
    if count != str(len(entries)):
        raise StorageError(f"{path} announces {count} entries and has {len(entries)}")
    try:
        return [parse(entry) for entry in entries]
    except ValueError as error:
        raise StorageError(f"{path} has a line that cannot be read: {error}") from error


def _text(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise StorageError(f"{path} is no text: {error}") from error


TopicPartitionKey = tuple[str, int]


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartitionKey, int]) -> None:
    """Write the recovery points or the start offsets of all partitions of a data directory."""
    lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
    write_lines(disk, path, lines)


def read_offsets(disk: Disk, path: str) -> dict[TopicPartitionKey, int]:
    """What `write_offsets` wrote; empty where it never did.

    Raises:
        StorageError: The file cannot be read as such.
    """
    return dict(read_lines(disk, path, _parse_offset))


def _parse_offset(line: str) -> tuple[TopicPartitionKey, int]:
    match line.split():
        case [topic, partition, offset]:
            return (topic, _natural(partition)), _natural(offset)
        case _:
            raise ValueError(f"{line!r} is not a topic, a partition and an offset")


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a number")
    return int(text)


def write_epochs(disk: Disk, folder: str, entries: Iterable[tuple[int, int]]) -> None:
    """Write the leader epochs of a partition, each with the offset at which it began."""
    lines = (f"{epoch} {start_offset}" for epoch, start_offset in entries)
    write_lines(disk, f"{folder}/{files.LEADER_EPOCHS}", lines)


def read_epochs(disk: Disk, folder: str) -> list[tuple[int, int]]:
    """What `write_epochs` wrote; empty where it never did.

    Raises:
        StorageError: The file cannot be read as such.
    """
    return read_lines(disk, f"{folder}/{files.LEADER_EPOCHS}", _parse_epoch)


def _parse_epoch(line: str) -> tuple[int, int]:
    match line.split():
        case [epoch, start_offset]:
            return _natural(epoch), _natural(start_offset)
        case _:
            raise ValueError(f"{line!r} is not an epoch and an offset")


def write_topic_id(disk: Disk, folder: str, topic_id: bytes) -> None:
    """Say in the folder of a partition to which topic it belongs, whatever its name.

    Not durable by itself: a topic may have thousands of partitions, and metadata knows it too.
    """
    assert len(topic_id) == _TOPIC_ID_BYTES, topic_id
    text = base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()
    file = disk.open(f"{folder}/{files.PARTITION_METADATA}", create=True)
    try:
        file.truncate(0)
        file.write(0, f"version: {_VERSION}\ntopic_id: {text}".encode())
    finally:
        file.close()


def read_topic_id(disk: Disk, folder: str) -> bytes | None:
    """The topic id in the folder of a partition, or `None` where nobody wrote one.

    Raises:
        StorageError: The file cannot be read as such.
    """
    path = f"{folder}/{files.PARTITION_METADATA}"
    data = read_file(disk, path)
    if data is None:
        return None
    pairs = (line.partition(":") for line in _text(path, data).splitlines())
    fields = {name.strip(): value.strip() for name, _, value in pairs}
    if fields.get("version") != _VERSION:
        raise StorageError(f"{path} has version {fields.get('version')!r}, not 0")
    try:
        topic_id = base64.b64decode(
            fields.get("topic_id", "") + "==", altchars=b"-_", validate=True
        )
    except binascii.Error as error:
        raise StorageError(f"{path} has a topic id that is no base64: {error}") from error
    if len(topic_id) != _TOPIC_ID_BYTES:
        raise StorageError(f"{path} has a topic id of {len(topic_id)} bytes, not 16")
    return topic_id


def mark_clean_shutdown(disk: Disk, broker_epoch: int) -> None:
    """Say that every log was closed cleanly.  Write it last, after all else is durable."""
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    replace_file(disk, files.CLEAN_SHUTDOWN, text.encode())


def had_clean_shutdown(disk: Disk) -> bool:
    """Whether the mark is there.  Its content is not asked: older Kafka versions leave it empty."""
    return disk.exists(files.CLEAN_SHUTDOWN)


def write_properties(disk: Disk, path: str, properties: Mapping[str, str]) -> None:
    """Write a file such as `meta.properties`: one `name=value` a line."""
    for name, value in properties.items():
        if "=" in name or "\n" in name + value:
            raise ValueError(f"{name!r} = {value!r} cannot be written as a property")
    text = "".join(f"{name}={value}\n" for name, value in sorted(properties.items()))
    replace_file(disk, path, text.encode())


def read_properties(disk: Disk, path: str) -> dict[str, str] | None:
    """What `write_properties` wrote, or `None` where it never did.  Comments are left out.

    Raises:
        StorageError: A line is neither a property nor a comment.
    """
    data = read_file(disk, path)
    if data is None:
        return None
    properties = {}
    for line in _text(path, data).splitlines():
        if not line.strip() or line.startswith(("#", "!")):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise StorageError(f"{path} has a line that is no property: {line!r}")
        properties[name.strip()] = value.strip()
    return properties
