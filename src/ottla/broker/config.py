"""What a broker can be told: Kafka's own settings, and the few that only Ottla has.

`BrokerConfig.of` takes a whole file of settings.  Broker-level defaults for topics
(`log.retention.hours`) are declared once, as synonyms in `ottla.log.config`, and kept here as text.
Kafka's settings that have nothing to do here are accepted and listed in `ignored`, so that a
`server.properties` works unchanged; those that would protect something, like `ssl.*`, are refused,
because ignoring them would leave it unprotected.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Final, Self

from ottla.broker.ignored import reason_to_ignore, reason_to_refuse
from ottla.config import (
    INT32_MAX,
    KIB,
    MIB,
    MINUTE_MS,
    Kind,
    check_ranges,
    from_mapping,
    setting,
    settings_of,
    unknown_setting,
)
from ottla.coordinator.config import GroupConfig, TransactionConfig
from ottla.errors import ConfigError
from ottla.log.config import CleanerConfig, LogConfig, broker_level
from ottla.values import NamedTuple, dataclass

PLAINTEXT: Final = "PLAINTEXT"
_OF_ADDRESSES: Final = frozenset("0123456789abcdefABCDEF:.%")
_NOT_OF_NAMES: Final = frozenset("[]:/")
_OCTETS: Final = 4
_MAX_PORT: Final = 65_535


class Endpoint(NamedTuple):
    """One entry of `listeners`."""

    name: str
    host: str
    """"" is every interface."""
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        name, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        is_word = name.replace("_", "a").isalnum()
        # Without a regular expression: a start would spend more on it than on all other settings.
        if not (is_word and _is_host(host) and port.isdecimal() and int(port) <= _MAX_PORT):
            raise ConfigError(f"{text!r} is not a listener like PLAINTEXT://localhost:9092")
        return cls(name.upper(), host.strip("[]"), int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        octets = self.host.split(".")
        is_of_127 = (
            octets[0] == "127"
            and len(octets) == _OCTETS
            and all(octet.isascii() and octet.isdigit() and len(octet) <= 3 for octet in octets)
        )
        return is_of_127 or self.host in ("localhost", "::1")


def _is_host(text: str) -> bool:
    """A name, an address, an address of IPv6 in brackets, or "" for every interface."""
    if text.startswith("[") and text.endswith("]"):
        return len(text) > len("[]") and _OF_ADDRESSES.issuperset(text[1:-1])
    return _NOT_OF_NAMES.isdisjoint(text)


class ExposedError(ConfigError):
    """Other machines could do anything with the broker, and nobody has said that they may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """One broker."""

    node_id: int = setting("node.id", 1, low=0, aliases=("broker.id",))
    """The broker's number.  It is kept in the data directory and cannot change afterwards."""

    listeners: tuple[str, ...] = setting("listeners", ("PLAINTEXT://localhost:9092",))
    """Where the broker accepts connections.  Port 0 takes any free one."""

    advertised_listeners: tuple[str, ...] = setting("advertised.listeners", ())
    """The address that clients are told to connect to; empty is the one it listens on."""

    insecure: bool = setting("ottla.insecure", False)
    """Allows listeners that other machines can reach.  There is no TLS and no SASL yet, so whoever
    reaches them can read and delete everything."""

    metrics_port: int = setting("ottla.metrics.port", -1, low=-1, high=_MAX_PORT)
    """Where `/metrics` (for Prometheus), `/healthz` and `/readyz` are answered, on the host of the
    listener.  Port 0 takes any free one, -1 is none."""

    log_dirs: tuple[str, ...] = setting("log.dirs", ("ottla-data",), aliases=("log.dir",))
    """The data directory."""

    flush: str = setting("ottla.flush", "commit", choices=("commit", "os"))
    """When acks=all is answered: `commit` waits until the disk has the records, `os` trusts the
    page cache as Kafka does, and loses its newest records at power loss."""

    idle_poll_us: int = setting("ottla.idle.poll.us", 250, low=0, high=10_000)
    """How many microseconds `ottla serve` looks for the next request before it sleeps, where
    requests have come that fast: to be woken takes longer.  0 is never."""

    broker_rack: str | None = setting("broker.rack", None, kind=Kind.STRING, nullable=True)
    """Where the broker stands; replicas of a partition are spread over racks."""

    num_partitions: int = setting("num.partitions", 1, low=1)
    """How many partitions a topic gets if nobody says."""

    default_replication_factor: int = setting("default.replication.factor", 1, low=1)
    """How many replicas a partition gets if nobody says."""

    auto_create_topics: bool = setting("auto.create.topics.enable", True)
    """Whether asking for a topic creates it.  Convenient at first; a typo is a topic, too."""

    delete_topic_enable: bool = setting("delete.topic.enable", True)
    """Whether topics can be deleted at all."""

    max_connections: int = setting("max.connections", 10_000, low=0)
    """How many connections there may be at a time.  Kafka has no limit by default."""

    max_connections_per_ip: int = setting("max.connections.per.ip", INT32_MAX, low=1)
    """How many of them may come from one address."""

    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms", 10 * MINUTE_MS, kind=Kind.LONG, low=-1
    )
    """After how long a silent connection is closed; -1 is never."""

    socket_request_max_bytes: int = setting("socket.request.max.bytes", 100 * MIB, low=1)
    """The largest request that is read."""

    socket_listen_backlog_size: int = setting("socket.listen.backlog.size", 50, low=1)
    """How many connections may wait to be accepted."""

    max_in_flight_requests: int = setting("ottla.max.in.flight.requests", 100, low=1)
    """How many requests of one connection may wait for their answers; then reading pauses."""

    connection_queued_max_bytes: int = setting(
        "ottla.connection.queued.max.bytes", 110 * MIB, kind=Kind.SIZE, low=KIB
    )
    """How many bytes one connection may have in memory, requests and answers together."""

    queued_max_request_bytes: int = setting(
        "queued.max.request.bytes", 512 * MIB, kind=Kind.LONG, low=-1
    )
    """How many bytes all connections together may have in memory; -1 is no limit, which is Kafka's
    default."""

    max_decompressed_bytes: int = setting(
        "ottla.max.decompressed.bytes", 128 * MIB, kind=Kind.SIZE, low=MIB
    )
    """How large one batch may become when it is decompressed; a kilobyte can hold a gigabyte."""

    fetch_max_bytes: int = setting("fetch.max.bytes", 55 * MIB, low=KIB)
    """How much one fetch returns at most, whatever the client asks for."""

    fetch_session_slots: int = setting("max.incremental.fetch.session.cache.slots", 1_000, low=0)
    """How many incremental fetch sessions are kept."""

    max_request_partitions: int = setting("max.request.partition.size.limit", 2_000, low=1)
    """How many partitions one answer to DescribeTopicPartitions holds at most."""

    retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms", 5 * MINUTE_MS, kind=Kind.LONG, low=1
    )
    """How often old segments are looked for."""

    recovery_point_interval_ms: int = setting(
        "log.flush.offset.checkpoint.interval.ms", MINUTE_MS, low=0
    )
    """How often it is noted up to where logs are known to be on disk: recovery starts there."""

    log_start_interval_ms: int = setting(
        "log.flush.start.offset.checkpoint.interval.ms", MINUTE_MS, low=0
    )
    """How often the first offset of each log is noted."""

    cleaner: CleanerConfig = field(default_factory=CleanerConfig)
    groups: GroupConfig = field(default_factory=GroupConfig)
    transactions: TransactionConfig = field(default_factory=TransactionConfig)

    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    """Broker-level defaults for topics that were given, as text: `log.retention.hours` -> "24"."""

    given: frozenset[str] = frozenset()
    """The names of all settings that were given, whatever their value."""

    ignored: Mapping[str, str] = field(default_factory=dict)
    """Kafka's settings that were given and have no effect, and why."""

    def __post_init__(self) -> None:
        check_ranges(self)
        self._check_listeners()
        if len(self.log_dirs) != 1:
            raise ConfigError(f"log.dirs needs exactly one directory, not {len(self.log_dirs)}")
        limit, largest = self.queued_max_request_bytes, self.socket_request_max_bytes
        if 0 < limit < largest:
            raise ConfigError(
                f"queued.max.request.bytes = {limit} has no room for one request of "
                f"socket.request.max.bytes = {largest}"
            )
        if self.connection_queued_max_bytes < largest:
            raise ConfigError(
                f"ottla.connection.queued.max.bytes = {self.connection_queued_max_bytes} has no "
                f"room for one request of socket.request.max.bytes = {largest}"
            )
        LogConfig.of(self.topic_defaults, {})

    def _check_listeners(self) -> None:
        for name, texts in (
            ("listeners", self.listeners),
            ("advertised.listeners", self.advertised_listeners),
        ):
            if len(texts) > 1 or (name == "listeners" and not texts):
                raise ConfigError(f"{name} needs exactly one listener, not {len(texts)}")
            for endpoint in map(Endpoint.parse, texts):
                if endpoint.name != PLAINTEXT:
                    raise ConfigError(
                        f"{name} = {','.join(texts)} needs {endpoint.name}; only PLAINTEXT is "
                        f"there, TLS and SASL are not yet"
                    )
        if not self.listener.is_loopback and not self.insecure:
            raise ExposedError(
                f"listeners = {self.listeners[0]} can be reached from other machines, and there is "
                f"no TLS or SASL yet: listen on localhost, or set ottla.insecure = true"
            )
        advertised = self.advertised
        if advertised is not None and advertised.host in ("", "0.0.0.0", "::"):
            raise ConfigError(
                f"advertised.listeners = {self.advertised_listeners[0]} is no address that a "
                f"client could connect to"
            )

    @classmethod
    def of(cls, mapping: Mapping[str, object]) -> Self:
        """Build a broker's settings from dotted names; see `ottla.config.from_mapping`."""
        own, topics, ignored = {}, {}, {}
        known = settings_of(BrokerConfig)
        names = {alias: name for name, declared in known.items() for alias in declared.aliases}
        defaults = broker_level()
        for name, value in _without_controllers(mapping).items():
            if name in known or name in names:
                own[name] = value
            elif name in defaults:
                topics[name] = defaults[name].text(defaults[name].parse(value)) or ""
            elif (reason := reason_to_ignore(name)) is not None:
                ignored[name] = reason
            elif (reason := reason_to_refuse(name)) is not None:
                raise ConfigError(f"{name} cannot be set: {reason}")
            else:
                raise unknown_setting(name, [*known, *names, *defaults])
        return from_mapping(
            cls,
            own,
            topic_defaults=topics,
            given=frozenset({*(names.get(name, name) for name in own), *topics}),
            ignored=ignored,
        )

    @property
    def data_dir(self) -> str:
        return self.log_dirs[0]

    @property
    def listener(self) -> Endpoint:
        """Where the broker listens."""
        return Endpoint.parse(self.listeners[0])

    @property
    def advertised(self) -> Endpoint | None:
        """What clients are told; None is the address it listens on."""
        if not self.advertised_listeners:
            return None
        return Endpoint.parse(self.advertised_listeners[0])


def _without_controllers(mapping: Mapping[str, object]) -> Mapping[str, object]:
    """Leave out the listeners of Kafka's controllers: here, nobody would connect to them."""
    controllers = _split(mapping.get("controller.listener.names", ""))
    listeners = {
        name: [
            item for item in _split(mapping[name]) if item.partition("://")[0] not in controllers
        ]
        for name in ("listeners", "advertised.listeners")
        if name in mapping and controllers
    }
    return {**mapping, **listeners}


def _split(value: object) -> list[str]:
    items = value.split(",") if isinstance(value, str) else value
    return [str(item).strip() for item in items] if isinstance(items, list) and items else []
