"""A topic's settings: Kafka's names, defaults and rules, and what they fall back to."""

import pytest

from ottla.config import ConfigType, documentation, settings_of, to_strings
from ottla.errors import ConfigError
from ottla.log.config import CleanerConfig, LogConfig, broker_level, topic_level
from ottla.records.batch import TimestampType
from ottla.records.compression import Compression

LONG_MAX = str(2**63 - 1)

# From the definitions in Kafka 4.4: name -> type, default, broker-level synonyms.
KAFKA: dict[str, tuple[ConfigType, str, str]] = {
    "cleanup.policy": (ConfigType.LIST, "delete", "log.cleanup.policy"),
    "compression.gzip.level": (ConfigType.INT, "-1", "compression.gzip.level"),
    "compression.lz4.level": (ConfigType.INT, "9", "compression.lz4.level"),
    "compression.type": (ConfigType.STRING, "producer", "compression.type"),
    "compression.zstd.level": (ConfigType.INT, "3", "compression.zstd.level"),
    "delete.retention.ms": (ConfigType.LONG, "86400000", "log.cleaner.delete.retention.ms"),
    "errors.deadletterqueue.group.enable": (ConfigType.BOOLEAN, "false", ""),
    "file.delete.delay.ms": (ConfigType.LONG, "60000", "log.segment.delete.delay.ms"),
    "flush.messages": (ConfigType.LONG, LONG_MAX, "log.flush.interval.messages"),
    "flush.ms": (
        ConfigType.LONG,
        LONG_MAX,
        "log.flush.interval.ms log.flush.scheduler.interval.ms",
    ),
    "follower.replication.throttled.replicas": (ConfigType.LIST, "", ""),
    "index.interval.bytes": (ConfigType.INT, "4096", "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": (ConfigType.LIST, "", ""),
    "local.retention.bytes": (ConfigType.LONG, "-2", "log.local.retention.bytes"),
    "local.retention.ms": (ConfigType.LONG, "-2", "log.local.retention.ms"),
    "max.compaction.lag.ms": (ConfigType.LONG, LONG_MAX, "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": (ConfigType.INT, "1048588", "message.max.bytes"),
    "message.timestamp.after.max.ms": (
        ConfigType.LONG,
        "3600000",
        "log.message.timestamp.after.max.ms",
    ),
    "message.timestamp.before.max.ms": (
        ConfigType.LONG,
        LONG_MAX,
        "log.message.timestamp.before.max.ms",
    ),
    "message.timestamp.type": (ConfigType.STRING, "CreateTime", "log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": (ConfigType.DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": (ConfigType.LONG, "0", "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": (ConfigType.INT, "1", "min.insync.replicas"),
    "preallocate": (ConfigType.BOOLEAN, "false", "log.preallocate"),
    "remote.copy.lag.bytes": (ConfigType.LONG, "-1", "log.remote.copy.lag.bytes"),
    "remote.copy.lag.ms": (ConfigType.LONG, "0", "log.remote.copy.lag.ms"),
    "remote.log.copy.disable": (ConfigType.BOOLEAN, "false", ""),
    "remote.log.delete.on.disable": (ConfigType.BOOLEAN, "false", ""),
    "remote.storage.enable": (ConfigType.BOOLEAN, "false", ""),
    "retention.bytes": (ConfigType.LONG, "-1", "log.retention.bytes"),
    "retention.ms": (
        ConfigType.LONG,
        "604800000",
        "log.retention.ms log.retention.minutes log.retention.hours",
    ),
    "segment.bytes": (ConfigType.INT, "1073741824", "log.segment.bytes"),
    "segment.index.bytes": (ConfigType.INT, "10485760", "log.index.size.max.bytes"),
    "segment.jitter.ms": (ConfigType.LONG, "0", "log.roll.jitter.ms log.roll.jitter.hours"),
    "segment.ms": (ConfigType.LONG, "604800000", "log.roll.ms log.roll.hours"),
    "unclean.leader.election.enable": (
        ConfigType.BOOLEAN,
        "false",
        "unclean.leader.election.enable",
    ),
}


def test_the_settings_are_those_of_kafka() -> None:
    ours = {
        name: (
            declared.kind.wire_type,
            declared.text(declared.default),
            " ".join(synonym.name for synonym in declared.synonyms),
        )
        for name, declared in settings_of(LogConfig).items()
    }
    assert ours == KAFKA


def test_every_setting_is_documented_and_named_like_its_attribute() -> None:
    for name, declared in settings_of(LogConfig).items():
        assert documentation(LogConfig)[name], name
        assert declared.attribute == name.replace(".", "_")
    assert all(documentation(CleanerConfig).values())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", "compact,delete,purge"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "18"),
        ("compression.type", "brotli"),
        ("compression.zstd.level", "23"),
        ("flush.messages", "0"),
        ("leader.replication.throttled.replicas", "0-1"),
        ("leader.replication.throttled.replicas", "*,0:1"),
        ("follower.replication.throttled.replicas", "none"),
        ("max.compaction.lag.ms", "0"),
        ("max.message.bytes", "-1"),
        ("message.timestamp.type", "createtime"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.insync.replicas", "0"),
        ("remote.storage.enable", "true"),
        ("retention.ms", "-2"),
        ("segment.bytes", "1048575"),
        ("segment.index.bytes", "3"),
        ("segment.ms", "0"),
        ("message.downconversion.enable", "false"),
    ],
)
def test_what_kafka_refuses_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=name):
        LogConfig.of({}, {name: text})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", ""),
        ("compression.gzip.level", "-1"),
        ("compression.zstd.level", "-131072"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
        ("leader.replication.throttled.replicas", "*"),
        ("max.message.bytes", "0"),
        ("retention.bytes", "-5"),
        ("retention.ms", "-1"),
        ("retention.ms", "0"),
        ("segment.bytes", "1048576"),
    ],
)
def test_what_kafka_accepts_is_accepted(name: str, text: str) -> None:
    assert to_strings(LogConfig.of({}, {name: text}))[name] == text


def test_a_record_cannot_have_to_wait_for_compaction_longer_than_it_may() -> None:
    lags = {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}
    with pytest.raises(ConfigError, match=r"min\.compaction\.lag\.ms = 2 is more than max"):
        LogConfig.of({}, lags)


def test_cleanup_policies_can_be_combined() -> None:
    assert LogConfig().is_deleted
    assert not LogConfig().is_compacted
    both = LogConfig.of({}, {"cleanup.policy": "compact, delete"})
    assert (both.is_compacted, both.is_deleted) == (True, True)
    neither = LogConfig.of({}, {"cleanup.policy": ""})
    assert (neither.is_compacted, neither.is_deleted) == (False, False)


def test_a_topic_comes_before_the_broker_and_the_broker_before_the_default() -> None:
    broker = {"log.retention.hours": "2"}
    assert LogConfig.of({}, {}).retention_ms == 604_800_000
    assert LogConfig.of(broker, {}).retention_ms == 7_200_000
    assert LogConfig.of(broker, {"retention.ms": "5"}).retention_ms == 5


def test_the_finest_of_several_synonyms_wins() -> None:
    hours = {"log.retention.hours": "2"}
    minutes = {**hours, "log.retention.minutes": "3"}
    assert LogConfig.of(minutes, {}).retention_ms == 180_000
    assert LogConfig.of({**minutes, "log.retention.ms": "4"}, {}).retention_ms == 4


def test_minus_one_hour_is_for_ever() -> None:
    assert LogConfig.of({"log.retention.hours": "-1"}, {}).retention_ms == -1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.retention.hours", "0"),
        ("log.retention.ms", "0"),
        ("log.roll.hours", "0"),
        ("log.segment.bytes", "1000"),
        ("log.segment.byte", "1048576"),
    ],
)
def test_a_broker_level_default_is_checked_like_the_topics_own(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=name):
        topic_level({name: text})


def test_only_the_last_synonym_has_a_default() -> None:
    known = broker_level()
    assert known["log.retention.ms"].default is None
    assert known["log.retention.minutes"].default is None
    assert known["log.retention.hours"].default == 168
    assert known["log.roll.hours"].default == 168
    assert known["message.max.bytes"].default == 1_048_588


def test_compression_levels_belong_to_their_codec() -> None:
    config = LogConfig.of({}, {"compression.zstd.level": "7", "compression.gzip.level": "2"})
    assert config.compression_level(Compression.ZSTD) == 7
    assert config.compression_level(Compression.GZIP) == 2
    assert config.compression_level(Compression.SNAPPY) is None
    assert LogConfig().compression_level(Compression.GZIP) is None
    assert LogConfig().compression_level(Compression.LZ4) == 9


def test_the_timestamp_type_is_that_of_batches() -> None:
    append_time = LogConfig.of({}, {"message.timestamp.type": "LogAppendTime"})
    assert LogConfig().timestamp_type is TimestampType.CREATE_TIME
    assert append_time.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_tests_may_have_tiny_segments() -> None:
    assert LogConfig(segment_bytes=200).segment_bytes == 200
