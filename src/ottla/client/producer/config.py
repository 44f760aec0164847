"""Settings of producers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.config import ClientConfig, plug, tuple_of
from ottla.config import INT32_MAX, MIB, MINUTE_MS, SECOND_MS, Kind, setting
from ottla.errors import ConfigError

PARTITIONERS: Final = ("murmur2", "consistent_random", "round_robin", "sticky")
Partitioner = Callable[[str, bytes | None, bytes | None, Sequence[int]], int]
"""(topic, key, value, partitions) -> the partition."""

ALL_REPLICAS: Final = -1
MAX_IN_FLIGHT_IDEMPOTENT: Final = 5
"""Brokers remember the last five batches of a producer, and can tell no more of them apart."""

_ACKS: Final = {"all": ALL_REPLICAS, "-1": ALL_REPLICAS, "0": 0, "1": 1}


def _read_acks(value: object) -> int:
    text = str(value).strip().lower()
    if isinstance(value, bool) or text not in _ACKS:
        raise ConfigError(f"acks = {value!r} is not one of all, -1, 0, 1")
    return _ACKS[text]


def _read_partitioner(value: object) -> Any:
    if callable(value) or (isinstance(value, str) and value in PARTITIONERS):
        return value
    raise ConfigError(
        f"partitioner = {value!r} is neither a function nor one of {', '.join(PARTITIONERS)}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """How a producer batches, retries, and gives up."""

    acks: int = plug("acks", ALL_REPLICAS, _read_acks)
    """all, or -1: every in-sync replica has the record; 1: the leader has it; 0: do not ask."""

    enable_idempotence: bool | None = setting(
        "enable.idempotence", None, kind=Kind.BOOL, nullable=True
    )
    """Whether brokers drop what arrives twice.  Without a value it is on, unless acks or retries
    forbid it; see `is_idempotent`."""

    transactional_id: str | None = setting(
        "transactional.id", None, kind=Kind.STRING, nullable=True, pattern=r".+"
    )
    """The name under which transactions are made; a newer producer of that name fences this one."""

    transaction_timeout_ms: int = setting("transaction.timeout.ms", MINUTE_MS, low=1)
    """How long a transaction may stay open before the broker aborts it."""

    transaction_two_phase_commit_enable: bool = setting(
        "transaction.two.phase.commit.enable", False
    )
    """Whether another process may end a transaction; such transactions never expire."""

    linger_ms: float = setting("linger.ms", 5.0, low=0)
    """How long a batch waits for company.  0 sends at once, and fills batches badly."""

    batch_size: int = setting("batch.size", 1_000_000, low=0)
    """How many bytes a batch may have before it is sent; a larger record gets one of its own.
    Memory is used as records come, so that our default can be larger than Kafka's 16384: a request
    costs as much as several hundred small records."""

    buffer_memory: int = setting("buffer.memory", 32 * MIB, kind=Kind.LONG, low=0)
    """How many bytes may wait to be sent; beyond that, send blocks for up to max.block.ms."""

    max_block_ms: int = setting("max.block.ms", MINUTE_MS, kind=Kind.LONG, low=0)
    """How long send waits for metadata and for room in the buffer."""

    max_request_size: int = setting("max.request.size", MIB, low=0)
    """How many bytes a request, and so a record, may have."""

    delivery_timeout_ms: int = setting("delivery.timeout.ms", 2 * MINUTE_MS, low=0)
    """How long after send a record may be delivered; then it has failed, whatever came of it."""

    retries: int = setting("retries", INT32_MAX, low=0)
    """How often a batch is sent again, within delivery.timeout.ms."""

    max_in_flight_requests_per_connection: int = setting(
        "max.in.flight.requests.per.connection", 5, low=1, aliases=("max.in.flight",)
    )
    """How many requests may wait for their answers on one connection; more than 5 need
    enable.idempotence = false, which may reorder records when one is repeated."""

    compression_type: str = setting(
        "compression.type",
        "none",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        aliases=("compression.codec",),
    )
    """How batches are compressed."""

    compression_gzip_level: int = setting("compression.gzip.level", -1, low=-1, high=9)
    """-1 is the library's own choice."""

    compression_lz4_level: int = setting("compression.lz4.level", 9, low=1, high=17)
    """Higher takes more time, for fewer bytes."""

    compression_zstd_level: int = setting("compression.zstd.level", 3, low=-131_072, high=22)
    """Higher takes more time, for fewer bytes."""

    partitioner: Partitioner | str = plug("partitioner", "murmur2", _read_partitioner)
    """murmur2: as Java's producer does it; consistent_random: as librdkafka does; round_robin;
    sticky: keys do not matter; or a function of yours.  Records without a key stay together for a
    batch, then move on (KIP-794)."""

    partitioner_ignore_keys: bool = setting("partitioner.ignore.keys", False)
    """Whether records with keys are spread like those without."""

    partitioner_adaptive_partitioning_enable: bool = setting(
        "partitioner.adaptive.partitioning.enable", True
    )
    """Whether records without keys avoid brokers that are slow."""

    partitioner_availability_timeout_ms: int = setting(
        "partitioner.availability.timeout.ms", 0, kind=Kind.LONG, low=0
    )
    """How long a broker may take nothing before its partitions are avoided; 0: never."""

    partitioner_rack_aware: bool = setting("partitioner.rack.aware", False)
    """Whether records without keys prefer leaders in client.rack."""

    client_rack: str = setting("client.rack", "")
    """Where the client is, in the words of broker.rack."""

    metadata_max_idle_ms: int = setting(
        "metadata.max.idle.ms", 5 * MINUTE_MS, kind=Kind.LONG, low=5 * SECOND_MS
    )
    """How long metadata of a topic is kept that nothing is sent to."""

    allow_auto_create_topics: bool = setting("allow.auto.create.topics", True)
    """Whether sending to a topic may create it, where the broker does so.  Kafka's producers, which
    have no such setting, always may; without it, a name that is misspelled is an error here, too.
    """

    interceptors: tuple[Any, ...] = plug(
        "interceptors", (), tuple_of("interceptors", ("on_send", "on_ack"))
    )
    """Objects that see each record before it is sent, and what became of it."""

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is another class than the one that super() means.
        ClientConfig.__post_init__(self)
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigError(
                f"delivery.timeout.ms = {self.delivery_timeout_ms} leaves no time for one attempt: "
                f"linger.ms + request.timeout.ms = {self.linger_ms:g} + {self.request_timeout_ms}"
            )
        if self.enable_idempotence and (conflict := self._idempotence_conflict()):
            raise ConfigError(f"enable.idempotence = true does not go with {conflict}")
        if self.is_idempotent and (
            self.max_in_flight_requests_per_connection > MAX_IN_FLIGHT_IDEMPOTENT
        ):
            raise ConfigError(
                "max.in.flight.requests.per.connection = "
                f"{self.max_in_flight_requests_per_connection} is more than the "
                f"{MAX_IN_FLIGHT_IDEMPOTENT} that enable.idempotence allows"
            )
        if self.transactional_id is not None and not self.is_idempotent:
            reason = self._idempotence_conflict() or "enable.idempotence = false"
            raise ConfigError(f"transactional.id does not go with {reason}")

    @property
    def is_idempotent(self) -> bool:
        """Whether batches are numbered: as asked for, else wherever nothing forbids it."""
        if self.enable_idempotence is None:
            return not self._idempotence_conflict()
        return self.enable_idempotence

    def _idempotence_conflict(self) -> str:
        if self.acks != ALL_REPLICAS:
            return f"acks = {self.acks}"
        return "retries = 0" if self.retries == 0 else ""

    @classmethod
    def _check_given(cls, values: Mapping[str, Any]) -> None:
        if values.get("transaction_two_phase_commit_enable") and "transaction_timeout_ms" in values:
            raise ConfigError(
                "transaction.timeout.ms does not go with transaction.two.phase.commit.enable: "
                "such transactions never expire"
            )
