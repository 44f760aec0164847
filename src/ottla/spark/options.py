"""Every option of `format("ottla")`, declared once: its name, what it means, what it may be.

Names and meanings are those of Spark's own Kafka source and sink wherever those have the option, so
that a job moves by changing the name of its format.  Spark hands options over with their names in
lower case, so case never matters.  What begins with `kafka.` is a setting of the client and is
read by it.  An option that nobody knows is an error, never ignored.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from ottla.client.admin.config import AdminConfig
from ottla.client.config import BOOTSTRAP_VARIABLE, ClientConfig
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.producer.config import ProducerConfig
from ottla.config import (
    Declared,
    Kind,
    Setting,
    check_ranges,
    setting,
    settings_of,
    unknown_setting,
)
from ottla.errors import ConfigError
from ottla.model import TopicPartition, topic_name_error
from ottla.spark.option_values import assigned_partitions, duration_ms, positions, size_bytes

CLIENT_PREFIX: Final = "kafka."
NO_EFFECT: Final = {
    "groupIdPrefix": "no group is joined, so none needs a name",
    "fetchOffset.numRetries": "retryTimeout says how long the driver asks again",
    "fetchOffset.retryIntervalMs": "retryTimeout says how long the driver asks again",
    "partition.metadata.cache.ttl.ms": "brokers are asked for all partitions in one request",
}
"""Options of Spark's Kafka source that are accepted, and why there is nothing to do for them."""

FORBIDDEN: Final = {
    "auto.offset.reset": "use startingOffsets, which counts only where no checkpoint does",
    "enable.auto.commit": "offsets are committed with the output; set kafka.group.id to see them",
    "key.deserializer": "keys are binary, or text where .schema() says string",
    "value.deserializer": "use valueFormat, or decode the column with functions of Spark",
    "key.serializer": "the column key is written as it is: binary or string",
    "value.serializer": "the column value is written as it is: binary or string",
    "interceptor.classes": "there is no Java class to call",
    "assignment.strategy": "Spark plans who reads what",
    "partition.assignment.strategy": "Spark plans who reads what",
}
"""Settings that a job must not make -> what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """What source and sink have in common."""

    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of the client, without their prefix; `bootstrap.servers` is always among them."""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Read options as Spark hands them over.

        Raises:
            ConfigError: One is unknown, forbidden, not of its type, or contradicts another.
        """
        options = cls(**_read(cls, given))
        check_ranges(options)
        options.check()
        return options

    def check(self) -> None:
        """Raise `ConfigError` if the options contradict each other."""

    def client_config(
        self, kind: type[ClientConfig], more: Mapping[str, object] | None = None
    ) -> Any:
        """The settings of a client of some kind; those in `more` win over the user's.

        What the user set for readers or writers is no setting of an admin client, and left out.
        """
        own: Mapping[str, object] = self.client
        if kind is AdminConfig:
            known = _names(settings_of(AdminConfig).values())
            own = {name: value for name, value in own.items() if name in known}
        return kind.of(config={**own, **(more or {})})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(_Options):
    """What `spark.read` and `spark.readStream` take."""

    subscribe: tuple[str, ...] = setting("subscribe", ())
    """The topics to read, with commas between them.  One of subscribe, subscribePattern and assign
    is needed."""

    subscribe_pattern: str | None = setting(
        "subscribePattern", None, kind=Kind.STRING, nullable=True
    )
    """A regular expression: read all topics whose whole name matches, now and later."""

    assign: str | None = setting("assign", None, kind=Kind.STRING, nullable=True)
    """The partitions to read, as JSON: {"orders": [0, 1]}."""

    starting_offsets: str | None = setting("startingOffsets", None, kind=Kind.STRING, nullable=True)
    """Where to begin without a checkpoint: earliest (default of a batch), latest (default of a
    stream), group (where kafka.group.id left off; earliest for partitions it does not know), or
    JSON: {"orders": {"0": 23, "1": -1}}, -2 for earliest, -1 for latest.  New partitions begin at
    their first offset."""

    starting_timestamp: int | None = setting(
        "startingTimestamp", None, kind=Kind.LONG, nullable=True, low=0
    )
    """Begin with the first record that is not older, in milliseconds since 1970.  Stronger than
    startingOffsetsByTimestamp, which is stronger than startingOffsets."""

    starting_offsets_by_timestamp: str | None = setting(
        "startingOffsetsByTimestamp", None, kind=Kind.STRING, nullable=True
    )
    """The same for each partition, as JSON: {"orders": {"0": 1760000000000}}."""

    starting_timestamp_strategy: str = setting(
        "startingOffsetsByTimestampStrategy", "error", choices=("error", "latest")
    )
    """What to do where no record is that new: fail, or begin at the end."""

    ending_offsets: str | None = setting("endingOffsets", None, kind=Kind.STRING, nullable=True)
    """Where a batch ends: latest (default), or JSON as for startingOffsets, without -2."""

    ending_timestamp: int | None = setting(
        "endingTimestamp", None, kind=Kind.LONG, nullable=True, low=0
    )
    """A batch ends before the first record of this time or a later one, or at the end."""

    ending_offsets_by_timestamp: str | None = setting(
        "endingOffsetsByTimestamp", None, kind=Kind.STRING, nullable=True
    )
    """The same for each partition, as JSON."""

    max_offsets_per_trigger: int | None = setting(
        "maxOffsetsPerTrigger", None, kind=Kind.LONG, nullable=True, low=1
    )
    """How many offsets a micro-batch has, at most; partitions get shares of what each has to
    give."""

    max_bytes_per_trigger: str | None = setting(
        "maxBytesPerTrigger", None, kind=Kind.STRING, nullable=True
    )
    """About how many bytes a micro-batch has, at most, as stored: 64m, 1g.  How many offsets that
    is, is estimated from the next records of each partition."""

    min_offsets_per_trigger: int | None = setting(
        "minOffsetsPerTrigger", None, kind=Kind.LONG, nullable=True, low=1
    )
    """Do not begin a micro-batch with fewer offsets, unless maxTriggerDelay has passed."""

    max_trigger_delay: str = setting("maxTriggerDelay", "15m")
    """How long minOffsetsPerTrigger may hold a micro-batch back: 30s, 15m, 1h."""

    min_partitions: int | None = setting("minPartitions", None, kind=Kind.INT, nullable=True, low=1)
    """Make at least so many tasks, by dividing the largest ranges."""

    max_records_per_partition: int | None = setting(
        "maxRecordsPerPartition", None, kind=Kind.LONG, nullable=True, low=1
    )
    """No task reads more offsets than this."""

    fail_on_data_loss: bool = setting("failOnDataLoss", True)
    """Fail when records are gone that were not read: retention passed, a topic was deleted or made
    anew.  With false, go on with what is there, and warn."""

    include_headers: bool = setting("includeHeaders", False)
    """Add the column headers, an array of key and value."""

    group: str | None = setting(
        "group", None, kind=Kind.STRING, nullable=True, aliases=("kafka.group.id",)
    )
    """The consumer group for which finished batches are committed, so that tools see the lag.  It
    is not joined, and must have no members."""

    commit_offsets: bool = setting("commitOffsets", True)
    """Whether the source commits what is finished for that group.  Ottla's exactly-once sink does
    so with its output in any case."""

    value_format: str | None = setting(
        "valueFormat",
        None,
        kind=Kind.STRING,
        nullable=True,
        choices=("binary", "string", "json", "csv", "avro"),
    )
    """How values are decoded: with json, csv and avro, the columns of .schema() are fields of the
    value, and the record's own have a name with an underscore: _key, _value, _topic, _partition,
    _offset, _timestamp, _timestampType, _headers."""

    mode: str = setting("mode", "PERMISSIVE", choices=("PERMISSIVE", "DROPMALFORMED", "FAILFAST"))
    """What becomes of a value that cannot be decoded: fields are null and the value is in
    columnNameOfCorruptRecord, or the row is left out, or the query fails."""

    corrupt_record_column: str = setting("columnNameOfCorruptRecord", "_corrupt_record")
    """Where .schema() has a string column of this name, it holds what could not be decoded."""

    avro_schema: str | None = setting("avroSchema", None, kind=Kind.STRING, nullable=True)
    """With valueFormat = avro: the schema that values were written with, as JSON."""

    schema_registry: str | None = setting(
        "schemaRegistry", None, kind=Kind.STRING, nullable=True, aliases=("schema.registry.url",)
    )
    """With valueFormat = avro: the address of the registry that has the schemas, whose numbers
    stand before the values (Confluent's format)."""

    separator: str = setting("sep", ",", aliases=("delimiter",))
    """With valueFormat = csv: what stands between fields, one character."""

    quote: str = setting("quote", '"')
    """With valueFormat = csv: what fields are quoted with, one character."""

    null_value: str = setting("nullValue", "")
    """With valueFormat = csv: the text that means null."""

    retry_timeout: str = setting("retryTimeout", "2m")
    """How long the driver asks again while brokers cannot be reached, before the query fails."""

    poll_timeout_ms: int = setting("kafkaConsumer.pollTimeoutMs", 120_000, low=1, kind=Kind.LONG)
    """How long a task waits for records that should be there, before it fails."""

    long_poll_ms: int = setting("longPollMs", 500, low=0, high=60_000)
    """How long an idle query waits for records before Spark is told that there are none."""

    batch_rows: int = setting("batchRows", 50_000, low=1, high=1_000_000)
    """How many rows of Arrow a task hands to Spark at a time, at most."""

    def check(self) -> None:
        """Raise `ConfigError` if the options contradict each other."""
        _check_topics(self)
        _check_limits(self)
        _check_decoding(self)
        _ = self.max_trigger_delay_ms, self.retry_timeout_ms, self.max_bytes
        self.client_config(ConsumerConfig)
        if self.starting_offsets == "group" and self.group is None:
            raise ConfigError("startingOffsets = group needs kafka.group.id, whose offsets count")

    def check_for_stream(self) -> None:
        """Raise `ConfigError` for options that only a batch understands."""
        given = {
            "endingOffsets": self.ending_offsets,
            "endingTimestamp": self.ending_timestamp,
            "endingOffsetsByTimestamp": self.ending_offsets_by_timestamp,
        }
        for name, value in given.items():
            if value is not None:
                raise ConfigError(f"{name} is an option of spark.read; a stream has no end")

    def check_for_batch(self) -> None:
        """Raise `ConfigError` for what only a stream can do."""
        if self.starting_offsets == "latest":
            raise ConfigError("startingOffsets = latest is for streams: a batch would be empty")
        if self.ending_offsets == "earliest":
            raise ConfigError("endingOffsets = earliest would leave nothing to read")

    @property
    def max_trigger_delay_ms(self) -> int:
        return duration_ms("maxTriggerDelay", self.max_trigger_delay)

    @property
    def retry_timeout_ms(self) -> int:
        return duration_ms("retryTimeout", self.retry_timeout)

    @property
    def max_bytes(self) -> int | None:
        """`maxBytesPerTrigger` as a number."""
        text = self.max_bytes_per_trigger
        return None if text is None else size_bytes("maxBytesPerTrigger", text)

    @property
    def is_committed_only(self) -> bool:
        """Whether records of open and aborted transactions stay unseen: our default."""
        return self.client.get("isolation.level", "read_committed") == "read_committed"

    def chooses(self, tp: TopicPartition) -> bool:
        """Whether this source reads a partition, if it exists."""
        if self.subscribe_pattern is not None:
            return re.fullmatch(self.subscribe_pattern, tp.topic) is not None
        return tp.topic in self.subscribe or tp in self.assigned

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        """`assign`, read."""
        return () if self.assign is None else assigned_partitions(self.assign)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(_Options):
    """What `df.write` and `df.writeStream` take."""

    topic: str | None = setting("topic", None, kind=Kind.STRING, nullable=True)
    """Where to write.  Stronger than a column topic, which is needed without it."""

    delivery: str = setting("delivery", "exactly-once", choices=("exactly-once", "at-least-once"))
    """exactly-once: each micro-batch is in the log once, or not at all, whatever fails;
    at-least-once: cheaper, and repeated after a failure."""

    transactional_id_prefix: str | None = setting(
        "transactionalIdPrefix", None, kind=Kind.STRING, nullable=True, pattern=r".+"
    )
    """The name under which exactly-once writes are known to brokers: one for each sink of each
    job, and the same after a restart.  By default it comes from the id of the query."""

    partitioner: str = setting(
        "partitioner", "murmur2", choices=("murmur2", "consistent_random", "random")
    )
    """Which partition a row without a column partition goes to."""

    compression: str | None = setting(
        "compression",
        None,
        kind=Kind.STRING,
        nullable=True,
        aliases=("kafka.compression.type",),
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
    )
    """How batches of records are compressed."""

    include_headers: bool = setting("includeHeaders", False)
    """Accepted as Spark's sink does: a column headers is written either way."""

    trace_headers: bool = setting("traceHeaders", False)
    """Where tasks are traced: whether each record carries the context of the task that wrote it, if
    the rows have no column headers."""

    checkpoint_location: str | None = setting(
        "checkpointLocation", None, kind=Kind.STRING, nullable=True
    )
    """Set by Spark: where the query keeps its offsets."""

    query_name: str | None = setting("queryName", None, kind=Kind.STRING, nullable=True)
    """Set by Spark: the name of the query."""

    batch_id: int | None = setting("batchId", None, kind=Kind.LONG, nullable=True, low=0)
    """Set by `ottla.spark.foreach_batch`: the number of the micro-batch that is written."""

    after_loss: str | None = setting(
        "afterLoss", None, kind=Kind.STRING, nullable=True, pattern=r"(rewrite|skip) [0-9]+"
    )
    """What to do about a batch of which a part has expired on a broker without two-phase commit:
    rewrite or skip, and its number; the error that tells of it says more."""

    retry_timeout: str = setting("retryTimeout", "2m")
    """How long the driver asks again while brokers cannot be reached, before the query fails."""

    def check(self) -> None:
        """Raise `ConfigError` if the options contradict each other."""
        if self.topic is not None and (trouble := topic_name_error(self.topic)):
            raise ConfigError(f"topic: {trouble}")
        _ = self.retry_timeout_ms
        self.client_config(ProducerConfig)

    @property
    def retry_timeout_ms(self) -> int:
        return duration_ms("retryTimeout", self.retry_timeout)


class _Sorted(NamedTuple):
    own: dict[str, str]
    client: dict[str, str]


def _read(cls: type[Declared], given: Mapping[str, str]) -> dict[str, Any]:
    """Attribute -> typed value, of everything that was given; and the settings of the client."""
    declared = settings_of(cls)
    names = _names(declared.values())
    own, client = _sorted_out(given, names)
    values: dict[str, Any] = {}
    for name, text in own.items():
        option = declared[names[name.lower()]]
        if option.attribute in values:
            raise ConfigError(f"{option.name} is given twice, once as {name}")
        values[option.attribute] = _parsed(option, text)
    if "bootstrap.servers" not in client:
        if not (servers := os.environ.get(BOOTSTRAP_VARIABLE)):
            raise ConfigError(
                'which brokers? .option("kafka.bootstrap.servers", "host:9092") says it, or the '
                f"environment variable {BOOTSTRAP_VARIABLE}"
            )
        client["bootstrap.servers"] = servers
    return {**values, "client": client}


def _names(declared: Iterable[Setting]) -> dict[str, str]:
    """Every name of an option in lower case -> the name under which it is declared."""
    return {name.lower(): one.name for one in declared for name in (one.name, *one.aliases)}


def _sorted_out(given: Mapping[str, str], names: Mapping[str, str]) -> _Sorted:
    found = _Sorted({}, {})
    for name, text in given.items():
        low = name.lower()
        if low in names:
            found.own[name] = text
        elif low.startswith(CLIENT_PREFIX):
            setting_name = low.removeprefix(CLIENT_PREFIX)
            if setting_name in FORBIDDEN:
                raise ConfigError(f"{name} cannot be set: {FORBIDDEN[setting_name]}")
            found.client[setting_name] = text
        elif low not in map(str.lower, NO_EFFECT):
            raise _unknown(name, names)
    return found


def _unknown(name: str, names: Mapping[str, str]) -> ConfigError:
    low = name.lower()
    if low in settings_of(ConsumerConfig) or low in settings_of(ProducerConfig):
        return ConfigError(
            f"unknown option {name!r}: settings of the client are {CLIENT_PREFIX}*, "
            f"so {CLIENT_PREFIX}{low}"
        )
    if low in FORBIDDEN:
        return ConfigError(f"{name} cannot be set: {FORBIDDEN[low]}")
    close = str(unknown_setting(low, names)).partition("did you mean ")[2].removesuffix("?")
    hint = f"; did you mean {names[close]}?" if close else ""
    return ConfigError(f"unknown option {name!r}{hint}")


def _parsed(option: Setting, text: str) -> Any:
    if option.choices and option.kind is Kind.STRING:
        # Spark's own options are of any case.
        by_low = {choice.lower(): choice for choice in option.choices}
        text = by_low.get(text.strip().lower(), text)
    if option.name in ("sep", "quote", "nullValue"):
        return text  # white space counts
    return option.parse(text)


def _check_topics(options: SourceOptions) -> None:
    ways = {
        "subscribe": bool(options.subscribe),
        "subscribePattern": options.subscribe_pattern is not None,
        "assign": options.assign is not None,
    }
    chosen = [name for name, is_given in ways.items() if is_given]
    if len(chosen) != 1:
        told = "none is" if not chosen else f"{' and '.join(chosen)} are"
        raise ConfigError(f"one of {', '.join(ways)} says what to read; {told} given")
    for topic in options.subscribe:
        if trouble := topic_name_error(topic):
            raise ConfigError(f"subscribe: {trouble}")
    if options.subscribe_pattern is not None:
        try:
            re.compile(options.subscribe_pattern)
        except re.error as error:
            raise ConfigError(
                f"subscribePattern = {options.subscribe_pattern!r} is no regular expression: "
                f"{error}"
            ) from None
    _ = options.assigned


def _check_limits(options: SourceOptions) -> None:
    low, high = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if low is not None and high is not None and low > high:
        raise ConfigError(
            f"minOffsetsPerTrigger = {low} is more than maxOffsetsPerTrigger = {high}"
        )
    words = {"startingOffsets": ("earliest", "latest", "group"), "endingOffsets": ("latest",)}
    texts = {
        "startingOffsets": options.starting_offsets,
        "endingOffsets": options.ending_offsets,
        "startingOffsetsByTimestamp": options.starting_offsets_by_timestamp,
        "endingOffsetsByTimestamp": options.ending_offsets_by_timestamp,
    }
    for name, text in texts.items():
        if text is not None and text not in words.get(name, ()) and text != "earliest":
            positions(name, text)


def _check_decoding(options: SourceOptions) -> None:
    if len(options.separator) != 1 or len(options.quote) > 1:
        raise ConfigError("sep is one character, and quote one or none")
    given = {"avroSchema": options.avro_schema, "schemaRegistry": options.schema_registry}
    for name, value in given.items():
        if value is not None and options.value_format != "avro":
            raise ConfigError(f"{name} is for valueFormat = avro")
    if options.value_format == "avro" and all(value is None for value in given.values()):
        raise ConfigError("valueFormat = avro needs avroSchema or schemaRegistry")
