"""What a pipeline waits for: its driver, a batch that was decided, its own speed.

A batch is written in transactions, decided in the journal of its sink, and then its transactions
are committed.  If the driver goes away before the decision, they are left over, and the next start
aborts them; if it goes away after, they are to be committed, and the next start does that.  Nothing
is lost either way; but until somebody starts it, those who read committed records wait.
"""

from collections.abc import Iterator, Mapping
from shlex import quote
from typing import TYPE_CHECKING, Final

from ottla.model import TopicPartition
from ottla.quantities import about, as_ms, counted, local_time
from ottla.values import dataclass
from ottla.why.findings import Finding

if TYPE_CHECKING:
    from ottla.client.admin.lag import GroupLag
    from ottla.client.admin.transactions import TransactionInfo
    from ottla.pipeline.progress import StepProgress
    from ottla.pipeline.state import State
    from ottla.why.sinks import SinkSight

SILENT_MS: Final = 60_000
"""A pipeline that runs writes down how it does more often than that."""

PATIENCE_MS: Final = 60_000
PATIENCE_BATCHES: Final = 5
"""A batch is late if records wait for it so long, or as long as so many batches took."""

_RUNNING: Final = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSight:
    """One step, as the brokers see it."""

    step: str
    lag: "GroupLag | None"
    """None: it has committed nothing yet."""
    sink: "SinkSight | None"
    """None: it has decided nothing yet, or writes at least once."""
    open: "tuple[TransactionInfo, ...]"
    """Its transactions that have not ended."""

    @property
    def lag_count(self) -> int:
        return 0 if self.lag is None else self.lag.total

    @property
    def lag_ms(self) -> int | None:
        """How long ago the first record was written that it has not read; None: not known."""
        parts = () if self.lag is None else self.lag.partitions
        ages = [part.time_lag for part in parts if part.time_lag is not None]
        return round(max(ages).total_seconds() * 1000) if ages else None

    @property
    def undecided(self) -> "tuple[TransactionInfo, ...]":
        """Open transactions that no decision names."""
        sink = self.sink
        return tuple(
            info
            for info in self.open
            if sink is None or not sink.has_decided_on(info.transactional_id, info.producer_id)
        )

    @property
    def pending(self) -> "tuple[TransactionInfo, ...]":
        """Open transactions of the batch that was decided last."""
        undecided = self.undecided
        return tuple(info for info in self.open if info not in undecided)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSight:
    """All that was seen of a pipeline."""

    name: str
    state: "State | None"
    """What this machine knows of it; None: it ran elsewhere."""
    now: str | None
    steps: tuple[StepSight, ...]
    arriving_per_s: Mapping[str, float]
    """Step -> how fast records come, if anybody looked."""
    log_file: str
    now_ms: int

    @property
    def is_running(self) -> bool:
        return self.now == _RUNNING

    @property
    def start(self) -> str:
        """The command that starts it again."""
        file = "FILE" if self.state is None or not self.state.file else quote(self.state.file)
        return f"`ottla pipeline run {file}`"

    def progress_of(self, step: str) -> "StepProgress | None":
        steps = () if self.state is None else self.state.steps
        return next((found for found in steps if found.step == step), None)


def title(sight: PipelineSight) -> str:
    """The first line."""
    if sight.now is None:
        return f"Pipeline {sight.name} is not of this machine; this is what the brokers know."
    return f"Pipeline {sight.name} is {sight.now}."


def findings(sight: PipelineSight) -> Iterator[Finding]:
    """What it waits for, and what waits for it."""
    found = list(_run(sight))
    for step in sight.steps:
        found += _decided(sight, step)
        found += _left_over(sight, step)
        found += _behind(sight, step)
    yield from found
    if not found:
        rows = ", ".join(f"{s.step} {counted(s.lag_count, 'record')} behind" for s in sight.steps)
        yield Finding(code="nothing", text=f"It waits for nothing: {rows or 'no step yet'}.")


def _run(sight: PipelineSight) -> Iterator[Finding]:
    state = sight.state
    if state is None:
        return
    ago = about(sight.now_ms - state.updated_ms)
    again = f"{sight.start} goes on where it was."
    if sight.now == "failed":
        yield Finding(
            code="failed",
            text=f"It failed {ago} ago: {state.trouble or 'it did not say why'}.",
            advice=f"Spark's log says more: {sight.log_file}. Then {again}",
            since_ms=state.updated_ms,
        )
    elif sight.now == "killed":
        yield Finding(
            code="killed",
            text=f"Its process {state.pid} ended without a word; it was last heard of {ago} ago.",
            advice=f"Nothing is lost or written twice: {again} If nobody killed it, look for the "
            f"reason in {sight.log_file} and in the system's log (out of memory?).",
            since_ms=state.updated_ms,
        )
    elif sight.now in ("stopped", "finished"):
        done = "was stopped" if sight.now == "stopped" else "read all there was, and ended"
        yield Finding(
            code=sight.now,
            text=f"It {done} {ago} ago, at {local_time(state.updated_ms)}.",
            advice=f"{sight.start} starts it again.",
            since_ms=state.updated_ms,
        )
    elif sight.now_ms - state.updated_ms > SILENT_MS:
        yield Finding(
            code="silent",
            text=f"Its process {state.pid} lives, and has not said how it does for {ago}.",
            advice=f"Spark may be starting, or hang: look at {sight.log_file}. "
            f"`ottla pipeline stop {quote(sight.name)}` stops it.",
            since_ms=state.updated_ms,
        )


def _decided(sight: PipelineSight, step: StepSight) -> Iterator[Finding]:
    """A batch that counts, and whose transactions nobody has ended."""
    sink = step.sink
    if sink is None or sink.last is None or sink.is_settled or not step.pending:
        return
    last, missing = sink.last, len(step.pending)
    waiting = about(sight.now_ms - last.decided_ms)
    if sight.is_running and sight.now_ms - last.decided_ms < PATIENCE_MS:
        return  # it is about to
    yield Finding(
        code="decision_pending",
        text=f"{step.step}: batch {last.batch_id} was decided {waiting} ago, and "
        f"{missing} of its {counted(len(last.participants), 'transaction')} are still open: the "
        "driver went away in between. read_committed consumers wait for them.",
        advice=f"{sight.start} begins with committing them. Do not abort them: a part of the batch "
        "would be lost.",
        partitions=_partitions(step.pending),
        since_ms=last.decided_ms,
    )


def _left_over(sight: PipelineSight, step: StepSight) -> Iterator[Finding]:
    """Transactions of a batch that was never decided, while nobody is at work on it."""
    if sight.is_running or not step.undecided:
        return
    begun = [as_ms(info.started) for info in step.undecided if info.started is not None]
    since_ms = min(begun, default=None)
    since = "" if since_ms is None else f" for {about(sight.now_ms - since_ms)}"
    where = "" if sight.now is not None else ", if it does not run elsewhere"
    yield Finding(
        code="batch_left",
        text=f"{step.step}: {counted(len(step.undecided), 'transaction')} of a batch that was not "
        f"decided open{since}: it was left in the middle{where}. read_committed consumers wait.",
        advice=f"{sight.start} aborts them and writes the batch anew. Without it: "
        f"`ottla txn abort {quote(step.undecided[0].transactional_id)}`.",
        partitions=_partitions(step.undecided),
        since_ms=since_ms,
    )


def _behind(sight: PipelineSight, step: StepSight) -> Iterator[Finding]:
    if not step.lag_count:
        return
    late = "" if not step.lag_ms else f", {about(step.lag_ms)} late"
    behind = f"{step.step}: {counted(step.lag_count, 'record')} behind{late}"
    progress = sight.progress_of(step.step)
    if not sight.is_running:
        yield Finding(code="behind", text=f"{behind}, and nobody reads.")
        return
    arriving = sight.arriving_per_s.get(step.step)
    reading = 0.0 if progress is None else progress.in_per_s
    if _is_late(step, progress):
        yield Finding(
            code="no_batch",
            text=f"{behind}, and no batch has ended since: the last one took "
            f"{'an unknown time' if progress is None else about(progress.batch_ms or 0)}.",
            advice=f"Look at what Spark does: its pages, and {sight.log_file}. A batch that reads "
            "too much at once is made smaller with maxOffsetsPerTrigger.",
        )
    elif arriving is not None and arriving > reading:
        yield Finding(
            code="falls_behind",
            text=f"{behind}, and falling back: {arriving:,.0f} records a second come, "
            f"{reading:,.0f} are read.",
            advice="Give Spark more cores or the topic more partitions; see in Spark's pages which "
            "part of a batch takes long.",
        )
    else:
        yield Finding(
            code="catches_up", text=f"{behind}, and reading {reading:,.0f} records a second."
        )


def _is_late(step: StepSight, progress: "StepProgress | None") -> bool:
    """Whether records wait for much longer than a batch takes."""
    batch_ms = 0 if progress is None or progress.batch_ms is None else progress.batch_ms
    return (step.lag_ms or 0) > max(PATIENCE_MS, PATIENCE_BATCHES * batch_ms) and (
        progress is None or progress.in_per_s == 0
    )


def _partitions(infos: "tuple[TransactionInfo, ...]") -> tuple[TopicPartition, ...]:
    return tuple(sorted({partition for info in infos for partition in info.partitions}))
