"""InitProducerId: who becomes the producer of a transactional id, and whom it fences.

A producer that brings its id and epoch goes on after an error (KIP-360), and may ask twice: the
epoch it had before the last bump is remembered, though not in the log, so a retry across a restart
is refused.  One that brings nothing is new, and all before it are fenced.
"""

from collections.abc import Callable
from typing import TypeAlias

from ottla.coordinator.config import TransactionConfig
from ottla.coordinator.txn.transaction import (
    NO_TIME_MS,
    NO_TIMEOUT_MS,
    Producer,
    State,
    Transaction,
)
from ottla.errors import ErrorCode
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.values import dataclass
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

FreshProducerId: TypeAlias = Callable[[], int | None]
"""Gives out a producer id that nobody had before, or `None` while there is none at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a producer asks for, and what is known of the one before it."""

    expected: Producer | None  # what it believes to be; None: it is new
    last_epoch: int  # before the last bump, -1: not known
    timeout_ms: int
    keeps_prepared: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class Next:
    """A decision: what to write down, and the epoch that a retry of the request would show."""

    transaction: Transaction
    last_epoch: int


def refusal(request: InitProducerIdRequest, config: TransactionConfig) -> ErrorCode:
    """What is wrong with a request, whatever the state of its transaction."""
    wants_two_phases = request.enable2_pc or request.keep_prepared_txn
    is_half = (request.producer_id == NO_PRODUCER_ID) != (
        request.producer_epoch == NO_PRODUCER_EPOCH
    )
    if not request.transactional_id or is_half:
        return ErrorCode.INVALID_REQUEST
    if wants_two_phases and not config.two_phase_commit_enable:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not request.enable2_pc and not 0 < request.transaction_timeout_ms <= config.max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def claim_of(request: InitProducerIdRequest, last_epoch: int, now_ms: int) -> Claim:
    """What a request that was not refused asks for."""
    is_new = request.producer_id == NO_PRODUCER_ID
    return Claim(
        expected=None if is_new else Producer(request.producer_id, request.producer_epoch),
        last_epoch=last_epoch,
        timeout_ms=NO_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms,
        keeps_prepared=request.keep_prepared_txn,
        now_ms=now_ms,
    )


def claim_error(current: Transaction, claim: Claim) -> ErrorCode:
    """Why this producer cannot have the id, or cannot have it yet.

    The epoch is checked in every state.  Kafka does not check it while a transaction is open, and
    so lets a fenced producer abort the transaction of its successor before it is told.
    """
    if current.is_ending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    expected, owner = claim.expected, current.owner
    if expected is None or expected == owner:
        return ErrorCode.NONE
    if expected.epoch != claim.last_epoch or (
        current.state is State.ONGOING and not current.is_kept
    ):
        return ErrorCode.PRODUCER_FENCED  # who has opened a transaction has heard of its epoch
    has_used_up_id = expected.producer_id == current.previous_producer_id and expected.is_exhausted
    is_retry = expected.producer_id == owner.producer_id or has_used_up_id
    return ErrorCode.NONE if is_retry else ErrorCode.PRODUCER_FENCED


def first(claim: Claim, fresh_producer_id: FreshProducerId) -> Next | ErrorCode:
    """The first producer of a transactional id."""
    producer_id = fresh_producer_id()
    if producer_id is None:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    transaction = Transaction(
        producer_id=producer_id,
        previous_producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=claim.timeout_ms,
        state=State.EMPTY,
        updated_ms=claim.now_ms,
    )
    return Next(transaction, NO_PRODUCER_EPOCH)


def again(
    current: Transaction, claim: Claim, fresh_producer_id: FreshProducerId
) -> Next | ErrorCode:
    """The next producer of an id at rest, or of one whose prepared transaction is kept."""
    owner, last_epoch = current.owner, claim.last_epoch
    if claim.expected is None or claim.expected == owner:
        last_epoch = NO_PRODUCER_EPOCH if claim.expected is None else owner.epoch
        bumped = bump(owner, fresh_producer_id)
        if bumped is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        owner = bumped
    if current.state is State.ONGOING:
        kept = current.move(
            State.ONGOING,
            claim.now_ms,
            next_producer_id=owner.producer_id,
            next_producer_epoch=owner.epoch,
            # Whoever takes over does not cut short what was prepared to wait.
            timeout_ms=max(current.timeout_ms, claim.timeout_ms),
        )
        return Next(kept, last_epoch)
    begun = current.move(
        State.EMPTY,
        claim.now_ms,
        producer_id=owner.producer_id,
        producer_epoch=owner.epoch,
        timeout_ms=claim.timeout_ms,
        started_ms=NO_TIME_MS,
    )
    return Next(begun, last_epoch)


def bump(producer: Producer, fresh_producer_id: FreshProducerId) -> Producer | None:
    """The next epoch, of a new id if this one has none left; `None` if there is no id at hand."""
    if not producer.is_exhausted:
        return Producer(producer.producer_id, producer.epoch + 1)
    producer_id = fresh_producer_id()
    return None if producer_id is None else Producer(producer_id, 0)
