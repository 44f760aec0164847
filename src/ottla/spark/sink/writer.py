"""What Spark calls to write: on the driver to plan, commit and abort, on executors to write.

Spark makes a new writer for almost every call, in several processes, so nothing is kept in one.
What tasks must know travels in the pickled writer, what the commit must know in their messages.
The only moment before the tasks of a batch, at which the driver can do something, is when the
writer is pickled; so that is when a round is planned.
"""

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ottla.client.producer.config import ProducerConfig
from ottla.errors import ConfigError
from ottla.spark import tracing
from ottla.spark.options import SinkOptions
from ottla.spark.sink import checkpoint, protocol, tasks
from ottla.spark.sink.brokers import Brokers
from ottla.spark.sink.decisions import Decision, Names, Participant
from ottla.spark.sink.protocol import AfterLoss, Plan
from ottla.spark.sink.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

_PARTITIONERS: Final = {"random": "sticky"}
"""Where the option has another word than the producer."""
_OURS: Final = ("transactional.id", "transaction.two.phase.commit.enable")


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    query_id: str
    batch_id: int
    plan: Plan | None
    planned_ms: int
    participant: Participant | None
    is_skipped: bool = False
    """Whether the batch was in the log already."""
    row_count: int = 0
    """What it wrote."""


Messages = Sequence[WriterCommitMessage | None]


class _Sink:
    """What both writers do; pickled with them."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self.rows = Rows(schema, options.topic)
        self.client = _client_settings(options)
        self.is_exact = options.delivery == "exactly-once"

    def brokers(self, names: Names) -> Brokers:
        return Brokers.kept(self.client, names)

    def planned(self, names: Names) -> Plan:
        """Begin a round."""
        after_loss = _after_loss(self.options.after_loss)
        return self.brokers(names).run("plan", protocol.plan(after_loss))

    def write(
        self, job: tasks.Job, batches: "Iterator[pa.RecordBatch]", written: Written
    ) -> Written:
        """Write the rows of one task, unless its batch is in the log already."""
        partition, plan = _partition(), written.plan
        if plan is not None and plan.covers(written.query_id, written.batch_id):
            tasks.drain(batches)
            participant, is_skipped = None, True
        else:
            with self._traced(written) as interceptors:
                job = job._replace(interceptors=interceptors)
                if not self.is_exact:
                    row_count = tasks.write_through(job, self.rows, batches)
                    return replace(written, row_count=row_count)
                participant = tasks.write_prepared(job, self.rows, batches, partition)
            is_skipped = False
        row_count = 0 if participant is None else participant.row_count
        return replace(written, participant=participant, is_skipped=is_skipped, row_count=row_count)

    def _traced(self, written: Written) -> AbstractContextManager[list[Any]]:
        """Around the work of a task: the interceptors of its producer."""
        options = self.options
        return tracing.writing(
            written.query_id, written.batch_id, options.topic, options.trace_headers
        )

    def commit(self, names: Names, told: Sequence[Written]) -> None:
        """Decide a batch, or see that it is decided."""
        with _ending("commit", told):
            if not self.is_exact:
                return
            if any(message.is_skipped for message in told):
                self._check_skipped(names, told[0])
                return
            self.brokers(names).run("commit", protocol.commit(self._decision(names, told)))

    def abort(self, names: Names, told: Sequence[Written], *, is_whole: bool) -> None:
        """Give a batch up, unless it is decided; `is_whole`: all tasks had written."""
        if not self.is_exact or any(message.is_skipped for message in told):
            return
        identities = [m.participant.identity for m in told if m.participant is not None]
        decision = self._decision(names, told) if is_whole and told else None
        if decision is not None or identities:
            with _ending("abort", told):
                self.brokers(names).run("abort", protocol.abort(decision, identities))

    def _decision(self, names: Names, told: Sequence[Written]) -> Decision:
        first = told[0]
        assert first.plan is not None, "who decides has planned"
        assert all(
            (m.query_id, m.batch_id, m.plan) == (first.query_id, first.batch_id, first.plan)
            for m in told
        ), "the tasks of one batch have one plan"
        offsets = self._offsets(first.batch_id)
        groups: checkpoint.Groups = {}
        if offsets is not None:
            groups = offsets.groups(self.brokers(names).cluster_id())
        now_ms = _now_ms()
        return Decision(
            sink_id=names.sink_id,
            query_id=first.query_id,
            batch_id=first.batch_id,
            round=first.plan.round,
            participants=tuple(m.participant for m in told if m.participant is not None),
            offsets_digest=None if offsets is None else offsets.digest,
            groups=groups,
            decided_ms=now_ms,
            duration_ms=max(0, now_ms - first.planned_ms),
        )

    def _offsets(self, batch_id: int) -> checkpoint.BatchOffsets | None:
        """None where the checkpoint cannot be read: then the source commits for the group."""
        location = self.options.checkpoint_location
        if location is None:
            return None
        try:
            return checkpoint.batch_offsets(location, batch_id)
        except checkpoint.UnreadableError as error:
            log.warning("offsets are not committed with the output: %s", error)
            return None

    def _check_skipped(self, names: Names, message: Written) -> None:
        """A batch is skipped because it is in the log: see that it is the same batch."""
        assert message.plan is not None
        assert message.plan.decided is not None
        offsets = self._offsets(message.batch_id)
        if offsets is None:
            return
        decided: Decision | None = message.plan.decided
        if message.plan.decided.batch_id != message.batch_id:
            decided = next(
                (
                    entry
                    for entry in reversed(self.brokers(names).ledger())
                    if (entry.query_id, entry.batch_id) == (message.query_id, message.batch_id)
                ),
                None,
            )
        if decided is None or decided.offsets_digest != offsets.digest:
            raise ConfigError(_other_batch(names, message, decided))


class StreamWriter(DataSourceStreamArrowWriter):
    """The sink of a streaming query."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """Check the columns, and that the sink has a name that lasts.

        Raises:
            ConfigError: Something is missing.
        """
        self._sink = _Sink(options, schema)
        self._plan: Plan | None = None
        self._planned_ms = 0
        if self._sink.is_exact and not _has_name(options):
            raise ConfigError(
                'exactly-once needs a name that lasts: .option("checkpointLocation", ...) on the '
                'query, or .option("transactionalIdPrefix", ...); or .option("delivery", '
                '"at-least-once")'
            )

    def __getstate__(self) -> dict[str, Any]:
        self._planned_ms = self._planned_ms or _now_ms()
        if self._sink.is_exact and self._plan is None:
            self._plan = self._sink.planned(_stream_names(self._sink.options))
        return self.__dict__

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        """Write the rows of one task."""
        context = _context()
        message = Written(
            query_id=_property(context, "sql.streaming.queryId"),
            batch_id=int(_property(context, "streaming.sql.batchId")),
            plan=self._plan,
            planned_ms=self._planned_ms,
            participant=None,
        )
        return self._sink.write(_job(self._sink, self._plan), iterator, message)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make the batch part of the log, with the offsets of its source."""
        told = _told(messages)
        assert all(message.batch_id == batchId for message in told), "messages of another batch"
        self._sink.commit(_names_of(told, self._sink.options), told)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Give the batch up, if it is not decided."""
        told = _told(messages)
        if told:
            names = _names_of(told, self._sink.options)
            self._sink.abort(names, told, is_whole=len(told) == len(messages))


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame: all of it at once, when all of its tasks are done."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """Check the columns.

        Raises:
            ConfigError: Something is missing.
        """
        self._sink = _Sink(options, schema)
        self._plan: Plan | None = None
        self._planned_ms = 0
        self._job_id = uuid.uuid4().hex
        if options.batch_id is not None and not options.checkpoint_location:
            raise ConfigError(
                "batchId is set by ottla.spark.foreach_batch, with checkpointLocation"
            )

    @property
    def _names(self) -> Names:
        options = self._sink.options
        if options.batch_id is not None:
            return _stream_names(options)
        return Names(options.transactional_id_prefix or f"batch-{self._job_id}")

    @property
    def _is_recorded(self) -> bool:
        """Whether decisions are written down; a job without a name will not look for them."""
        options = self._sink.options
        is_named = options.batch_id is not None or options.transactional_id_prefix is not None
        return self._sink.is_exact and is_named

    def __getstate__(self) -> dict[str, Any]:
        self._planned_ms = self._planned_ms or _now_ms()
        if self._is_recorded and self._plan is None:
            self._plan = self._sink.planned(self._names)
        return self.__dict__

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        """Write the rows of one task."""
        options = self._sink.options
        query_id, batch_id = f"batch-{self._job_id}", 0
        if options.batch_id is not None:
            assert options.checkpoint_location is not None
            query_id, batch_id = checkpoint.query_id(options.checkpoint_location), options.batch_id
        message = Written(query_id, batch_id, self._plan, self._planned_ms, None)
        job = tasks.Job(
            client=self._sink.client,
            names=self._names,
            round=None if self._plan is None else self._plan.round,
            may_wait=self._plan is not None,
        )
        return self._sink.write(job, iterator, message)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the rows part of the log."""
        told = _told(messages)
        if self._is_recorded:
            self._sink.commit(self._names, told)
            return
        with _ending("commit", told):
            if self._sink.is_exact:
                whole = protocol.commit_unrecorded([m.participant for m in told if m.participant])
                self._sink.brokers(self._names).run("commit", whole)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Give the rows up, if they are not decided."""
        told = _told(messages)
        is_whole = self._is_recorded and len(told) == len(messages)
        self._sink.abort(self._names, told, is_whole=is_whole)


def _job(sink: _Sink, plan: Plan | None) -> tasks.Job:
    """What the tasks of a micro-batch have in common."""
    names = Names("unplanned") if plan is None else _planned_names(plan)
    return tasks.Job(
        client=sink.client,
        names=names,
        round=None if plan is None else plan.round,
        may_wait=True,
    )


def _planned_names(plan: Plan) -> Names:
    """The sink's names, as its plan has them: tasks need not read the checkpoint."""
    return Names.of_coordinator(plan.round.transactional_id)


def _has_name(options: SinkOptions) -> bool:
    return bool(options.transactional_id_prefix or options.checkpoint_location)


def _stream_names(options: SinkOptions) -> Names:
    """Two queries never share a sink; one that is started again has the one that it had."""
    if options.transactional_id_prefix is not None:
        return Names(options.transactional_id_prefix)
    assert options.checkpoint_location is not None
    return Names(checkpoint.query_id(options.checkpoint_location))


def _names_of(told: Sequence[Written], options: SinkOptions) -> Names:
    plan = told[0].plan
    return Names("unplanned") if plan is None else _planned_names(plan)


def _client_settings(options: SinkOptions) -> dict[str, object]:
    for name in _OURS:
        if name in options.client:
            raise ConfigError(
                f"kafka.{name} is the sink's own: transactionalIdPrefix names its transactions, "
                "and two-phase commit is used where brokers allow it"
            )
    settings: dict[str, object] = dict(options.client)
    settings.setdefault("default.api.timeout.ms", options.retry_timeout_ms)
    settings["partitioner"] = _PARTITIONERS.get(options.partitioner, options.partitioner)
    if options.compression is not None:
        settings["compression.type"] = options.compression
    ProducerConfig.of(config={**settings, "transactional.id": "checked"})
    return settings


def _after_loss(text: str | None) -> AfterLoss | None:
    if text is None:
        return None
    word, number = text.split()
    return AfterLoss(int(number), rewrites=word == "rewrite")


def _other_batch(names: Names, message: Written, decided: Decision | None) -> str:
    was = "is not in its ledger" if decided is None else "ended at other offsets"
    return (
        f"the sink {names.sink_id!r} has written batch {message.batch_id} of query "
        f"{message.query_id} before, but what it wrote {was}: the checkpoint was changed, restored "
        "from a copy, or is used by two queries at once.  Nothing was written.  Go on with the "
        "checkpoint that belongs to it; or begin with a new checkpointLocation, at offsets that "
        "you choose (startingOffsets); `ottla pipeline ledger` shows what is written"
    )


def _ending(operation: str, told: Sequence[Written]) -> AbstractContextManager[None]:
    """Around the end of a batch."""
    if not told:
        return nullcontext()
    first = told[0]
    rows = [message.row_count for message in told]
    return tracing.ending(operation, first.query_id, first.batch_id, first.planned_ms, rows)


def _told(messages: Messages) -> list[Written]:
    return [message for message in messages if isinstance(message, Written)]


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "tasks run on executors"
    return context


def _partition() -> int:
    return _context().partitionId()


def _property(context: TaskContext, name: str) -> str:
    value = context.getLocalProperty(name)
    assert value is not None, f"Spark tells no {name}"
    return value


def _now_ms() -> int:
    return int(time.time() * 1000)
