"""What a transaction waits for: its producer, the sink that prepared it, or its own markers.

An open transaction is ended by its producer, or by its coordinator when its time is over.  One that
was prepared for a second phase has no such time.  Once it is decided, only its markers are missing,
and those wait for nothing but the leaders of its partitions.
"""

from collections.abc import Iterator
from datetime import timedelta
from shlex import quote
from typing import TYPE_CHECKING, Final

from ottla.model import TopicPartition
from ottla.quantities import about, as_ms, counted, local_time
from ottla.values import dataclass
from ottla.why.findings import Finding
from ottla.why.naming import listed

if TYPE_CHECKING:
    from ottla.client.admin.transactions import ProducerInfo, TransactionInfo
    from ottla.why.sinks import SinkSight

_DECIDED: Final = {"PrepareCommit": "commit", "PrepareAbort": "abort"}
_MS: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPartition:
    """A partition that takes part in a transaction."""

    key: TopicPartition
    stable_offset: int | None
    end_offset: int | None
    """None: it has no leader."""
    writer: "ProducerInfo | None"
    """The transaction's producer, as the partition knows it."""

    @property
    def held_count(self) -> int:
        """How many offsets read_committed consumers do not see."""
        if self.stable_offset is None or self.end_offset is None:
            return 0
        return max(0, self.end_offset - self.stable_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSight:
    """All that was seen of one transactional id."""

    info: "TransactionInfo"
    partitions: tuple[WrittenPartition, ...]
    sink: "SinkSight | None"
    """The exactly-once sink of a pipeline that it belongs to."""
    now_ms: int

    @property
    def since_ms(self) -> int | None:
        return None if self.info.started is None else as_ms(self.info.started)

    @property
    def producer(self) -> str:
        return f"producer {self.info.producer_id} (epoch {self.info.producer_epoch})"

    @property
    def keys(self) -> tuple[TopicPartition, ...]:
        return tuple(partition.key for partition in self.partitions)

    @property
    def age(self) -> str:
        """`for 12 s, since 16:00:03`."""
        if self.since_ms is None:
            return "for an unknown time"
        return f"for {about(self.now_ms - self.since_ms)}, since {local_time(self.since_ms)}"


def waits(sight: TransactionSight) -> Iterator[Finding]:
    """What it waits for, and whom it keeps waiting."""
    info = sight.info
    if info.state in _DECIDED:
        yield _markers(sight, _DECIDED[info.state])
    elif not info.is_open:
        yield _at_rest(sight)
        return
    elif sight.sink is not None:
        yield _of_sink(sight, sight.sink)
    elif info.timeout is None:
        yield _prepared(sight)
    else:
        yield _open(sight, info.timeout)
    yield from _leaderless(sight)
    yield from _held(sight)


def _open(sight: TransactionSight, timeout: timedelta) -> Finding:
    name = quote(sight.info.transactional_id)
    until_ms = None if sight.since_ms is None else sight.since_ms + timeout // _MS
    text = f"It waits for {sight.producer} to end it, {sight.age}.{_last_write(sight)}"
    if until_ms is None:
        end = ""
    elif until_ms > sight.now_ms:
        end = f" It is aborted in {about(until_ms - sight.now_ms)} if that does not happen."
    else:
        end = " Its time is over: its coordinator aborts it with its next look, in some seconds."
    return Finding(
        code="open",
        text=text + end,
        advice="See what its producer does: it may be busy, hang, or be gone without a word. "
        f"`ottla txn abort {name}` aborts it now, and fences that producer.",
        partitions=sight.keys,
        since_ms=sight.since_ms,
        until_ms=until_ms,
    )


def _prepared(sight: TransactionSight) -> Finding:
    return Finding(
        code="prepared",
        text=f"It is open {sight.age}, and may be so for ever: its producer takes part in a "
        "two-phase commit (KIP-939), and whoever coordinates that decides."
        f"{_last_write(sight)}",
        advice="Have its program started again with the same id and the token that it kept; it "
        "commits or aborts. `ottla txn abort` is for one whose program will never come back: if it "
        "was decided elsewhere to commit it, its records are lost.",
        partitions=sight.keys,
        since_ms=sight.since_ms,
    )


def _of_sink(sight: TransactionSight, sink: "SinkSight") -> Finding:
    info, last = sight.info, sink.last
    sink_id = sink.names.sink_id
    is_decided = sink.has_decided_on(info.transactional_id, info.producer_id)
    if last is not None and is_decided and not sink.is_settled:
        return Finding(
            code="decision_pending",
            text=f"Batch {last.batch_id} of sink {sink_id} was decided at "
            f"{local_time(last.decided_ms)} and consists of it: it is to be committed, and the "
            "driver of the sink has not done that yet.",
            advice="Start the pipeline again: it begins with what was decided. Do not abort it: "
            "a part of that batch would be lost.",
            partitions=sight.keys,
            since_ms=last.decided_ms,
        )
    return Finding(
        code="batch_open",
        text=f"A batch of sink {sink_id} is being written, {sight.age}: no decision names it yet."
        f"{_last_write(sight)}",
        advice="If its pipeline runs, it ends with the batch. If not, the next start aborts it and "
        f"writes the batch anew; `ottla txn abort {quote(info.transactional_id)}` does no harm "
        "then.",
        partitions=sight.keys,
        since_ms=sight.since_ms,
    )


def _markers(sight: TransactionSight, outcome: str) -> Finding:
    return Finding(
        code="waits_for_markers",
        text=f"It is decided, to {outcome} it, and waits for markers in "
        f"{listed(list(sight.keys)) or 'no partition'}, {sight.age}.",
        advice="Its coordinator writes them by itself, and tries again where a partition cannot "
        "take one: look at the broker's log if it lasts.",
        partitions=sight.keys,
        since_ms=sight.since_ms,
    )


def _at_rest(sight: TransactionSight) -> Finding:
    ended = {"CompleteCommit": " Its last one was committed.", "CompleteAbort": ""}
    only = (
        f"Only its newest producer may begin one: {sight.producer}. Others are refused, with "
        "PRODUCER_FENCED or INVALID_PRODUCER_EPOCH."
    )
    if sight.info.state != "CompleteAbort":
        text = f"It waits for nothing: no transaction is open.{ended.get(sight.info.state, '')}"
        return Finding(code="nothing", text=f"{text} {only}")
    return Finding(
        code="aborted",
        text=f"It waits for nothing: its last transaction was aborted. {only}",
        advice="A producer aborts its own, or finds it aborted when another one has taken its id, "
        "or when its transaction.timeout.ms was over: then it has to start anew.",
    )


def _leaderless(sight: TransactionSight) -> Iterator[Finding]:
    missing = [partition.key for partition in sight.partitions if partition.end_offset is None]
    if missing:
        yield Finding(
            code="no_leader",
            text=f"No leader: {listed(missing)}. There it can be neither continued nor ended.",
            advice="Start the brokers that have its replicas. On one broker, its log says why the "
            "partition is offline.",
            partitions=tuple(missing),
        )


def _held(sight: TransactionSight) -> Iterator[Finding]:
    held = [partition for partition in sight.partitions if partition.held_count]
    if not held:
        return
    most = max(held, key=lambda partition: partition.held_count)
    yield Finding(
        code="holds_back",
        text=f"It holds back read_committed consumers of {listed([p.key for p in held])}: in "
        f"{most.key} they stop at offset {most.stable_offset}, "
        f"{counted(most.held_count, 'offset')} before the end.",
        partitions=tuple(partition.key for partition in held),
    )


def _last_write(sight: TransactionSight) -> str:
    writes = [
        (as_ms(partition.writer.last_write), partition.key)
        for partition in sight.partitions
        if partition.writer is not None and partition.writer.last_write is not None
    ]
    if not writes:
        return ""
    written_ms, key = max(writes)
    return f" Its last write was to {key}, {about(sight.now_ms - written_ms)} ago."
