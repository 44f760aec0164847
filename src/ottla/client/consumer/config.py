"""Settings of consumers."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from ottla.client.buffers import ANSWER_BYTES, HEAD_BYTES
from ottla.client.config import ClientConfig, plug, tuple_of
from ottla.config import KIB, MIB, MINUTE_MS, SECOND_MS, Kind, setting
from ottla.errors import ConfigError

ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
OffsetReset = str | datetime | timedelta
"""earliest, latest, none; a moment; or how long ago."""

_RESETS: Final = ("earliest", "latest", "none")
_JAVA_ASSIGNORS: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_BY_DURATION: Final = "by_duration:"
_ISO_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


def _read_reset(value: object) -> OffsetReset:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ConfigError(f"auto_offset_reset = {value!r} has no time zone")
        return value
    if isinstance(value, timedelta):
        return abs(value)
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in _RESETS:
            return text.lower()
        if text.startswith(_BY_DURATION):
            return _duration(text.removeprefix(_BY_DURATION), text)
    raise ConfigError(
        f"auto.offset.reset = {value!r} is not one of {', '.join(_RESETS)}, by_duration:PT1H, "
        "a datetime or a timedelta"
    )


def _duration(text: str, given: str) -> timedelta:
    found = _ISO_DURATION.fullmatch(text)
    parts = {} if found is None else {k: float(v) for k, v in found.groupdict().items() if v}
    if not parts:
        raise ConfigError(f"auto.offset.reset = {given!r} has no duration like PT1H or P1DT12H")
    return timedelta(**parts)


def _read_assignors(value: object) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, Iterable):
        raise ConfigError(f"assignors = {value!r} is not a sequence")
    found = tuple(_read_assignor(item) for item in value)
    if not found:
        raise ConfigError("assignors is empty; a group needs one")
    names = [item if isinstance(item, str) else item.name for item in found]
    if len(set(names)) != len(names):
        raise ConfigError(f"assignors = {', '.join(names)} names one twice")
    return found


def _read_assignor(item: object) -> Any:
    if isinstance(item, str):
        name = _JAVA_ASSIGNORS.get(item.rpartition(".")[2], item)
        if name not in ASSIGNORS:
            raise ConfigError(f"assignors: {item!r} is not one of {', '.join(ASSIGNORS)}")
        return name
    if isinstance(getattr(item, "name", None), str) and callable(getattr(item, "assign", None)):
        return item
    raise ConfigError(f"assignors: {item!r} has no name or no method assign")


def _read_store(value: object) -> Any:
    if value is None or callable(getattr(value, "load", None)):
        return value
    raise ConfigError(f"offset_store = {value!r} has no method load")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """What a consumer reads, how much at a time, and how its group works."""

    group_id: str | None = setting("group.id", None, kind=Kind.STRING, nullable=True)
    """The group that shares the partitions and keeps the offsets."""

    group_instance_id: str | None = setting(
        "group.instance.id", None, kind=Kind.STRING, nullable=True, pattern=r".+"
    )
    """A name that outlives restarts: within session.timeout.ms, nothing is rebalanced."""

    group_protocol: str = setting("group.protocol", "classic", choices=("classic", "consumer"))
    """consumer: the broker assigns partitions (KIP-848); classic: a member does."""

    group_remote_assignor: str | None = setting(
        "group.remote.assignor", None, kind=Kind.STRING, nullable=True
    )
    """Which of the broker's assignors to use, with group.protocol = consumer."""

    assignors: tuple[Any, ...] = plug(
        "partition.assignment.strategy", ("range", "cooperative-sticky"), _read_assignors
    )
    """How a member assigns partitions, best first: names, or assignors of yours."""

    session_timeout_ms: int = setting("session.timeout.ms", 45 * SECOND_MS, low=1)
    """A member that is not heard of for so long has left the group."""

    heartbeat_interval_ms: int = setting("heartbeat.interval.ms", 3 * SECOND_MS, low=1)
    """How often a member is heard of."""

    max_poll_interval_ms: int = setting("max.poll.interval.ms", 5 * MINUTE_MS, low=1)
    """A member that does not ask for records for so long leaves the group."""

    max_poll_records: int = setting("max.poll.records", 500, low=1)
    """How many records one poll returns, at most."""

    auto_offset_reset: OffsetReset = plug("auto.offset.reset", "latest", _read_reset)
    """Where to begin without a committed offset: earliest, latest, none (an error),
    by_duration:PT1H, or a datetime or timedelta."""

    enable_auto_commit: bool = setting("enable.auto.commit", True)
    """Whether the offsets of processed records are committed by themselves."""

    auto_commit_interval_ms: int = setting("auto.commit.interval.ms", 5 * SECOND_MS, low=0)
    """How often that happens."""

    isolation_level: str = setting(
        "isolation.level", "read_uncommitted", choices=("read_committed", "read_uncommitted")
    )
    """read_committed: records of a transaction are seen when it is committed, and only then."""

    fetch_min_bytes: int = setting("fetch.min.bytes", 1, low=0)
    """How much must be there before a broker answers, within fetch.max.wait.ms."""

    fetch_max_bytes: int = setting("fetch.max.bytes", 50 * MIB, low=0)
    """How much one answer has, at most; a first batch that is larger comes all the same."""

    fetch_max_wait_ms: int = setting(
        "fetch.max.wait.ms", 500, low=0, aliases=("fetch.wait.max.ms",)
    )
    """How long a broker waits for fetch.min.bytes."""

    max_partition_fetch_bytes: int = setting(
        "max.partition.fetch.bytes", 2 * MIB, low=0, aliases=("fetch.message.max.bytes",)
    )
    """How much of one partition an answer has, at most.

    Our default is twice Kafka's: the batches of our producers are nearly 1 MiB, and one of them an
    answer would be too few.
    """

    queued_max_bytes: int = setting("queued.max.bytes", 64 * MIB, kind=Kind.LONG, low=KIB)
    """How much is fetched ahead of what was asked for, over all partitions.  A setting of ours."""

    check_crcs: bool = setting("check.crcs", True)
    """Whether the checksum of every batch is verified."""

    allow_auto_create_topics: bool = setting("allow.auto.create.topics", True)
    """Whether subscribing to a topic may create it, where the broker does so."""

    exclude_internal_topics: bool = setting("exclude.internal.topics", True)
    """Whether a pattern leaves out topics that brokers write for themselves."""

    client_rack: str = setting("client.rack", "")
    """Where the client is, in the words of broker.rack."""

    interceptors: tuple[Any, ...] = plug(
        "interceptors", (), tuple_of("interceptors", ("on_consume", "on_commit"))
    )
    """Objects that see each batch before it is returned, and each commit."""

    offset_store: Any = plug("offset.store", None, _read_store)
    """Where offsets are kept if not in Kafka: an object with a method load."""

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is another class than the one that super() means.
        ClientConfig.__post_init__(self)
        if self.group_protocol == "classic":
            if self.heartbeat_interval_ms >= self.session_timeout_ms:
                raise ConfigError(
                    f"heartbeat.interval.ms = {self.heartbeat_interval_ms} must be less than "
                    f"session.timeout.ms = {self.session_timeout_ms}"
                )
            if self.group_remote_assignor is not None:
                raise ConfigError("group.remote.assignor needs group.protocol = consumer")
        if self.group_instance_id is not None and self.group_id is None:
            raise ConfigError("group.instance.id needs a group.id")
        if self.group_id == "":
            raise ConfigError("group.id is empty; leave it out, or name a group")

    @property
    def usual_answer_bytes(self) -> int:
        return max(ANSWER_BYTES, self.max_partition_fetch_bytes + HEAD_BYTES)

    @property
    def is_committed_only(self) -> bool:
        """Whether records of open and aborted transactions stay unseen."""
        return self.isolation_level == "read_committed"
