"""The settings of one topic's logs: Kafka's names, defaults and rules.

A topic's own overrides come first, then the broker-level settings that each names as synonyms, in
their order, then the default.  `LogConfig.of` merges the three.  Settings that only replication or
tiered storage would read are kept, checked and described like the others, so that tools which set
them work; `remote.storage.enable` alone is refused, because nobody could keep its promise.
"""

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Self

from ottla.config import (
    DAY_MS,
    GIB,
    HOUR_MS,
    INT64_MAX,
    KIB,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    Kind,
    Setting,
    Synonym,
    check_order,
    check_ranges,
    from_mapping,
    setting,
    settings_of,
    unknown_setting,
)
from ottla.errors import ConfigError
from ottla.records.batch import TimestampType
from ottla.records.compression import LEVELS, Compression
from ottla.values import dataclass

PRODUCER_DECIDES: Final = "producer"
UNLIMITED: Final = -1
_SAME_AS_TOTAL: Final = -2
_TIMESTAMP_TYPES: Final = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}
_LEADER_THROTTLED: Final = "leader.replication.throttled.replicas"
_FOLLOWER_THROTTLED: Final = "follower.replication.throttled.replicas"
_THROTTLED_REPLICA: Final = r"\*|[0-9]+:[0-9]+"


def _level(codec: Compression, default: int) -> Any:
    name = f"compression.{codec.label}.level"
    levels = LEVELS[codec]
    return setting(name, default, low=levels[0], high=levels[-1], synonyms=(name,))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """How a topic's partitions are written, kept and cleaned."""

    cleanup_policy: tuple[str, ...] = setting(
        "cleanup.policy",
        ("delete",),
        choices=("compact", "delete"),
        synonyms=("log.cleanup.policy",),
    )
    """What becomes of old segments: `delete` drops them by age and size, `compact` keeps the newest
    record of each key.  Both may be given; neither keeps everything."""

    compression_type: str = setting(
        "compression.type",
        PRODUCER_DECIDES,
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", PRODUCER_DECIDES),
        synonyms=("compression.type",),
    )
    """How batches are compressed on disk.  `producer` keeps them as they come, which costs nothing;
    anything else decompresses and compresses every batch that differs."""

    compression_gzip_level: int = setting(
        "compression.gzip.level",
        -1,
        low=-1,
        high=LEVELS[Compression.GZIP][-1],
        synonyms=("compression.gzip.level",),
    )
    """The level if `compression.type` is gzip: 1 is fast, 9 is small, -1 is the default, 6."""

    compression_lz4_level: int = _level(Compression.LZ4, 9)
    """The level if `compression.type` is lz4: 9, the default, is the fast compressor."""

    compression_zstd_level: int = _level(Compression.ZSTD, 3)
    """The level if `compression.type` is zstd: higher is smaller and slower."""

    delete_retention_ms: int = setting(
        "delete.retention.ms",
        DAY_MS,
        kind=Kind.LONG,
        low=0,
        synonyms=("log.cleaner.delete.retention.ms",),
    )
    """How long compaction keeps tombstones.  A consumer that reads from the start must finish
    within this time to see every deletion."""

    errors_deadletterqueue_group_enable: bool = setting(
        "errors.deadletterqueue.group.enable", False
    )
    """Whether share groups may write records here that nobody could process (KIP-1191)."""

    file_delete_delay_ms: int = setting(
        "file.delete.delay.ms",
        MINUTE_MS,
        kind=Kind.LONG,
        low=0,
        synonyms=("log.segment.delete.delay.ms",),
    )
    """How long a deleted segment stays on disk, so that reads in flight can finish."""

    flush_messages: int = setting(
        "flush.messages",
        INT64_MAX,
        kind=Kind.LONG,
        low=1,
        synonyms=("log.flush.interval.messages",),
    )
    """After how many records a log is synced, whatever acks asked for."""

    flush_ms: int = setting(
        "flush.ms",
        INT64_MAX,
        kind=Kind.LONG,
        low=0,
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    """After how long a log is synced, whatever acks asked for."""

    follower_replication_throttled_replicas: tuple[str, ...] = setting(
        _FOLLOWER_THROTTLED, (), pattern=_THROTTLED_REPLICA
    )
    """Replicas whose catching up is throttled on the follower: `partition:broker`, or `*`."""

    index_interval_bytes: int = setting(
        "index.interval.bytes", 4 * KIB, low=0, synonyms=("log.index.interval.bytes",)
    )
    """How many bytes of log there are between two entries of the offset index."""

    leader_replication_throttled_replicas: tuple[str, ...] = setting(
        _LEADER_THROTTLED, (), pattern=_THROTTLED_REPLICA
    )
    """Replicas whose catching up is throttled on the leader: `partition:broker`, or `*`."""

    local_retention_bytes: int = setting(
        "local.retention.bytes",
        _SAME_AS_TOTAL,
        kind=Kind.LONG,
        low=_SAME_AS_TOTAL,
        synonyms=("log.local.retention.bytes",),
    )
    """What of a tiered log stays on local disk.  No effect: nothing is tiered."""

    local_retention_ms: int = setting(
        "local.retention.ms",
        _SAME_AS_TOTAL,
        kind=Kind.LONG,
        low=_SAME_AS_TOTAL,
        synonyms=("log.local.retention.ms",),
    )
    """How long a tiered log stays on local disk.  No effect: nothing is tiered."""

    max_compaction_lag_ms: int = setting(
        "max.compaction.lag.ms",
        INT64_MAX,
        kind=Kind.LONG,
        low=1,
        synonyms=("log.cleaner.max.compaction.lag.ms",),
    )
    """When a record must become eligible for compaction, however clean the log is."""

    max_message_bytes: int = setting(
        "max.message.bytes", MIB + 12, low=0, synonyms=("message.max.bytes",)
    )
    """The largest record batch that is accepted, as compressed by the producer."""

    message_timestamp_after_max_ms: int = setting(
        "message.timestamp.after.max.ms",
        HOUR_MS,
        kind=Kind.LONG,
        low=0,
        synonyms=("log.message.timestamp.after.max.ms",),
    )
    """How far in the future a record's timestamp may lie; without effect for LogAppendTime."""

    message_timestamp_before_max_ms: int = setting(
        "message.timestamp.before.max.ms",
        INT64_MAX,
        kind=Kind.LONG,
        low=0,
        synonyms=("log.message.timestamp.before.max.ms",),
    )
    """How far in the past a record's timestamp may lie; without effect for LogAppendTime."""

    message_timestamp_type: str = setting(
        "message.timestamp.type",
        "CreateTime",
        choices=tuple(_TIMESTAMP_TYPES),
        synonyms=("log.message.timestamp.type",),
    )
    """Whose clock stamps records: the producer's (CreateTime) or the broker's (LogAppendTime)."""

    min_cleanable_dirty_ratio: float = setting(
        "min.cleanable.dirty.ratio",
        0.5,
        low=0,
        high=1,
        synonyms=("log.cleaner.min.cleanable.ratio",),
    )
    """Which part of a log must be new before compaction is worth its while."""

    min_compaction_lag_ms: int = setting(
        "min.compaction.lag.ms",
        0,
        kind=Kind.LONG,
        low=0,
        synonyms=("log.cleaner.min.compaction.lag.ms",),
    )
    """How long a record stays uncompacted, so that consumers can see every version of a key."""

    min_insync_replicas: int = setting(
        "min.insync.replicas", 1, low=1, synonyms=("min.insync.replicas",)
    )
    """How many replicas must be in sync for a write with acks=all to be accepted."""

    preallocate: bool = setting("preallocate", False, synonyms=("log.preallocate",))
    """Whether a new segment reserves its full size on disk."""

    remote_copy_lag_bytes: int = setting(
        "remote.copy.lag.bytes",
        -1,
        kind=Kind.LONG,
        low=-1,
        synonyms=("log.remote.copy.lag.bytes",),
    )
    """How much newer data a segment waits for to be tiered.  No effect: nothing is tiered."""

    remote_copy_lag_ms: int = setting(
        "remote.copy.lag.ms",
        0,
        kind=Kind.LONG,
        low=-1,
        synonyms=("log.remote.copy.lag.ms",),
    )
    """How long a segment waits to be tiered.  No effect: nothing is tiered."""

    remote_log_copy_disable: bool = setting("remote.log.copy.disable", False)
    """Whether tiered data is read-only.  No effect: nothing is tiered."""

    remote_log_delete_on_disable: bool = setting("remote.log.delete.on.disable", False)
    """Whether switching tiering off deletes what was tiered.  No effect: nothing is tiered."""

    remote_storage_enable: bool = setting("remote.storage.enable", False)
    """Whether old segments move to tiered storage.  There is none here, so it must be false."""

    retention_bytes: int = setting(
        "retention.bytes", UNLIMITED, kind=Kind.LONG, synonyms=("log.retention.bytes",)
    )
    """How large a partition may grow before its oldest segments are deleted; -1 is no limit."""

    retention_ms: int = setting(
        "retention.ms",
        7 * DAY_MS,
        kind=Kind.LONG,
        low=UNLIMITED,
        synonyms=(
            "log.retention.ms",
            Synonym("log.retention.minutes", MINUTE_MS),
            Synonym("log.retention.hours", HOUR_MS),
        ),
    )
    """How long records are kept before their segment is deleted; -1 is for ever."""

    segment_bytes: int = setting(
        "segment.bytes", GIB, low=1, given_low=MIB, synonyms=("log.segment.bytes",)
    )
    """How large a segment grows before the next one begins.  Retention and compaction work on whole
    segments, so smaller ones follow their limits more closely."""

    segment_index_bytes: int = setting(
        "segment.index.bytes", 10 * MIB, low=4, synonyms=("log.index.size.max.bytes",)
    )
    """How large the offset index of a segment grows before the next segment begins."""

    segment_jitter_ms: int = setting(
        "segment.jitter.ms",
        0,
        kind=Kind.LONG,
        low=0,
        synonyms=("log.roll.jitter.ms", Synonym("log.roll.jitter.hours", HOUR_MS, low=0)),
    )
    """How much earlier a roll by time may come, so that partitions do not all roll at once."""

    segment_ms: int = setting(
        "segment.ms",
        7 * DAY_MS,
        kind=Kind.LONG,
        low=1,
        synonyms=("log.roll.ms", Synonym("log.roll.hours", HOUR_MS, low=1)),
    )
    """How old a segment grows before the next one begins, even if it is not full."""

    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable", False, synonyms=("unclean.leader.election.enable",)
    )
    """Whether a replica that is behind may lead when no other is left; records are lost then."""

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.compression_gzip_level == 0:
            raise ConfigError("compression.gzip.level = 0 is not -1 or 1 to 9")
        check_order(self, "min_compaction_lag_ms", "max_compaction_lag_ms")
        if self.remote_storage_enable:
            raise ConfigError("remote.storage.enable = true needs tiered storage; there is none")
        for name in (_LEADER_THROTTLED, _FOLLOWER_THROTTLED):
            throttled = getattr(self, name.replace(".", "_"))
            if "*" in throttled and len(throttled) > 1:
                raise ConfigError(f"{name} = {','.join(throttled)}: the * must stand alone")

    @classmethod
    def of(cls, broker: Mapping[str, str], overrides: Mapping[str, str]) -> Self:
        """The settings of a topic: its overrides, else the broker's, else the defaults.

        `broker` has broker-level names (`log.retention.hours`), `overrides` has a topic's.
        """
        return from_mapping(cls, {**topic_level(broker), **overrides})

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether retention by age and size applies."""
        return "delete" in self.cleanup_policy

    @property
    def timestamp_type(self) -> TimestampType:
        return _TIMESTAMP_TYPES[self.message_timestamp_type]

    def compression_level(self, codec: Compression) -> int | None:
        """The level to compress with; None is the codec's own default."""
        match codec:
            case Compression.GZIP:
                return None if self.compression_gzip_level == -1 else self.compression_gzip_level
            case Compression.LZ4:
                return self.compression_lz4_level
            case Compression.ZSTD:
                return self.compression_zstd_level
            case Compression.NONE | Compression.SNAPPY:
                return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerConfig:
    """What compaction may use, for all logs of a broker together."""

    enabled: bool = setting("log.cleaner.enable", True)
    """Whether compacted topics are compacted.  If not, they grow for ever."""

    backoff_ms: int = setting("log.cleaner.backoff.ms", 15 * SECOND_MS, kind=Kind.LONG, low=0)
    """How long compaction rests when no log is dirty enough."""

    dedupe_buffer_bytes: int = setting(
        "log.cleaner.dedupe.buffer.size", 128 * MIB, kind=Kind.LONG, low=MIB
    )
    """How much memory the map from keys to newest offsets may take; a log with more keys is
    compacted in several passes."""

    dedupe_load_factor: float = setting("log.cleaner.io.buffer.load.factor", 0.9, low=0.1, high=1)
    """How full that map may become."""

    io_buffer_bytes: int = setting("log.cleaner.io.buffer.size", 512 * KIB, low=KIB)
    """How much is read at a time."""

    io_max_bytes_per_second: float = setting(
        "log.cleaner.io.max.bytes.per.second", sys.float_info.max, low=1
    )
    """How fast compaction reads and writes, so that it does not starve produce and fetch."""

    def __post_init__(self) -> None:
        check_ranges(self)


@cache
def broker_level() -> Mapping[str, Setting]:
    """The broker-level setting behind every synonym, by its name.

    Of several synonyms for one setting only the last has a default, as in Kafka; the others have
    no value until somebody gives them one.
    """
    found = {}
    for declared in settings_of(LogConfig).values():
        for synonym in declared.synonyms:
            is_last = synonym is declared.synonyms[-1]
            found[synonym.name] = Setting(
                name=synonym.name,
                kind=declared.kind if synonym.scale == 1 else Kind.INT,
                default=_scaled_down(declared.default, synonym.scale) if is_last else None,
                low=declared.low if synonym.scale == 1 else synonym.low,
                high=declared.high,
                given_low=declared.given_low,
                choices=declared.choices,
                is_nullable=not is_last,
            )
    return found


def topic_level(broker: Mapping[str, str]) -> dict[str, str]:
    """What broker-level settings mean for a topic, by the topic's names."""
    known = broker_level()
    for name in broker:
        if name not in known:
            raise unknown_setting(name, known)
    found = {}
    for declared in settings_of(LogConfig).values():
        given = (synonym for synonym in declared.synonyms if synonym.name in broker)
        if (strongest := next(given, None)) is not None:
            value = known[strongest.name].parse(broker[strongest.name])
            if strongest.scale != 1:
                # log.retention.hours = -1 is no limit, not minus one hour.
                value = max(value * strongest.scale, UNLIMITED)
            if declared.name == "retention.ms" and value == 0:
                raise ConfigError(f"{strongest.name} = 0 is not -1 or at least 1")
            found[declared.name] = declared.text(value) or ""
    return found


def _scaled_down(value: Any, scale: int) -> Any:
    return value if scale == 1 else value // scale
