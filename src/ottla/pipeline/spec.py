"""The words a pipeline is written in: `topic`, `table`, `to`, `step`, `sql`; and what they make.

A declaration is a value and does nothing: it connects to no broker and imports no Spark.  What can
be wrong with one declaration alone is refused here, at the line that is wrong; what can be wrong
between them is found by `graph`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from ottla.errors import ConfigError
from ottla.model import topic_name_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Mode = Literal["append", "update", "complete"]
Delivery = Literal["exactly-once", "at-least-once"]
Format = Literal["json", "csv", "avro"]

MODES: Final = ("append", "update", "complete")
DELIVERIES: Final = ("exactly-once", "at-least-once")
FORMATS: Final = ("json", "csv", "avro")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NOT_IN_VIEWS: Final = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic that a step reads, and how its values are understood."""

    name: str
    is_pattern: bool = False
    schema: str | None = None
    """The columns of a value, as Spark writes them; None: rows are key, value, topic, ..."""
    format: Format = "json"
    watermark: tuple[str, str] | None = None
    """A column of event time, and how late a row may come."""
    start: str = "earliest"
    view: str = ""
    """The name of the table in SQL."""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that do not stream: read once, when the pipeline starts."""

    read: "Callable[[SparkSession], DataFrame]"
    view: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where a step writes, and how a row becomes a record."""

    topics: tuple[str, ...]
    """With more than one, a column `topic` says which."""
    key: str | None = None
    """The column that becomes the record's key."""
    mode: Mode = "append"
    delivery: Delivery = "exactly-once"
    partitions: int = -1
    """How many partitions a topic gets that must be made; -1: as many as the broker finds right."""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A function between topics.  Calling it calls the function, so that tests can."""

    name: str
    sources: tuple[Topic | Table, ...]
    sink: Sink
    transform: "Callable[..., DataFrame] | None" = None
    query: str | None = None
    """SQL in place of a function."""
    dead_letter: str | None = None
    """The topic for rows that do not parse."""

    def __call__(self, *frames: "DataFrame", **others: Any) -> "DataFrame":
        if self.transform is None:
            raise TypeError(f"step {self.name!r} is SQL; there is no function to call")
        return self.transform(*frames, **others)

    @property
    def topics(self) -> tuple[Topic, ...]:
        """What it reads that streams."""
        return tuple(source for source in self.sources if isinstance(source, Topic))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Every topic that it writes to."""
        return (*self.sink.topics, *(() if self.dead_letter is None else (self.dead_letter,)))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Steps that run together under one name."""

    name: str
    steps: tuple[Step, ...]

    def group_of(self, step: Step) -> str:
        """The consumer group under which tools see how far a step came."""
        return f"{self.name}.{step.name}"


def topic(
    name: str,
    schema: str | None = None,
    *,
    format: Format = "json",  # noqa: A002 - as in spark.read.format
    watermark: tuple[str, str] | None = None,
    start: str = "earliest",
    pattern: bool = False,
    view: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Topic:
    """A topic to read, for `source=` of a step.

    Args:
        name: Its name; with `pattern`, a regular expression of names.
        schema: The columns of its values, e.g. `"id long not null, at timestamp"`.  A value that
            does not have them goes to the step's dead-letter topic, or fails the step.  Columns
            that are `not null` must be there.  Without a schema the step gets records as they are.
        format: How values are written.
        watermark: A column of time, and how late a row may be: `("at", "10 minutes")`.
        start: Where a new pipeline begins: `earliest`, `latest`, or JSON as `startingOffsets`.
        pattern: Whether `name` is a regular expression.
        view: Its name in SQL; by default its own, with `_` for what SQL does not allow.
        options: More options of `format("ottla")`.
    """
    if not pattern:
        _check_topic(name)
    if format not in FORMATS:
        raise ConfigError(f"format={format!r} is not one of {', '.join(FORMATS)}")
    if watermark is not None and schema is None:
        raise ConfigError(f"topic {name!r}: a watermark needs a schema with its column")
    return Topic(
        name=name,
        is_pattern=pattern,
        schema=schema,
        format=format,
        watermark=watermark,
        start=start,
        view=view or _NOT_IN_VIEWS.sub("_", name).strip("_"),
        options=dict(options or {}),
    )


def table(read: "Callable[[SparkSession], DataFrame]") -> Table:
    """Make a function from session to DataFrame a table that steps can join with.

    It is called once, when the pipeline starts::

        @pipeline.table
        def customers(spark):
            return spark.read.csv("customers.csv", header=True)
    """
    return Table(read, read.__name__)


def to(
    *topics: str,
    key: str | None = None,
    mode: Mode = "append",
    delivery: Delivery = "exactly-once",
    partitions: int = -1,
    options: Mapping[str, str] | None = None,
) -> Sink:
    """Where to write, for `sink=` of a step, when a name alone does not say enough.

    Args:
        topics: The topic; with several of them, the column `topic` of a row says which.
        key: The column that becomes the key; rows with equal keys stay in order.
        mode: `append` writes what is final; `update` and `complete` write aggregates as they are.
        delivery: `exactly-once`, or `at-least-once`, which is cheaper and may repeat.
        partitions: How many partitions a topic gets that does not exist yet.
        options: More options of `format("ottla")`.
    """
    if not topics:
        raise ConfigError("pipeline.to() needs the name of a topic")
    for name in topics:
        _check_topic(name)
    _check_choice("mode", mode, MODES)
    _check_choice("delivery", delivery, DELIVERIES)
    return Sink(
        topics=topics,
        key=key,
        mode=mode,
        delivery=delivery,
        partitions=partitions,
        options=dict(options or {}),
    )


Source = str | Topic | Table
Sources = Source | Sequence[Source]


def step(
    *,
    source: Sources,
    sink: str | Sink,
    dead_letter: str | None = None,
    name: str | None = None,
) -> "Callable[[Callable[..., DataFrame]], Step]":
    """Make a function from DataFrame to DataFrame a step of the pipeline.

        @pipeline.step(source="orders", sink="orders.large")
        def large(orders):
            return orders.where("length(value) > 1000")

    Args:
        source: What it reads: the name of a topic, `topic(...)`, a `table`, or several of them.
            The function gets a DataFrame for each, in this order.
        sink: Where it writes: the name of a topic, or `to(...)`.
        dead_letter: The topic for rows that do not parse; without it they fail the step.
        name: What the step is called; by default as the function.
    """

    def declare(transform: "Callable[..., DataFrame]") -> Step:
        made = _made(name or transform.__name__, source, sink, dead_letter)
        return replace(made, transform=transform)

    return declare


def sql(
    query: str,
    *,
    source: Sources,
    sink: str | Sink,
    dead_letter: str | None = None,
    name: str = "",
) -> Step:
    """A step in SQL; each source is a table under its own name.

        large = pipeline.sql(
            "SELECT key, value FROM orders WHERE length(value) > 1000",
            source="orders", sink="orders.large",
        )

    Args are those of `step`.  By default it is called as the variable that holds it.
    """
    if not query.strip():
        raise ConfigError("pipeline.sql() needs a query")
    return replace(_made(name, source, sink, dead_letter), query=query)


def check_name(what: str, name: str) -> None:
    """Refuse a name that could not be part of a path or of a group."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot be the name of a {what}: letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )


def _made(name: str, source: Sources, sink: str | Sink, dead_letter: str | None) -> Step:
    given = [source] if isinstance(source, str | Topic | Table) else list(source)
    if not given:
        raise ConfigError(f"step {name!r} reads nothing: source= names a topic")
    if dead_letter is not None:
        _check_topic(dead_letter)
    return Step(
        name=name,
        sources=tuple(topic(one) if isinstance(one, str) else one for one in given),
        sink=to(sink) if isinstance(sink, str) else sink,
        dead_letter=dead_letter,
    )


def _check_topic(name: str) -> None:
    if trouble := topic_name_error(name):
        raise ConfigError(trouble)


def _check_choice(what: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ConfigError(f"{what}={value!r} is not one of {', '.join(choices)}")
