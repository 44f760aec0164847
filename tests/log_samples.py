"""Batches, settings and readers for tests of the log.

Settings of a log have floors that keep users from hurting themselves; tests need segments of a few
hundred bytes, so these are set past the check.
"""

from collections.abc import Iterable

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.segment import LogRead
from ottla.records.batch import Batch, batches
from ottla.records.builder import BatchOptions, build
from ottla.testing.disk import SimDisk

FOLDER = "orders-0"
NOW_MS = 1_700_000_000_000
EPOCH = 3


def log_config(**settings: object) -> LogConfig:
    """Settings of which some are what no user may set."""
    config = LogConfig()
    for name, value in settings.items():
        assert hasattr(config, name), name
        object.__setattr__(config, name, value)
    return config


def batch_of(
    *values: bytes, timestamp_ms: int = NOW_MS, options: BatchOptions | None = None
) -> Batch:
    """A batch with one record for each value, a millisecond apart."""
    records = [(timestamp_ms + i, b"key", value, ()) for i, value in enumerate(values)]
    return Batch.parse(build(records, options or BatchOptions()))


def append_all(log: Log, values: Iterable[bytes], *, epoch: int = EPOCH) -> None:
    """Append a batch of one record for each value."""
    for value in values:
        log.append(batch_of(value), leader_epoch=epoch, now_ms=NOW_MS)


def open_log(disk: SimDisk | None = None, *, start_offset: int = 0, **settings: object) -> Log:
    """The log in `FOLDER`, as after a crash."""
    return Log.open(
        disk or SimDisk(),
        FOLDER,
        log_config(**settings),
        now_ms=NOW_MS,
        start_offset=start_offset,
    )


def log_of_segments(count: int, disk: SimDisk | None = None) -> Log:
    """Segments of two batches with one record each: 0-1, 2-3, ..., and the last one empty."""
    log = open_log(disk)
    for i in range(count):
        append_all(log, [b"%d" % (2 * i), b"%d" % (2 * i + 1)])
        log.roll(NOW_MS)
    return log


def names_in(disk: SimDisk) -> list[str]:
    """The names of the files of the log."""
    return disk.names(FOLDER) if disk.exists(FOLDER) else []


def read_all(log: Log, *, max_bytes: int = 300, below_offset: int | None = None) -> list[Batch]:
    """Every batch of the log, read piece by piece as a consumer would."""
    found: list[Batch] = []
    offset = log.start_offset
    end_offset = log.next_offset if below_offset is None else below_offset
    while offset < end_offset:
        part = log.read(offset, max_bytes, below_offset=below_offset)
        assert isinstance(part, LogRead), part
        if not part.data:
            break
        found += batches(part.data, partial_tail=False)
        assert part.next_offset > offset, part
        offset = part.next_offset
    return found


def values_in(log: Log) -> list[bytes | None]:
    """The values of all records from the log's start on."""
    return [
        value
        for batch in read_all(log)
        for offset, _, _, value, _ in batch.records()
        if offset >= log.start_offset
    ]
