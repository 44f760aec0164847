"""Logs to compact, and ways to compact them, for tests."""

from collections.abc import Iterable

from ottla.log.compaction import Compaction, Dirtiness, survey
from ottla.log.config import CleanerConfig, LogConfig
from ottla.log.log import Log
from ottla.ports import Disk
from ottla.records.batch import (
    MAX_DECOMPRESSED_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Batch,
)
from ottla.records.builder import BatchOptions, build
from ottla.records.compression import Compression
from ottla.records.control import Marker, build_marker
from ottla.records.shapes import Decoded
from ottla.testing.disk import SimDisk
from tests.log_samples import EPOCH, NOW_MS, log_config, read_all

FOLDER = "users-0"
HOUR_MS = 3_600_000
Pair = tuple[bytes | None, bytes | None]
"""Key and value of a record."""


def compacted_config(**settings: object) -> LogConfig:
    given: dict[str, object] = {
        "cleanup_policy": ("compact",),
        "segment_bytes": 400,
        "index_interval_bytes": 100,
        "delete_retention_ms": HOUR_MS,
        **settings,
    }
    return log_config(**given)


def open_log(disk: Disk, config: LogConfig | None = None) -> Log:
    return Log.open(disk, FOLDER, config or compacted_config(), now_ms=NOW_MS)


def new_log(**settings: object) -> tuple[SimDisk, Log]:
    """An empty log, on a disk of its own."""
    disk = SimDisk()
    return disk, open_log(disk, compacted_config(**settings))


def put(
    log: Log,
    *pairs: Pair,
    producer_id: int = NO_PRODUCER_ID,
    sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    compression: Compression = Compression.NONE,
    timestamp_ms: int = NOW_MS,
) -> int:
    """Append one batch of records: its base offset."""
    options = BatchOptions(
        producer_id=producer_id,
        producer_epoch=NO_PRODUCER_EPOCH if producer_id == NO_PRODUCER_ID else 0,
        base_sequence=sequence,
        is_transactional=transactional,
        compression=compression,
    )
    records = [(timestamp_ms, key, value, ()) for key, value in pairs]
    return log.append(Batch.parse(build(records, options)), leader_epoch=EPOCH, now_ms=NOW_MS)


def end_transaction(log: Log, producer_id: int, *, commit: bool) -> int:
    """Append a marker, and let the high watermark follow: its offset."""
    marker = Marker(
        is_commit=commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=NOW_MS,
    )
    offset = log.append(Batch.parse(build_marker(marker)), leader_epoch=EPOCH, now_ms=NOW_MS)
    log.producers.advance_high_watermark(log.next_offset)
    return offset


def cleaner_config(**settings: object) -> CleanerConfig:
    """Settings of which some are what no user may set."""
    config = CleanerConfig()
    for name, value in settings.items():
        assert hasattr(config, name), name
        object.__setattr__(config, name, value)
    return config


def stable_offset(log: Log) -> int:
    unstable = log.producers.first_unstable_offset
    return log.next_offset if unstable is None else unstable


def dirt_of(log: Log, cleaned_offset: int | None = None, now_ms: int = NOW_MS) -> Dirtiness:
    """How dirty the log is, once everything is durable."""
    log.sync()
    return survey(
        log,
        cleaned_offset=cleaned_offset,
        last_stable_offset=stable_offset(log),
        now_ms=now_ms,
    )


def begin(
    disk: Disk,
    log: Log,
    *,
    cleaned_offset: int | None = None,
    now_ms: int = NOW_MS,
    config: CleanerConfig | None = None,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Compaction:
    return Compaction(
        disk,
        log,
        dirt_of(log, cleaned_offset, now_ms),
        config or CleanerConfig(),
        now_ms=now_ms,
        max_decompressed_bytes=max_decompressed_bytes,
    )


def run(disk: Disk, compaction: Compaction) -> int:
    """Do all steps, as a broker would: where the log is clean up to."""
    while not compaction.is_done:
        for file in compaction.step():
            file.sync()
    for path in compaction.take_replaced():
        disk.remove(path)
    return compaction.cleaned_offset


def compact(
    disk: Disk,
    log: Log,
    *,
    cleaned_offset: int | None = None,
    now_ms: int = NOW_MS,
    config: CleanerConfig | None = None,
) -> int:
    """Roll, so that everything can be cleaned, and clean it once."""
    log.roll(now_ms)
    return run(
        disk,
        begin(disk, log, cleaned_offset=cleaned_offset, now_ms=now_ms, config=config),
    )


def records_of(batches: Iterable[Batch]) -> list[Decoded]:
    """The records in data batches."""
    return [record for batch in batches if not batch.is_control for record in batch.records()]


def content_of(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of each data record, whoever wrote it."""
    return [(offset, key, value) for offset, _, key, value, _ in records_of(read_all(log))]


def committed_content_of(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """What a read_committed consumer makes of the log, as Kafka's client does it."""
    waiting = log.aborted_transactions(log.start_offset, stable_offset(log))
    aborted: set[int] = set()
    found = []
    for batch in read_all(log, below_offset=stable_offset(log)):
        while waiting and waiting[0].first_offset <= batch.last_offset:
            aborted.add(waiting.pop(0).producer_id)
        if batch.is_control:
            aborted.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborted):
            found += [(record[0], record[2], record[3]) for record in batch.records()]
    return found
