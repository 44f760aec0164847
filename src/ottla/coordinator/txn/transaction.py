"""One transactional id: its producer, its transaction, and the table of its states.

A `Transaction` is what one record of the log says, and never changes: a decision makes the next one
with `move`, which is the only way from state to state.  The newest record is the whole truth.

`producer_id` and `producer_epoch` are those that partitions know the transaction by.  They are also
what the producer must show, except while a prepared transaction has been handed to a new producer
(KIP-939): then `next_producer_id` and `next_producer_epoch` are the new producer's, and become the
current ones when the transaction is over.  In a transaction that uses up the last epoch of its
producer id they are the successors: a new id, and epoch 0.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, Final

from ottla.model import TopicPartition
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.values import NamedTuple, dataclass

MAX_EPOCH: Final = 2**15 - 1
LAST_CLIENT_EPOCH: Final = MAX_EPOCH - 1
"""A producer never gets the very last epoch: it is left to fence that producer with."""

NO_TIMEOUT_MS: Final = 2**31 - 1
"""What is stored as the timeout of transactions that have none, because they may be prepared."""

NO_TIME_MS: Final = -1

VERSION_1: Final = 0
"""How version 1 is stored: it is the absence of anything newer."""
VERSION_2: Final = 2


class State(Enum):
    """Where a transaction stands; the values are the names that the protocol reports."""

    EMPTY = "Empty"  # a producer, and nothing written yet
    ONGOING = "Ongoing"  # has partitions
    PREPARE_COMMIT = "PrepareCommit"  # decided; the markers are on their way
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"  # every partition has its marker
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"  # expired: the id is forgotten; never stored
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"  # on the way to an abort by us; never stored


_AT_REST: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})

# Every legal move, and when it is made.
MOVES: Mapping[State, frozenset[State]] = {
    # a producer again; partitions; an abort of nothing, which version 2 allows; expiry
    **dict.fromkeys(
        sorted(_AT_REST, key=lambda state: state.value),
        frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD}),
    ),
    State.ONGOING: frozenset(
        {
            State.ONGOING,  # more partitions, or a new producer for a prepared transaction
            State.PREPARE_COMMIT,
            State.PREPARE_ABORT,
            State.PREPARE_EPOCH_FENCE,  # a new producer, or a timeout
        }
    ),
    State.PREPARE_EPOCH_FENCE: frozenset({State.PREPARE_ABORT}),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),  # all markers are written
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.DEAD: frozenset(),
}


class Producer(NamedTuple):
    """A producer id and an epoch of it."""

    producer_id: int
    epoch: int

    @property
    def is_exhausted(self) -> bool:
        """Whether there is no higher epoch that a client may be given."""
        return self.epoch >= LAST_CLIENT_EPOCH


NO_PRODUCER: Final = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What the newest record of a transactional id says."""

    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID  # before the last move
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int
    started_ms: int = NO_TIME_MS
    client_version: int = VERSION_1

    @property
    def is_at_rest(self) -> bool:
        return self.state in _AT_REST

    @property
    def is_ending(self) -> bool:
        """Decided, and not yet over: nothing else may happen before."""
        return self.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_kept(self) -> bool:
        """Prepared by one producer, and handed to another who is to end it."""
        return not self.is_ending and self.next_producer_epoch != NO_PRODUCER_EPOCH

    @property
    def writer(self) -> Producer:
        """Whom the partitions know the transaction by."""
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def owner(self) -> Producer:
        """Who may end the transaction or begin the next one; in one that ends, who goes on."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return self.writer
        # Where Kafka uses up an id, it stores the next one without an epoch.
        return Producer(self.next_producer_id, max(self.next_producer_epoch, 0))

    def knows(self, producer_id: int) -> bool:
        return producer_id in (self.producer_id, self.owner.producer_id)

    def has_timed_out(self, now_ms: int) -> bool:
        return (
            self.state is State.ONGOING
            and self.timeout_ms != NO_TIMEOUT_MS
            and self.started_ms + self.timeout_ms < now_ms
        )

    def move(self, to: State, now_ms: int, **changes: Any) -> "Transaction":
        """This transaction in its next state, with `changes`."""
        assert to in MOVES[self.state], f"{self.state} -> {to}"
        return replace(
            self,
            state=to,
            previous_producer_id=self.producer_id,
            updated_ms=now_ms,
            **changes,
        )

    def completed(self, now_ms: int) -> "Transaction":
        """This transaction when every partition has its marker."""
        is_commit = self.state is State.PREPARE_COMMIT
        return self.move(
            State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT,
            now_ms,
            producer_id=self.owner.producer_id,
            producer_epoch=self.owner.epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
            partitions=frozenset(),
        )
