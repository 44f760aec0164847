"""A model of everything around the sink's protocol: brokers, workers, Spark, and accidents.

One step is performed at a time, and between any two of them anything may happen: a driver dies,
another one begins although the first still lives, a task begins late.  The model of the brokers
knows both versions of the transaction protocol, and is as unforgiving as they are.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ottla.spark.sink.decisions import Decision, Identity, Names, Participant
from ottla.spark.sink.protocol import (
    Current,
    Decide,
    End,
    Fence,
    Journal,
    LostError,
    Open,
    Plan,
    Read,
    Settle,
    Step,
    SupersededError,
    Writers,
    abort,
    commit,
    plan,
)

NAMES = Names("model")
QUERY = "query"

Row: TypeAlias = tuple[int, int]
"""Batch and task: each writes one row, which shall be there once."""


class FencedError(Exception):
    """The brokers refuse a producer."""


class HiddenError(Exception):
    """A reader would wait for an open transaction: for ever, if nobody ends it."""


@dataclass
class Entry:
    """A decision in the journal, or a mark that one is settled."""

    decision: Decision
    by: tuple[Identity, int] | None
    """Producer and number of its transaction; None: it is a mark, and counts at once."""
    is_void: bool = False


@dataclass
class Transaction:
    """Whatever one transactional id has."""

    producer_id: int
    epoch: int = 0
    last_epoch: int = -1
    state: str = "empty"
    number: int = 0
    """How many transactions it has begun."""
    rows: list[Row] = field(default_factory=list)
    outcomes: dict[int, str] = field(default_factory=dict)

    def begin(self) -> None:
        if self.state != "open":
            self.state, self.rows = "open", []
            self.number += 1


class Cluster:
    """Brokers."""

    def __init__(self, *, is_version_2: bool) -> None:
        self.is_version_2 = is_version_2
        self.ids: dict[str, Transaction] = {}
        self.journal: list[Entry] = []
        self.output: list[Row] = []

    # What producers do.

    def init(self, name: str, only: Identity | None = None) -> Identity:
        known = self.ids.get(name)
        if known is None:
            known = self.ids[name] = Transaction(producer_id=len(self.ids) + 1)
            return self._identity(name)
        if only is not None and only.epoch != known.epoch:
            if only.epoch != known.last_epoch or known.state == "open":
                raise FencedError(name)
            return self._identity(name)
        if known.state == "open":
            self._finish(known, "aborted")
        known.last_epoch = -1 if only is None else known.epoch
        known.epoch += 1
        known.state = "empty"
        return self._identity(name)

    def write(self, who: Identity, row: Row) -> None:
        owned = self._owned(who)
        if owned.state in ("committed", "aborted") and not self.is_version_2:
            raise FencedError("the partition is not part of the transaction")
        owned.begin()
        owned.rows.append(row)

    def decide(self, who: Identity, decision: Decision) -> None:
        owned = self._owned(who)
        owned.begin()
        self.journal.append(Entry(decision, (who, owned.number)))

    def end(self, who: Identity, *, commits: bool) -> bool:
        outcome = "committed" if commits else "aborted"
        known = self.ids.get(who.transactional_id)
        if known is None or known.producer_id != who.producer_id:
            return False
        if self.is_version_2 and who.epoch + 1 == known.epoch and known.last_epoch == who.epoch:
            return known.state == outcome
        if who.epoch != known.epoch:
            return False
        if known.state != "open":
            return not commits if self.is_version_2 else known.state == outcome
        self._finish(known, outcome)
        if self.is_version_2:
            known.last_epoch, known.epoch = known.epoch, known.epoch + 1
        return True

    def expire(self, name: str) -> None:
        """A transaction takes too long."""
        known = self.ids[name]
        if known.state == "open":
            self._finish(known, "aborted")
            known.epoch += 1

    # What everybody sees.

    def open_ids(self) -> list[str]:
        return [
            name
            for name, known in self.ids.items()
            if known.state == "open" and NAMES.is_participant(name)
        ]

    def read(self) -> Journal:
        last: Decision | None = None
        settled: Entry | None = None
        for entry in self.journal:
            if entry.by is None:
                if last is not None and entry.decision.stamp == last.stamp:
                    settled = entry
                continue
            outcome = self._outcome(entry.by)
            if outcome is None:
                return _journal(last, settled, is_whole=False)
            if outcome == "committed":
                last, settled = entry.decision, None
        return _journal(last, settled, is_whole=True)

    def has_decision(self, who: Identity) -> bool:
        known = self.ids[who.transactional_id]
        return any(
            entry.by is not None
            and entry.by[0].transactional_id == who.transactional_id
            and entry.by[1] == known.number
            for entry in self.journal
        )

    def _outcome(self, by: tuple[Identity, int]) -> str | None:
        who, number = by
        return self.ids[who.transactional_id].outcomes.get(number)

    def _finish(self, known: Transaction, outcome: str) -> None:
        if outcome == "committed":
            self.output += known.rows
        known.outcomes[known.number] = outcome
        known.state, known.rows = outcome, []

    def _owned(self, who: Identity) -> Transaction:
        known = self.ids[who.transactional_id]
        if (known.producer_id, known.epoch) != (who.producer_id, who.epoch):
            raise FencedError(str(who))
        return known

    def _identity(self, name: str) -> Identity:
        known = self.ids[name]
        return Identity(name, known.producer_id, known.epoch)


def _journal(last: Decision | None, settled: Entry | None, *, is_whole: bool) -> Journal:
    is_marked = last is not None and settled is not None and settled.decision.stamp == last.stamp
    if is_marked and settled is not None and settled.is_void:
        return Journal(None, is_settled=True, is_whole=is_whole)
    is_settled = last is None or last.settles_itself or is_marked
    return Journal(last, is_settled=is_settled, is_whole=is_whole)


def _fence(cluster: Cluster, only: Identity | None) -> Identity:
    try:
        return cluster.init(NAMES.coordinator, only)
    except FencedError as error:
        raise SupersededError(str(error)) from None


def perform(cluster: Cluster, step: Step) -> Any:
    """What brokers answer."""
    match step:
        case Fence(only):
            return _fence(cluster, only)
        case Current():
            known = cluster.ids[NAMES.coordinator]
            return Identity(NAMES.coordinator, known.producer_id, known.epoch)
        case Open():
            found = [(name, cluster.ids[name]) for name in cluster.open_ids()]
            return tuple(Identity(name, t.producer_id, t.epoch) for name, t in found)
        case Read(waits):
            journal = cluster.read()
            if waits and not journal.is_whole:
                raise HiddenError
            return journal
        case Writers(among):
            return tuple(who for who in among if cluster.has_decision(who))
        case Decide(by, decision):
            return cluster.decide(by, decision)
        case End(identities, commits):
            return tuple(who for who in identities if not cluster.end(who, commits=commits))
        case Settle(decision, is_void):
            return cluster.journal.append(Entry(decision, None, is_void))


Moves: TypeAlias = Generator[str, None, None]


class Spark:
    """What Spark remembers of the query: how many batches are over."""

    def __init__(self) -> None:
        self.done_count = 0


class Driver:
    """One run of the query: batch after batch, until it fails or is killed.

    `moves` is what it does, one broker's step at a time.
    """

    def __init__(self, name: str, cluster: Cluster, spark: Spark, batches: list[int]) -> None:
        self.name = name
        self.cluster = cluster
        self.spark = spark
        self.batches = batches
        """How many tasks each batch has."""
        self.failure: Exception | None = None
        self.losers: list[Moves] = []
        """Attempts of tasks that Spark will not ask for: copies, and those that it takes for lost.

        Nobody waits for them, and they go on when they like."""
        self.moves = self._run()

    def _run(self) -> Moves:
        try:
            while self.spark.done_count < len(self.batches):
                yield from self._batch(self.spark.done_count)
        except (SupersededError, FencedError, HiddenError, LostError) as error:
            self.failure = error

    def _batch(self, batch_id: int) -> Moves:
        planned: list[Plan] = []
        yield from self._perform(plan(), planned.append)
        told: list[Participant | None] = []
        if not planned[0].covers(QUERY, batch_id):
            for task in range(self.batches[batch_id]):
                yield from self._task(planned[0], batch_id, task, told)
            decision = _decision(planned[0], batch_id, told)
            try:
                yield from self._perform(commit(decision), lambda _: None)
            except (SupersededError, FencedError, HiddenError, LostError):
                identities = sorted(decision.identities)
                yield from self._perform(abort(decision, identities), lambda _: None)
                raise
        self.spark.done_count = max(self.spark.done_count, batch_id + 1)

    def _task(
        self, planned: Plan, batch_id: int, task: int, told: list[Participant | None]
    ) -> Moves:
        # Tasks of one batch have workers of their own here; each uses its ids again and again.
        if task % 3 == 2:
            told.append(None)  # no rows
            return
        row = (batch_id, task)
        self.losers.append(self._attempt(planned, f"{self.name}-{task}-loser", row, []))
        yield from self._attempt(planned, f"{self.name}-{task}", row, told)

    def _attempt(
        self, planned: Plan, worker: str, row: Row, told: list[Participant | None]
    ) -> Moves:
        yield from self._check_round(planned)
        who = self.cluster.init(NAMES.participant(worker, 0))
        yield "began"
        self.cluster.write(who, row)
        yield "wrote"
        try:
            yield from self._check_round(planned)
        except SupersededError:
            self.cluster.end(who, commits=False)
            raise
        told.append(Participant(who, row[1], 1))

    def _check_round(self, planned: Plan) -> Moves:
        if perform(self.cluster, Current()) != planned.round:
            raise SupersededError("late")
        yield "checked"

    def _perform(self, steps: Any, keep: Callable[[Any], object]) -> Moves:
        answer: Any = None
        trouble: SupersededError | None = None
        while True:
            try:
                step = steps.send(answer) if trouble is None else steps.throw(trouble)
            except StopIteration as done:
                keep(done.value)
                return
            answer, trouble = None, None
            try:
                if isinstance(step, End):
                    answer = yield from self._end_each(step)
                else:
                    answer = perform(self.cluster, step)
            except SupersededError as error:
                trouble = error
            yield type(step).__name__

    def _end_each(self, step: End) -> Generator[str, None, tuple[Identity, ...]]:
        lost: tuple[Identity, ...] = ()
        for who in step.identities:
            lost += perform(self.cluster, End((who,), step.commits))
            yield "ended one"
        return lost


def _decision(planned: Plan, batch_id: int, told: list[Participant | None]) -> Decision:
    return Decision(
        sink_id=NAMES.sink_id,
        query_id=QUERY,
        batch_id=batch_id,
        round=planned.round,
        participants=tuple(p for p in told if p is not None),
        offsets_digest=None,
        decided_ms=0,
        duration_ms=0,
    )


def wanted_rows(batches: list[int]) -> list[Row]:
    """What shall be in the log."""
    return sorted(
        (batch, task)
        for batch, count in enumerate(batches)
        for task in range(count)
        if task % 3 < 2
    )
