"""Settings of the coordinators: consumer groups and transactions.

Where Kafka's default needs three brokers (the replication of internal topics), ours is 1: it is
what a single node can do, and what Kafka's own sample configuration says.
"""

from ottla.config import (
    DAY_MS,
    HOUR_MS,
    INT32_MAX,
    KIB,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    Kind,
    check_order,
    check_ranges,
    setting,
)
from ottla.errors import ConfigError
from ottla.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Consumer groups and the offsets they commit."""

    offsets_partitions: int = setting("offsets.topic.num.partitions", 50, low=1)
    """Partitions of `__consumer_offsets`; it cannot change once the topic exists, because a group's
    partition is found by hashing."""

    offsets_replication_factor: int = setting(
        "offsets.topic.replication.factor", 1, kind=Kind.SHORT, low=1
    )
    """Replicas of `__consumer_offsets`."""

    offsets_segment_bytes: int = setting("offsets.topic.segment.bytes", 100 * MIB, low=1)
    """Segment size of `__consumer_offsets`; small segments are compacted and loaded sooner."""

    offsets_compression: int = setting("offsets.topic.compression.codec", 0, low=0, high=4)
    """How `__consumer_offsets` is compressed: the number of the codec, 0 is not at all."""

    offsets_load_buffer_bytes: int = setting("offsets.load.buffer.size", 5 * MIB, low=1)
    """How much of `__consumer_offsets` is read at a time when a coordinator starts."""

    offsets_commit_timeout_ms: int = setting("offsets.commit.timeout.ms", 5 * SECOND_MS, low=1)
    """How long a commit may take to become durable before it fails."""

    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes", 7 * DAY_MS // MINUTE_MS, low=1
    )
    """How long offsets are kept after a group has lost its last member."""

    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms", 10 * MINUTE_MS, kind=Kind.LONG, low=1
    )
    """How often such offsets are looked for."""

    offset_metadata_max_bytes: int = setting("offset.metadata.max.bytes", 4 * KIB, low=0)
    """The longest note that may be committed with an offset."""

    min_session_timeout_ms: int = setting("group.min.session.timeout.ms", 6 * SECOND_MS, low=1)
    """The shortest session timeout that members may ask for."""

    max_session_timeout_ms: int = setting("group.max.session.timeout.ms", 30 * MINUTE_MS, low=1)
    """The longest session timeout that members may ask for."""

    initial_rebalance_delay_ms: int = setting("group.initial.rebalance.delay.ms", 0, low=0)
    """How long an empty group waits for more members after the first has joined.  0 lets the first
    one read at once; Kafka waits 3 s, which saves a rebalance when many start together."""

    max_size: int = setting("group.max.size", INT32_MAX, low=1)
    """How many members a group may have."""

    consumer_session_timeout_ms: int = setting(
        "group.consumer.session.timeout.ms", 45 * SECOND_MS, low=1
    )
    """After how long a silent member is removed (KIP-848)."""

    consumer_min_session_timeout_ms: int = setting(
        "group.consumer.min.session.timeout.ms", 45 * SECOND_MS, low=1
    )
    """The shortest session timeout that a group may be given (KIP-848)."""

    consumer_max_session_timeout_ms: int = setting(
        "group.consumer.max.session.timeout.ms", MINUTE_MS, low=1
    )
    """The longest session timeout that a group may be given (KIP-848)."""

    consumer_heartbeat_interval_ms: int = setting(
        "group.consumer.heartbeat.interval.ms", 5 * SECOND_MS, low=1
    )
    """How often members are told to report (KIP-848)."""

    consumer_min_heartbeat_interval_ms: int = setting(
        "group.consumer.min.heartbeat.interval.ms", 5 * SECOND_MS, low=1
    )
    """The shortest interval that a group may be given (KIP-848)."""

    consumer_max_heartbeat_interval_ms: int = setting(
        "group.consumer.max.heartbeat.interval.ms", 15 * SECOND_MS, low=1
    )
    """The longest interval that a group may be given (KIP-848)."""

    consumer_max_size: int = setting("group.consumer.max.size", INT32_MAX, low=1)
    """How many members a group may have (KIP-848)."""

    consumer_assignors: tuple[str, ...] = setting(
        "group.consumer.assignors", ("uniform", "range"), choices=("uniform", "range")
    )
    """How partitions are shared out; the first is used if a group does not choose (KIP-848)."""

    consumer_assignment_interval_ms: int = setting(
        "group.consumer.assignment.interval.ms", 0, low=0
    )
    """How long partitions stay shared out as they are before they are shared out anew (KIP-1263).
    0 lets whoever comes read at once; in a group of more than 100, it stands for 1 ms a member.
    Kafka waits 1 s, which saves work when many come together."""

    consumer_migration_policy: str = setting(
        "group.consumer.migration.policy",
        "bidirectional",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"),
    )
    """Whether a classic group with members becomes a consumer group when one joins that speaks the
    new protocol, and a classic one again when the last such member leaves (KIP-848)."""

    rebalance_protocols: tuple[str, ...] = setting(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer"),
        choices=("classic", "consumer"),
    )
    """The kinds of groups that may exist: Kafka's classic ones, and those of KIP-848."""

    def __post_init__(self) -> None:
        check_ranges(self)
        for low, high in (
            ("min_session_timeout_ms", "max_session_timeout_ms"),
            ("consumer_min_session_timeout_ms", "consumer_session_timeout_ms"),
            ("consumer_session_timeout_ms", "consumer_max_session_timeout_ms"),
            ("consumer_min_heartbeat_interval_ms", "consumer_heartbeat_interval_ms"),
            ("consumer_heartbeat_interval_ms", "consumer_max_heartbeat_interval_ms"),
            ("consumer_heartbeat_interval_ms", "consumer_session_timeout_ms"),
        ):
            check_order(self, low, high)
        if not self.consumer_assignors:
            raise ConfigError("group.consumer.assignors needs at least one assignor")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Transactions and idempotent producers."""

    log_partitions: int = setting("transaction.state.log.num.partitions", 50, low=1)
    """Partitions of `__transaction_state`; it cannot change once the topic exists."""

    log_replication_factor: int = setting(
        "transaction.state.log.replication.factor", 1, kind=Kind.SHORT, low=1
    )
    """Replicas of `__transaction_state`."""

    log_min_isr: int = setting("transaction.state.log.min.isr", 1, low=1)
    """How many of them must be in sync for a transaction to make progress."""

    log_segment_bytes: int = setting("transaction.state.log.segment.bytes", 100 * MIB, low=1)
    """Segment size of `__transaction_state`."""

    log_load_buffer_bytes: int = setting("transaction.state.log.load.buffer.size", 5 * MIB, low=1)
    """How much of `__transaction_state` is read at a time when a coordinator starts."""

    max_timeout_ms: int = setting("transaction.max.timeout.ms", 15 * MINUTE_MS, low=1)
    """The longest timeout that a producer may ask for: so long an open transaction can hold up
    read_committed consumers."""

    transactional_id_expiration_ms: int = setting(
        "transactional.id.expiration.ms", 7 * DAY_MS, low=1
    )
    """After how long an unused transactional id is forgotten."""

    timed_out_check_interval_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", 10 * SECOND_MS, low=1
    )
    """How often transactions past their timeout are looked for, and aborted."""

    expired_id_check_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms", HOUR_MS, low=1
    )
    """How often expired transactional ids are looked for."""

    two_phase_commit_enable: bool = setting("transaction.two.phase.commit.enable", False)
    """Whether transactions may be prepared and then have no timeout (KIP-939)."""

    partition_verification_enable: bool = setting("transaction.partition.verification.enable", True)
    """Whether a write is refused whose partition was not added to its transaction (KIP-890)."""

    producer_id_expiration_ms: int = setting("producer.id.expiration.ms", DAY_MS, low=1)
    """After how long a partition forgets the sequence numbers of an idle producer."""

    producer_id_check_interval_ms: int = setting(
        "producer.id.expiration.check.interval.ms", 10 * MINUTE_MS, low=1
    )
    """How often idle producers are looked for."""

    def __post_init__(self) -> None:
        check_ranges(self)
        check_order(self, "log_min_isr", "log_replication_factor")
