"""The names of a log's files, as Kafka has them.

A segment's files share the 20 digits of its base offset and differ in their suffix.  A second
suffix says that a file is not, or no longer, part of the log: `.deleted` waits to be removed,
`.cleaned` is being written by compaction, `.swap` is complete and takes the place of others.
"""

from collections.abc import Iterable
from typing import Final

from ottla.ports import Disk, File
from ottla.values import NamedTuple

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"

SEGMENT_KINDS: Final = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, LOG)
"""What belongs to a segment.  The log comes last: it is renamed last, and so seals the rename."""

DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
TEMPORARY: Final = ".tmp"

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEANED_OFFSETS: Final = "cleaner-offset-checkpoint"
"""Up to where compaction has cleaned each partition."""
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
META_PROPERTIES: Final = "meta.properties"
FROZEN: Final = ".frozen"
"""The folder of second names that a snapshot of a running broker is made from."""

_DIGITS: Final = 20
_KINDS: Final = frozenset((*SEGMENT_KINDS, SNAPSHOT))
_STATES: Final = frozenset(("", DELETED, CLEANED, SWAP))


class LogFile(NamedTuple):
    """What a file's name says: which segment, which of its files, and in which state."""

    base_offset: int
    kind: str
    state: str = ""

    @property
    def name(self) -> str:
        return f"{self.base_offset:020d}{self.kind}{self.state}"


def path_of(folder: str, base_offset: int, kind: str, state: str = "") -> str:
    """Where a file of a segment lies."""
    return f"{folder}/{base_offset:020d}{kind}{state}"


def parse_name(name: str) -> LogFile | None:
    """What the name of a file says, or `None` where it is none of a segment's."""
    digits, dot, rest = name.partition(".")
    if len(digits) != _DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    kind, _, state = rest.partition(".")
    file = LogFile(int(digits), dot + kind, f".{state}" if state else "")
    return file if file.kind in _KINDS and file.state in _STATES else None


def rewritten(disk: Disk, path: str, data: bytes) -> File:
    """A file with nothing but `data` in it.  It still needs a sync, and its folder too.

    After an `OSError` it may have anything in it, and is closed: on a full disk there is a next try
    with every request.
    """
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.write(0, data)
    except OSError:
        file.close()
        raise
    return file


def close_all(opened: Iterable[File]) -> None:
    """Let go of files whose content does not matter."""
    for file in opened:
        file.close()


def folder_of(topic: str, partition: int) -> str:
    """The folder of a partition."""
    return f"{topic}-{partition}"
