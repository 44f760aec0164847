"""How a batch gets into the log exactly once: what the driver asks for, step by step.

Pure.  `plan`, `commit` and `abort` are generators: they yield a step, are sent its answer, and
return what was decided.  `Brokers` performs steps; tests perform them on a model, stop between any
two of them, and let several drivers take turns.

The rules on which everything rests:

- A *round* is one execution of one batch.  It begins with `plan`, which takes the coordinator's
  transactional id: from then on no older round can decide in two phases.
- The transaction of a task belongs to that attempt of that task.  Nobody else ever takes its id.
- What is decided is committed, whatever it takes.  All that is open and not decided is aborted, by
  exact identity, and only by who knows that no newer round had begun when he looked.
- A batch of one transaction has its decision inside of it.  Nothing fences such a decision, so its
  driver looks, when it has written it, whether its round is still the newest.  A round that begins
  after that look finds that the open transaction hides something, and ends it before it reads on.
- No round begins before the decision of the last one is carried out (*settled*).  That lets workers
  use their transactional ids again in the next round.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from ottla.errors import OttlaError
from ottla.spark.sink.decisions import Decision, Identity, Participant

T = TypeVar("T")
Steps: TypeAlias = Generator["Step", Any, T]


class LostError(OttlaError):
    """A part of a batch that was decided can never be committed: its transaction has expired."""


class SupersededError(OttlaError):
    """Another driver works for the same sink, and took over."""

    fatal = True


@dataclass(frozen=True, slots=True)
class Fence:
    """Take the coordinator's id, from everybody or, if they still have it, from `only`.

    Answered by the new identity; raises `SupersededError` if somebody else has it.
    """

    only: Identity | None = None


@dataclass(frozen=True, slots=True)
class Current:
    """Who has the coordinator's id?  Answered by an identity."""


@dataclass(frozen=True, slots=True)
class Open:
    """Which transactions of tasks are open?  Answered by identities."""


@dataclass(frozen=True, slots=True)
class Read:
    """Read the decisions, as far as they are committed; `waits` for those that still may be.

    Answered by a `Journal`.
    """

    waits: bool = False


@dataclass(frozen=True, slots=True)
class Writers:
    """Which of these transactions have a decision in them?  Answered by identities."""

    among: tuple[Identity, ...]


@dataclass(frozen=True, slots=True)
class Decide:
    """Write a decision, and its offsets, into the open transaction of `by`."""

    by: Identity
    decision: Decision


@dataclass(frozen=True, slots=True)
class End:
    """Commit or abort transactions; done before is done.

    Answered by the identities for which it cannot be done: it went the other way.
    """

    identities: tuple[Identity, ...]
    commits: bool


@dataclass(frozen=True, slots=True)
class Settle:
    """Write down that a decision is carried out; or, if `is_void`, that it counts no more."""

    decision: Decision
    is_void: bool = False


Step: TypeAlias = Fence | Current | Open | Read | Writers | Decide | End | Settle


@dataclass(frozen=True, slots=True)
class Journal:
    """What the decisions say."""

    last: Decision | None
    """The last one that counts."""
    is_settled: bool
    """Whether the last one is carried out."""
    is_whole: bool
    """Whether no open transaction hides anything."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the tasks of a round need to know."""

    round: Identity
    decided: Decision | None
    """The last decision: its batch must not be written again."""

    def covers(self, query_id: str, batch_id: int) -> bool:
        """Whether a batch is in the log already."""
        last = self.decided
        return last is not None and last.query_id == query_id and batch_id <= last.batch_id


@dataclass(frozen=True, slots=True)
class AfterLoss:
    """What the user wants done about one batch of which a part is lost."""

    batch_id: int
    rewrites: bool
    """Whether to write all of it again, and not to go on without the lost part."""


def plan(after_loss: AfterLoss | None = None) -> Steps[Plan]:
    """Begin a round: take over, carry out what was decided, abort the rest.

    Raises:
        LostError: A decision cannot be carried out any more.
        SupersededError: Yet another driver takes over at the same time.
    """
    mine: Identity = yield Fence()
    strays: tuple[Identity, ...] = yield Open()
    journal: Journal = yield Read()
    if not journal.is_whole:
        # One phase: a decision in a transaction that nobody has ended yet.
        strays = yield Open()
        writers: tuple[Identity, ...] = yield Writers(strays)
        yield from _abort_strays(writers, mine)
        journal = yield Read(waits=True)
    if journal.last is not None and not journal.is_settled:
        yield from _carry_out(journal.last, after_loss)
        strays = tuple(stray for stray in strays if stray not in journal.last.identities)
        journal = yield Read(waits=True)
    if strays:
        yield from _abort_strays(strays, mine)
    return Plan(mine, journal.last)


def commit(decision: Decision) -> Steps[None]:
    """Decide a batch, and carry the decision out.

    Raises:
        SupersededError: Another driver took over; nothing was decided here.
        LostError: A transaction expired before, or just after, the decision.
    """
    if decision.is_one_phase:
        yield from _commit_in_one_phase(decision)
    else:
        yield from _commit_in_two_phases(decision)
    yield from _close(decision)


def commit_unrecorded(participants: Sequence[Participant]) -> Steps[None]:
    """Commit the transactions of a job that has no name, and so nobody to carry on for it.

    Raises:
        LostError: One expired before.
    """
    lost: tuple[Identity, ...] = yield End(tuple(p.identity for p in participants), commits=True)
    if lost:
        gone = ", ".join(str(identity) for identity in lost)
        raise LostError(
            f"{len(lost)} of {len(participants)} transactions of the job were aborted before they "
            f"could be committed, and their rows are missing: {gone}.  A job with a "
            "transactionalIdPrefix, on a broker with transaction.two.phase.commit.enable=true, is "
            "spared that"
        )


def abort(decision: Decision | None, identities: Sequence[Identity]) -> Steps[bool]:
    """Give a batch up, unless it is decided; return whether it was given up.

    `decision` is what `commit` was asked to decide, None if it was never called.  A commit that
    raised may have decided all the same.
    """
    if decision is not None and not decision.is_one_phase:
        try:
            yield Fence(only=decision.round)
        except SupersededError:
            return False  # whoever took over knows better than we do
        journal: Journal = yield Read(waits=True)
        if journal.last is not None and journal.last.stamp == decision.stamp:
            return False
    lost: tuple[Identity, ...] = yield End(tuple(identities), commits=False)
    return not lost


def _commit_in_one_phase(decision: Decision) -> Steps[None]:
    (participant,) = decision.participants
    yield Decide(participant.identity, decision)
    # Moreover, in version 1 an aborted transaction is opened again by writing to it: with the
    # decision, and without the rows.  Whoever aborted it took over first.
    current: Identity = yield Current()
    if current != decision.round:
        yield End((participant.identity,), commits=False)
        raise _superseded(decision.round, current)
    if (yield End((participant.identity,), commits=True)):
        raise LostError(
            f"batch {decision.batch_id} was not written: its transaction {participant.identity} "
            "was aborted by the broker, or by another driver of this sink.  Start the query again; "
            "it writes the batch anew"
        )


def _commit_in_two_phases(decision: Decision) -> Steps[None]:
    yield Decide(decision.round, decision)
    if (yield End((decision.round,), commits=True)):
        raise SupersededError(
            f"batch {decision.batch_id} was not written: another driver took over the sink "
            f"{decision.sink_id!r}, or the decision took longer than its transaction may"
        )
    yield from _carry_out(decision)


def _carry_out(decision: Decision, after_loss: AfterLoss | None = None) -> Steps[None]:
    """Commit all transactions of a decision, and write down that it is done."""
    if decision.settles_itself:
        return
    identities = tuple(participant.identity for participant in decision.participants)
    lost: tuple[Identity, ...] = yield End(identities, commits=True)
    if not lost:
        yield Settle(decision)
    elif after_loss is not None and after_loss.batch_id == decision.batch_id:
        yield Settle(decision, is_void=after_loss.rewrites)
    else:
        raise LostError(lost_message(decision, lost))


def _close(decision: Decision) -> Steps[None]:
    """End the round, for tasks that come late, and abort what it leaves behind."""
    try:
        mine: Identity = yield Fence(only=decision.round)
        strays: tuple[Identity, ...] = yield Open()
        if strays := tuple(stray for stray in strays if stray not in decision.identities):
            yield from _abort_strays(strays, mine)
    except SupersededError:
        return  # the batch is committed, and the rest is the successor's


def _abort_strays(strays: Sequence[Identity], mine: Identity) -> Steps[None]:
    """Abort what was open when we looked, if nobody had begun a newer round by then."""
    current: Identity = yield Current()
    if current != mine:
        raise _superseded(mine, current)
    yield End(tuple(strays), commits=False)


def _superseded(mine: Identity, current: Identity) -> SupersededError:
    return SupersededError(
        f"another driver took over the sink of {mine}: it is {current} now.  Two queries must not "
        "share a checkpoint or a transactionalIdPrefix; this one stops"
    )


def lost_message(decision: Decision, lost: Sequence[Identity]) -> str:
    """What happened, and what to do about it."""
    gone = [p for p in decision.participants if p.identity in lost]
    rows = sum(p.row_count for p in gone)
    tasks = ", ".join(str(p.partition) for p in gone)
    return (
        f"batch {decision.batch_id} of query {decision.query_id} is decided, but {len(gone)} of "
        f"its {len(decision.participants)} transactions (tasks {tasks}; {rows} of "
        f"{decision.row_count} rows) were aborted by the broker before they could be committed: "
        "the driver was away for longer than transaction.timeout.ms, or somebody aborted them.  "
        "These rows are missing from the output, and the others are in it.  To go on, choose: "
        f'.option("afterLoss", "rewrite {decision.batch_id}") writes the whole batch again, so '
        f"that {decision.row_count - rows} rows are there twice; "
        f'.option("afterLoss", "skip {decision.batch_id}") goes on without the missing rows.  With '
        "transaction.two.phase.commit.enable=true, a setting of Ottla brokers, transactions of "
        "sinks never expire"
    )
