"""A step as a query of Spark: sources read, the function called, the result made into records.

`frame` builds it and starts nothing, so that a plan can be checked; `start` starts it.  Everything
that must be the same after a restart follows from the names of pipeline and step: the folder of the
checkpoint, the consumer group, the name under which the sink is known to brokers.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ottla.errors import ConfigError
from ottla.pipeline.frames import (
    counted,
    dead_letters,
    joined,
    parsed,
    records,
    says_topic,
    value_schema,
)
from ottla.pipeline.progress import ROWS_IN
from ottla.pipeline.spec import Pipeline, Step, Table, Topic
from ottla.pipeline.words import in_one_line, place_of
from ottla.spark.options import SinkOptions, SourceOptions
from ottla.spark.sink.foreach import foreach_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FORMAT: Final = "ottla"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How a pipeline runs, as opposed to what it does."""

    bootstrap: str
    checkpoint: str
    """A folder or a URI; each step has a folder in it."""
    is_once: bool = False
    """Whether it ends when everything is read that was there."""
    every: str | None = None
    """How often a batch begins, as `10 seconds`; None: as soon as the one before has ended."""
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of the clients, e.g. `security.protocol`."""


class Queries:
    """Makes the queries of one pipeline; a table that several steps join with is read once."""

    def __init__(self, pipeline: Pipeline, settings: RunSettings, spark: "SparkSession") -> None:
        self._pipeline = pipeline
        self._settings = settings
        self._spark = spark
        self._tables: dict[int, DataFrame] = {}

    def frame(self, step: Step) -> "DataFrame":
        """What the step writes, as records.

        Raises:
            ConfigError: The step does not fit what it reads or where it writes.
        """
        result, letters = self._computed(step)
        return joined(records(result, step), letters)

    def columns(self, step: Step) -> dict[str, str]:
        """The columns of a step's result, before they become a record, and their types."""
        result, _ = self._computed(step)
        records(result, step)
        return dict(result.dtypes)

    def start(self, step: Step) -> "StreamingQuery":
        """Start the step, where it was, or at its beginning."""
        sink = step.sink
        frame = self.frame(step)
        options = sink_options(self._pipeline, self._settings, step)
        writer = frame.writeStream.queryName(self._pipeline.group_of(step)).outputMode(sink.mode)
        writer = writer.option("checkpointLocation", self.checkpoint_of(step))
        if self._settings.is_once:
            writer = writer.trigger(availableNow=True)
        elif self._settings.every is not None:
            writer = writer.trigger(processingTime=self._settings.every)
        with _in_words(step):
            if sink.mode == "append":
                return writer.format(FORMAT).options(**options).start()
            options["checkpointLocation"] = self.checkpoint_of(step)
            return writer.foreachBatch(foreach_batch(options)).start()

    def checkpoint_of(self, step: Step) -> str:
        """Where Spark keeps how far the step came."""
        return f"{self._settings.checkpoint.rstrip('/')}/{step.name}"

    def _computed(self, step: Step) -> "tuple[DataFrame, list[DataFrame]]":
        """The result of a step, and the records that do not parse, of each of its sources."""
        frames: list[DataFrame] = []
        letters: list[DataFrame] = []
        for number, source in enumerate(step.sources):
            if isinstance(source, Table):
                frames.append(self._table(source))
                continue
            raw = self._stream(step, source)
            if source.schema is None:
                frames.append(counted(raw, f"{ROWS_IN}_{number}"))
                continue
            frames.append(parsed(raw, source, number, fails=step.dead_letter is None))
            if step.dead_letter is not None:
                letters.append(dead_letters(raw, source, step))
        return self._result(step, frames), letters

    def _stream(self, step: Step, topic: Topic) -> "DataFrame":
        options = source_options(self._pipeline, self._settings, step, topic)
        reader = self._spark.readStream.format(FORMAT).options(**options)
        return (reader if topic.schema is None else reader.schema(value_schema(topic))).load()

    def _table(self, table: Table) -> "DataFrame":
        if id(table) not in self._tables:
            self._tables[id(table)] = table.read(self._spark)
        return self._tables[id(table)]

    def _result(self, step: Step, frames: "list[DataFrame]") -> "DataFrame":
        from pyspark.sql import DataFrame

        with _in_words(step):
            if step.transform is not None:
                result = _called(step, step.transform, frames)
            else:
                assert step.query is not None, step
                for source, frame in zip(step.sources, frames, strict=True):
                    frame.createOrReplaceTempView(source.view)
                result = self._spark.sql(step.query)
        if not isinstance(result, DataFrame):
            raise ConfigError(
                f"step {step.name!r} returned {type(result).__name__}, not a DataFrame"
            )
        if not result.isStreaming:
            raise ConfigError(f"step {step.name!r}: its result does not come from a topic")
        return result


@contextmanager
def _in_words(step: Step) -> "Iterator[None]":
    """Let what Spark says about a step be one line, with the name of the step."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        raise ConfigError(f"step {step.name!r}: {in_one_line(str(error))}") from error


def _called(
    step: Step, transform: "Callable[..., DataFrame]", frames: "list[DataFrame]"
) -> "DataFrame":
    from pyspark.errors import AnalysisException

    try:
        return transform(*frames)
    except AnalysisException:
        raise
    except Exception as error:
        # The function is the user's: whatever it raises is told with its line.
        code = getattr(transform, "__code__", None)
        place = "" if code is None else f"{place_of(error, code.co_filename)}: "
        told = f"{place}{type(error).__name__}: {error}"
        raise ConfigError(f"step {step.name!r}: {told}") from error


def source_options(
    pipeline: Pipeline, settings: RunSettings, step: Step, topic: Topic
) -> dict[str, str]:
    """How `format("ottla")` reads a topic for a step."""
    return {
        **_client_options(settings),
        "subscribePattern" if topic.is_pattern else "subscribe": topic.name,
        "startingOffsets": topic.start,
        "kafka.group.id": pipeline.group_of(step),
        **({} if topic.schema is None else {"valueFormat": topic.format}),
        **topic.options,
    }


def sink_options(pipeline: Pipeline, settings: RunSettings, step: Step) -> dict[str, str]:
    """How `format("ottla")` writes what a step gives."""
    options = {**_client_options(settings), "delivery": step.sink.delivery}
    if not says_topic(step):
        options["topic"] = step.sink.topics[0]
    if step.sink.delivery == "exactly-once":
        options["transactionalIdPrefix"] = pipeline.group_of(step)
    return {**options, **step.sink.options}


def check_options(pipeline: Pipeline, settings: RunSettings) -> None:
    """Refuse options that source or sink would refuse, before Spark is started.

    Raises:
        ConfigError: One is unknown, forbidden, or not of its type.
    """
    for step in pipeline.steps:
        try:
            for topic in step.topics:
                options = SourceOptions.of(source_options(pipeline, settings, step, topic))
                options.check_for_stream()
            SinkOptions.of(sink_options(pipeline, settings, step))
        except ConfigError as error:
            raise ConfigError(f"step {step.name!r}: {error}") from None


def _client_options(settings: RunSettings) -> dict[str, str]:
    options = {f"kafka.{name}": value for name, value in settings.client.items()}
    return {"kafka.bootstrap.servers": settings.bootstrap, **options}
